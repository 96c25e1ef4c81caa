package postgres_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/pgtest"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/postgres"
)

// failures counts the statements that failed.
type failures struct {
	roundTrips
	n atomic.Int64
}

func (f *failures) TraceQueryEnd(_ context.Context, _ *pgx.Conn, data pgx.TraceQueryEndData) {
	f.note(data.Err)
}

func (f *failures) TraceBatchQuery(_ context.Context, _ *pgx.Conn, data pgx.TraceBatchQueryData) {
	f.note(data.Err)
}

func (f *failures) note(err error) {
	if err != nil {
		f.n.Add(1)
	}
}

// A process renews the leases of jobs whose ends are being written. Renewals and ends locked the same rows
// in different orders, as actions and puts did, and waited for each other for a second.
func TestARenewalAndAnotherChangeOfTheSameJobsWaitedForEachOther(t *testing.T) {
	type change func(ctx context.Context, d *postgres.Driver, running map[string]*driver.Record) error
	withScope := func(id string) *driver.Record { return scoped(id, 0, "scope of "+id) }
	ends := func(ctx context.Context, d *postgres.Driver, running map[string]*driver.Record) error {
		var ends []driver.Completion
		for _, id := range []string{"c", "a"} {
			r := *running[id]
			r.Status.Completed, r.Status.InProgress = true, false
			ends = append(ends, driver.Completion{Lease: driver.LeaseOf(&r), Record: &r})
		}
		errs, err := d.Complete(ctx, ends)
		return errors.Join(append(errs, err)...)
	}
	act := func(action driver.Action) change {
		return func(ctx context.Context, d *postgres.Driver, running map[string]*driver.Record) error {
			acted, err := d.Act(ctx, driver.ActRequest{
				Query: driver.Query{States: []amboy.JobState{amboy.StateRunning}}, Action: action, Limit: 10,
			})
			if err == nil && acted.Done != len(running) {
				err = errors.New("a job was left out")
			}
			return err
		}
	}
	put := func(ctx context.Context, d *postgres.Driver, _ map[string]*driver.Record) error {
		errs, err := d.Insert(ctx, []*driver.Record{dependent("dependent", "c", "a")})
		return errors.Join(append(errs, err)...)
	}
	for name, test := range map[string]struct {
		record func(id string) *driver.Record
		change change
	}{
		"ends":                      {newRecord, ends},
		"ends of scoped jobs":       {withScope, ends},
		"cancellations":             {newRecord, act(driver.Action{Kind: driver.Cancel})},
		"priorities":                {newRecord, act(driver.Action{Kind: driver.Prioritize, Priority: 1})},
		"a put that depends on two": {newRecord, put},
	} {
		t.Run(name, func(t *testing.T) {
			var failed failures
			config, err := pgxpool.ParseConfig(pgtest.URL(t))
			require.NoError(t, err)
			config.ConnConfig.Tracer = &failed
			pool, err := pgxpool.NewWithConfig(t.Context(), config)
			require.NoError(t, err)
			t.Cleanup(pool.Close)
			schema := pgtest.Schema(t)
			d := open(t, postgres.Options{Pool: pool, Schema: schema, PollOnly: true})
			running := map[string]*driver.Record{}
			for _, id := range []string{"c", "b", "a"} {
				insert(t.Context(), t, d, test.record(id))
				running[id] = claim(t, d, 1)[0]
			}
			leases := []driver.Lease{driver.LeaseOf(running["a"]), driver.LeaseOf(running["b"]), driver.LeaseOf(running["c"])}

			// The renewal stops behind the first job.
			tx := beginTx(t)
			_, err = tx.Exec(t.Context(), "SELECT 1 FROM "+schema+".jobs WHERE job_id = 'b' FOR UPDATE")
			require.NoError(t, err)
			before := failed.n.Load()
			results := make(chan error, 2)
			go func() {
				lost, err := d.Extend(t.Context(), leases, time.Minute)
				if err == nil && len(lost) > 0 {
					err = errors.New("a lease was lost")
				}
				results <- err
			}()
			awaitWaiting(t, schema, 1)
			go func() { results <- test.change(t.Context(), d, running) }()
			awaitWaiting(t, schema, 2)
			require.NoError(t, tx.Rollback(t.Context()))
			require.NoError(t, <-results)
			require.NoError(t, <-results)
			assert.Equal(t, before, failed.n.Load(), "statements that waited in vain")
		})
	}
}

// awaitWaiting waits until some statements on a schema wait for locks.
func awaitWaiting(t *testing.T, schema string, statements int) {
	t.Helper()
	conn := connect(t, pgtest.URL(t))
	require.Eventually(t, func() bool {
		var waiting int
		err := conn.QueryRow(t.Context(), `SELECT count(*) FROM pg_stat_activity
			WHERE wait_event_type = 'Lock' AND position($1 IN query) > 0`, `"`+schema+`"`).Scan(&waiting)
		return err == nil && waiting == statements
	}, time.Minute, time.Millisecond)
}
