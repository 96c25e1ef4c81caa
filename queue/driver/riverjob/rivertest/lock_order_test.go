package rivertest_test

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/internal/pgtest"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/riverjob"
)

// failures counts the statements that failed.
type failures struct{ n atomic.Int64 }

func (*failures) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	return ctx
}

func (f *failures) TraceQueryEnd(_ context.Context, _ *pgx.Conn, data pgx.TraceQueryEndData) {
	if data.Err != nil {
		f.n.Add(1)
	}
}

// A process renews the leases of jobs whose ends are being written. The renewal locked the same rows in
// another order, and the two waited for each other for a second, until the server ended one of them.
func TestARenewalAndTheEndsOfTheSameJobsWaitedForEachOther(t *testing.T) {
	w := newWorld(t)
	var failed failures
	config, err := pgxpool.ParseConfig(pgtest.URL(t))
	require.NoError(t, err)
	config.ConnConfig.Tracer = &failed
	pool, err := pgxpool.NewWithConfig(w.ctx, config)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	d := w.open(func(o *riverjob.Options) { o.Pool = pool })
	const jobs = 3
	for range jobs {
		w.insert(pythonJob{kind: "x"})
	}
	claimed, err := d.Claim(w.ctx, driver.ClaimRequest{
		Owner: "me", Queues: []driver.Demand{{Queue: "default", Limit: jobs}}, Limit: jobs, Now: time.Now(), LeaseTime: time.Minute,
	})
	require.NoError(t, err)
	require.Len(t, claimed.Records, jobs)
	var leases []driver.Lease
	var completions []driver.Completion
	for _, r := range claimed.Records {
		leases = append(leases, driver.LeaseOf(r))
		r.Status.InProgress, r.Status.Completed = false, true
		completions = append(completions, driver.Completion{Lease: driver.LeaseOf(r), Record: r})
	}
	slices.Reverse(leases)
	// In a small table, the server would read the rows in their own order.
	w.exec(`INSERT INTO {s}.river_job (kind, args, max_attempts, state, finalized_at) SELECT 'other', '{}', 25, 'completed', now() FROM generate_series(1, 5000)`)
	w.exec(`ANALYZE {s}.river_job`)
	middle := claimed.Records[1].JobID()

	tx, err := w.pool.Begin(w.ctx)
	require.NoError(t, err)
	_, err = tx.Exec(w.ctx, w.sql(`SELECT 1 FROM {s}.river_job WHERE id::text = $1 FOR UPDATE`), middle)
	require.NoError(t, err)
	before := failed.n.Load()
	results := make(chan error, 2)
	go func() {
		lost, err := d.Extend(w.ctx, leases, time.Minute)
		if err == nil && len(lost) > 0 {
			err = errors.New("a lease was lost")
		}
		results <- err
	}()
	w.awaitWaiting(1)
	go func() {
		errs, err := d.Complete(w.ctx, []driver.Completion{completions[0], completions[2]})
		results <- errors.Join(append(errs, err)...)
	}()
	w.awaitWaiting(2)
	require.NoError(t, tx.Rollback(w.ctx))
	require.NoError(t, <-results)
	require.NoError(t, <-results)
	assert.Equal(t, before, failed.n.Load(), "statements that failed")
}

// awaitWaiting waits until some statements on the schema wait for locks.
func (w *world) awaitWaiting(statements int) {
	w.t.Helper()
	w.eventually("statements wait for locks", func() bool {
		return statements == ask[int](w, `SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND position($1 IN query) > 0`, w.schema)
	})
}
