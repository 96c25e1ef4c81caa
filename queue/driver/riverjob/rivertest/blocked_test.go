package rivertest_test

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/riverjob"
)

// blockedBy claims jobs, and inserts a duplicate of the first one in a transaction of a client, which stays open until
// finish is called.
func blockedBy(w *world, d *riverjob.Driver, jobs int, leaseTime time.Duration) (running []*driver.Record, theirs *sql.Tx) {
	w.t.Helper()
	w.insert(pythonJob{kind: "x", unique: "first"})
	for range jobs - 1 {
		w.insert(pythonJob{kind: "x"})
	}
	claimed, err := d.Claim(w.ctx, driver.ClaimRequest{
		Owner: "me", Queues: []driver.Demand{{Queue: "default", Limit: jobs}}, Limit: jobs, Now: time.Now(), LeaseTime: leaseTime,
	})
	require.NoError(w.t, err)
	require.Len(w.t, claimed.Records, jobs)
	theirs, err = w.python.BeginTx(w.ctx, nil)
	require.NoError(w.t, err)
	w.t.Cleanup(func() { _ = theirs.Rollback() }) // Most tests have ended it.
	_, isDuplicate := w.insertIn(theirs, pythonJob{kind: "x", unique: "first"})
	require.True(w.t, isDuplicate)
	return claimed.Records, theirs
}

// soon bounds a call that must not wait for a transaction which stays open.
func soon(w *world) context.Context {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.ctx, 20*time.Second)
	w.t.Cleanup(cancel)
	return ctx
}

// A client that inserts a duplicate of a running job writes its row. While its transaction was open, no
// lease of the process was renewed, until all of its jobs ran again elsewhere.
func TestAnOpenTransactionOfAClientKeptAllLeasesFromBeingRenewed(t *testing.T) {
	w := newWorld(t)
	d := w.open()
	running, theirs := blockedBy(w, d, 3, time.Minute)
	leases := []driver.Lease{driver.LeaseOf(running[2]), driver.LeaseOf(running[1]), driver.LeaseOf(running[0])}
	unknown := leases[0]
	unknown.Name += "0000"
	lost, err := d.Extend(soon(w), append(leases, unknown), time.Hour)
	var blocked *driver.BlockedLeasesError
	require.ErrorAs(t, err, &blocked)
	assert.Equal(t, leases[2:], blocked.Leases)
	assert.Equal(t, []driver.Lease{unknown}, lost)
	assert.Equal(t, 2, ask[int](w, `SELECT count(*) FROM {s}.river_job WHERE attempted_by = '{me#1/1h0m0s}'`))

	require.NoError(t, theirs.Commit())
	lost, err = d.Extend(w.ctx, leases, time.Hour)
	require.NoError(t, err)
	assert.Empty(t, lost)
}

// The same for the ends of jobs, which are written together.
func TestAnOpenTransactionOfAClientKeptAllEndsFromBeingWritten(t *testing.T) {
	w := newWorld(t)
	d := w.open()
	running, theirs := blockedBy(w, d, 3, time.Minute)
	completions := make([]driver.Completion, len(running))
	for i, r := range running {
		completions[i] = driver.Completion{Lease: driver.LeaseOf(r), Record: r}
		r.Status.InProgress, r.Status.Completed = false, true
	}
	errs, err := d.Complete(soon(w), completions)
	require.NoError(t, err)
	require.ErrorIs(t, errs[0], driver.ErrBlocked)
	require.NoError(t, errs[1])
	require.NoError(t, errs[2])
	w.awaitCount("default", "completed", 2)

	require.NoError(t, theirs.Commit())
	errs, err = d.Complete(w.ctx, completions[:1])
	require.NoError(t, err)
	require.NoError(t, errs[0])
	w.awaitCount("default", "completed", 3)
}

// The same for jobs whose process is gone.
func TestAnOpenTransactionOfAClientKeptAllStaleJobsFromBeingRecovered(t *testing.T) {
	w := newWorld(t)
	d := w.open()
	running, theirs := blockedBy(w, d, 3, time.Microsecond)
	n, err := d.RecoverStale(soon(w))
	require.NoError(t, err)
	assert.Equal(t, len(running)-1, n)
	require.NoError(t, theirs.Commit())
	n, err = d.RecoverStale(w.ctx)
	require.NoError(t, err)
	assert.Equal(t, 1, n)
}

// An end that was repeated stored all metadata as it was claimed, over what another program had written
// since.
func TestARepeatedEndOverwroteMetadataOfOthers(t *testing.T) {
	w := newWorld(t)
	w.exec(`ALTER TABLE {s}.river_job ALTER metadata SET DEFAULT '{"theirs": "old"}'`)
	w.exec(`INSERT INTO {s}.river_job (args, kind, max_attempts) VALUES ('{}', 'x', 25)`)
	d := w.open()
	claimed, err := d.Claim(w.ctx, driver.ClaimRequest{
		Owner: "me", Queues: []driver.Demand{{Queue: "default", Limit: 1}}, Limit: 1, Now: time.Now(), LeaseTime: time.Minute,
	})
	require.NoError(t, err)
	require.Len(t, claimed.Records, 1)
	r := claimed.Records[0]
	completion := []driver.Completion{{Lease: driver.LeaseOf(r), Record: r}}
	r.Status.InProgress, r.Status.Completed = false, true

	tx, err := w.pool.Begin(w.ctx)
	require.NoError(t, err)
	_, err = tx.Exec(w.ctx, w.sql(`UPDATE {s}.river_job SET metadata = '{"theirs": "new"}'`))
	require.NoError(t, err)
	errs, err := d.Complete(soon(w), completion)
	require.NoError(t, err)
	require.ErrorIs(t, errs[0], driver.ErrBlocked)
	require.NoError(t, tx.Commit(w.ctx))
	errs, err = d.Complete(w.ctx, completion)
	require.NoError(t, err)
	require.NoError(t, errs[0])
	assert.JSONEq(t, `{"theirs": "new"}`, ask[string](w, `SELECT metadata::text FROM {s}.river_job WHERE state = 'completed'`))
}

// A retryable job whose key does not count in that state comes due while a client inserts another one with the key. As
// long as the client's transaction was open, no job of the queue was claimed.
func TestAnUncommittedInsertWithTheKeyOfADueJobStoppedItsQueue(t *testing.T) {
	w := newWorld(t)
	d := w.open()
	due := w.insert(pythonJob{kind: "x", unique: "k", states: retryableFree})
	later := w.insert(pythonJob{kind: "x", unique: "later", states: retryableFree})
	w.exec(`UPDATE {s}.river_job SET state = 'retryable', attempt = 1, scheduled_at = now() - interval '1 minute'`)
	theirs, err := w.python.BeginTx(w.ctx, nil)
	require.NoError(t, err)
	t.Cleanup(func() { _ = theirs.Rollback() }) // The test has ended it.
	_, isDuplicate := w.insertIn(theirs, pythonJob{kind: "x", unique: "k", states: retryableFree})
	require.False(t, isDuplicate)
	ready := w.insert(pythonJob{kind: "x"})

	claim := func() (ids []string) {
		claimed, err := d.Claim(soon(w), driver.ClaimRequest{
			Owner: "me", Queues: []driver.Demand{{Queue: "default", Limit: 10}}, Limit: 10, Now: time.Now(), LeaseTime: time.Minute,
		})
		require.NoError(t, err)
		for _, r := range claimed.Records {
			ids = append(ids, r.JobID())
		}
		return ids
	}
	assert.Equal(t, []string{fmt.Sprint(later), fmt.Sprint(ready)}, claim())
	require.NoError(t, theirs.Rollback())
	assert.Equal(t, []string{fmt.Sprint(due)}, claim())
}

// An action locks the jobs that it selects. While it waited for one of them, which a client had locked, no lease of the
// others was renewed, and no end was written.
func TestAnActionThatWaitedForAClientKeptOtherJobsFromBeingRenewed(t *testing.T) {
	w := newWorld(t)
	d := w.open()
	for range 3 {
		w.insert(pythonJob{kind: "x"})
	}
	claimed, err := d.Claim(w.ctx, driver.ClaimRequest{
		Owner: "me", Queues: []driver.Demand{{Queue: "default", Limit: 3}}, Limit: 3, Now: time.Now(), LeaseTime: time.Minute,
	})
	require.NoError(t, err)
	require.Len(t, claimed.Records, 3)
	theirs, err := w.pool.Begin(w.ctx)
	require.NoError(t, err)
	_, err = theirs.Exec(w.ctx, w.sql(`UPDATE {s}.river_job SET kind = kind WHERE id = (SELECT max(id) FROM {s}.river_job)`))
	require.NoError(t, err)

	var acted driver.Acted
	isDone := make(chan error, 1)
	go func() {
		var failure error
		acted, failure = d.Act(w.ctx, driver.ActRequest{Action: driver.Action{Kind: driver.Cancel}, Limit: 10})
		isDone <- failure
	}()
	w.eventually("the other jobs are to be canceled", func() bool {
		return ask[int](w, `SELECT count(*) FROM {s}.river_job WHERE metadata ? 'cancel_attempted_at'`) == 2
	})
	leases := []driver.Lease{driver.LeaseOf(claimed.Records[0]), driver.LeaseOf(claimed.Records[1])}
	lost, err := d.Extend(w.ctx, leases, time.Hour)
	require.NoError(t, err)
	assert.Empty(t, lost)
	require.NoError(t, theirs.Commit(w.ctx))
	require.NoError(t, <-isDone)
	assert.Equal(t, driver.Acted{Done: 3}, acted)
}

// begun counts the transactions of a driver.
type begun struct{ atomic.Int64 }

func (b *begun) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	if strings.HasPrefix(data.SQL, "BEGIN") {
		b.Add(1)
	}
	return ctx
}

func (b *begun) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// Up to 1,000 due jobs become available in one transaction. If the unique key of one was taken, there were 1,000.
func TestADueJobWhoseKeyWasTakenMadeATransactionOfEachOther(t *testing.T) {
	const others = 999
	w := newWorld(t)
	var transactions begun
	pool := poolWith(w, func(c *pgxpool.Config) { c.ConnConfig.Tracer = &transactions })
	due := w.insert(pythonJob{kind: "x", unique: "k", states: retryableFree})
	w.exec(`INSERT INTO {s}.river_job (args, kind, max_attempts) SELECT '{}', 'x', 25 FROM generate_series(1, $1)`, others)
	w.exec(`UPDATE {s}.river_job SET state = 'retryable', attempt = 1, scheduled_at = now() - interval '1 minute'`)
	w.insert(pythonJob{kind: "x", unique: "k", states: retryableFree})
	d := w.open(func(o *riverjob.Options) { o.Pool = pool })

	require.Len(t, claimOne(w.ctx, t, d), 1)
	w.eventually("all due jobs are available", func() bool {
		return ask[int](w, `SELECT count(*) FROM {s}.river_job WHERE state IN ('available', 'running')`) == others+1
	})
	assert.Equal(t, "discarded", w.row(due).State)
	t.Logf("%d transactions", transactions.Load())
	assert.Less(t, transactions.Load(), int64(others/4))
}
