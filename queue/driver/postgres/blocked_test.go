package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/internal/pgtest"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/postgres"
)

// blockedBy opens a driver with running records, puts a record that depends on the first of them in
// a transaction, and leaves that open until finish is called.
func blockedBy(t *testing.T, records ...*driver.Record) (d *postgres.Driver, running []*driver.Record, finish func()) {
	t.Helper()
	opts := postgres.Options{URL: pgtest.URL(t), Schema: pgtest.Schema(t)}
	d = open(t, opts)
	insert(t.Context(), t, d, records...)
	running = claim(t, d, len(records))
	require.Len(t, running, len(records))
	tx, err := connect(t, opts.URL).Begin(t.Context())
	require.NoError(t, err)
	insert(postgres.WithTx(t.Context(), tx), t, d, dependent("dependent", running[0].JobID()))
	return d, running, func() { require.NoError(t, tx.Commit(t.Context())) }
}

func patience(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// One statement renews all leases of a process. It waited for an open transaction that had put a job
// which depends on one of them, until all of them had run out.
func TestAnOpenTransactionKeepsNoOtherLeasesFromBeingRenewed(t *testing.T) {
	records := []*driver.Record{newRecord("blocked"), newRecord("b"), newRecord("c"), newRecord("d"), newRecord("e")}
	d, running, finish := blockedBy(t, records...)
	leases := make([]driver.Lease, len(running))
	for i, r := range running {
		leases[i] = driver.LeaseOf(r)
	}
	for limit, tries := range map[time.Duration]int{
		2 * time.Second:  busyTries, // as for leases of eight seconds
		20 * time.Second: 1,
	} {
		var blocked *driver.BlockedLeasesError
		var lost []driver.Lease
		var err error
		for try := 0; try < tries && blocked == nil; try++ {
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			lost, err = d.Extend(ctx, leases, time.Minute)
			cancel()
			errors.As(err, &blocked)
		}
		require.NotNil(t, blocked, "%s: %v", limit, err)
		assert.Equal(t, leases[:1], blocked.Leases)
		assert.Empty(t, lost)
	}
	finish()
	lost, err := d.Extend(patience(t), leases, time.Minute)
	require.NoError(t, err)
	assert.Empty(t, lost)
}

// The same for the ends of jobs, which are written together.
func TestAnOpenTransactionKeepsNoOtherEndsFromBeingWritten(t *testing.T) {
	records := []*driver.Record{newRecord("blocked"), newRecord("b"), scoped("scoped", 0, "scope"), newRecord("d"), attemptOf("retried", 0)}
	d, running, finish := blockedBy(t, records...)
	completions := make([]driver.Completion, len(running))
	byID := map[string]int{}
	for i, r := range running {
		completions[i] = driver.Completion{Lease: driver.LeaseOf(r), Record: r}
		r.Status.Completed, r.Status.InProgress = true, false
		byID[r.JobID()] = i
	}
	retried := byID["retried"]
	completions[retried].Record.Status.ErrorCount, completions[retried].Record.Status.Errors = 1, []string{"failed"}
	completions[retried].Next = attemptOf("retried", 1)
	errs, err := d.Complete(patience(t), completions)
	require.NoError(t, err)
	for id, i := range byID {
		switch id {
		case "blocked", "scoped": // The transaction holds the lock of the queue.
			require.ErrorIs(t, errs[i], driver.ErrBlocked, id)
		default:
			require.NoError(t, errs[i], id)
		}
	}
	finish()
	for _, id := range []string{"blocked", "scoped"} {
		errs, err = d.Complete(patience(t), []driver.Completion{completions[byID[id]]})
		require.NoError(t, err)
		require.NoError(t, errs[0], id)
	}
	assert.ElementsMatch(t, []string{"dependent", "retried"}, idsOf(claim(t, d, 10)))
}

// The server sends the first results of a statement before it gets to the row that is blocked, and
// rolls all of it back.
func TestManyEndsAreWrittenAroundABlockedOne(t *testing.T) {
	records := make([]*driver.Record, 1000)
	for i := range records {
		records[i] = newRecord(fmt.Sprint(i))
	}
	d, running, finish := blockedBy(t, records...)
	completions, leases := make([]driver.Completion, len(running)), make([]driver.Lease, len(running))
	for i, r := range running {
		leases[i] = driver.LeaseOf(r)
		completions[i] = driver.Completion{Lease: leases[i], Record: r}
		r.Status.Completed, r.Status.InProgress = true, false
	}
	slices.Reverse(completions)
	errs, err := d.Complete(patience(t), completions)
	require.NoError(t, err)
	last := len(errs) - 1
	require.ErrorIs(t, errs[last], driver.ErrBlocked)
	require.NoError(t, errors.Join(errs[:last]...))
	finish()
	lost, err := d.Extend(patience(t), leases, time.Minute)
	require.NoError(t, err)
	assert.Equal(t, leases[1:], lost)
}

// A transaction that put a job with a scope into one queue held up claims from all queues, while that
// queue had a due job with a scope, and the recovery of leases in all queues.
func TestAnOpenTransactionKeepsNoOtherQueueWaiting(t *testing.T) {
	opts := postgres.Options{URL: pgtest.URL(t), Schema: pgtest.Schema(t)}
	d := open(t, opts)
	in := func(queue string, r *driver.Record) *driver.Record {
		r.Group, r.Name = queue, driver.RecordName(queue, r.Name, r.RetryInfo)
		return r
	}
	due := in("blocked", scoped("due", 0, "scope"))
	due.TimeInfo.WaitUntil = time.Now().Add(time.Hour)
	insert(t.Context(), t, d, due, in("blocked", newRecord("stale")), in("other", newRecord("stale")))
	claimIn := func(now time.Time, lease time.Duration) []string {
		t.Helper()
		claimed, err := d.Claim(patience(t), driver.ClaimRequest{
			Owner: "owner", Queues: []driver.Demand{{Queue: "blocked", Limit: 10}, {Queue: "other", Limit: 10}}, Limit: 20, Now: now, LeaseTime: lease,
		})
		require.NoError(t, err)
		return idsOf(claimed.Records)
	}
	require.Len(t, claimIn(time.Now(), time.Nanosecond), 2)
	tx, err := connect(t, opts.URL).Begin(t.Context())
	require.NoError(t, err)
	insert(postgres.WithTx(t.Context(), tx), t, d, in("blocked", scoped("in it", 0, "another")))

	recovered, err := d.RecoverStale(patience(t))
	require.NoError(t, err)
	assert.Equal(t, 1, recovered)
	later := time.Now().Add(2 * time.Hour)
	assert.Equal(t, []string{"stale"}, claimIn(later, time.Minute))
	require.NoError(t, tx.Rollback(t.Context()))
	recovered, err = d.RecoverStale(patience(t))
	require.NoError(t, err)
	assert.Equal(t, 1, recovered)
	assert.ElementsMatch(t, []string{"due", "stale"}, claimIn(later, time.Minute))
}

// A renewal and the ends of the same jobs wait for the same blocked row, each with the rows before it
// locked. The search of one counted the rows that the other had locked as blocked.
func TestARenewalBesideEndsLeavesOnlyTheBlockedRowOut(t *testing.T) {
	records := make([]*driver.Record, 200)
	for i := range records {
		records[i] = newRecord(fmt.Sprintf("%03d", i))
	}
	d, running, finish := blockedBy(t, records...)
	defer finish()
	var leases []driver.Lease
	completions := make([]driver.Completion, len(running))
	for i, r := range running {
		leases = append(leases, driver.LeaseOf(r))
		completions[i] = driver.Completion{Lease: leases[i], Record: r}
		r.Status.Completed, r.Status.InProgress = true, false
	}
	// The ends lock all rows but the first, and wait for that. The renewal waits for them, and gets the rows
	// when they are rolled back.
	leases = append(leases[1:], leases[0])
	completions = append(completions[1:], completions[0])
	var calls sync.WaitGroup
	ends := make(chan struct{})
	calls.Go(func() {
		<-ends
		_, err := d.Extend(patience(t), leases, time.Minute)
		var blocked *driver.BlockedLeasesError
		assert.ErrorAs(t, err, &blocked)
	})
	monitor := connect(t, pgtest.URL(t))
	calls.Go(func() {
		defer close(ends)
		assert.Eventually(t, func() bool {
			var waiting bool
			err := monitor.QueryRow(t.Context(), "SELECT EXISTS (SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%SET place = e.place%')").Scan(&waiting)
			return err == nil && waiting
		}, 10*time.Second, 10*time.Millisecond)
	})
	errs, err := d.Complete(patience(t), completions)
	require.NoError(t, err)
	n := 0
	for _, err := range errs {
		if err != nil {
			n++
		}
	}
	calls.Wait()
	assert.LessOrEqual(t, n, 1)
}
