package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/pgtest"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/postgres"
	"github.com/mongodb/amboy/registry"
)

// openEmpty opens a driver on a schema of its own.
func openEmpty(t *testing.T) (d *postgres.Driver, schema string) {
	t.Helper()
	schema = pgtest.Schema(t)
	return open(t, postgres.Options{URL: pgtest.URL(t), Schema: schema}), schema
}

// scoped returns a record that needs scopes.
func scoped(id string, priority int, scopes ...string) *driver.Record {
	r := newRecord(id)
	r.Priority, r.RequiredScopes = priority, scopes
	return r
}

// dependent returns a record that waits for others.
func dependent(id string, on ...string) *driver.Record {
	r := newRecord(id)
	r.Dependency = &registry.DependencyInterchange{Edges: on}
	return r
}

func end(ctx context.Context, t *testing.T, d *postgres.Driver, r *driver.Record, outcome amboy.Outcome) {
	t.Helper()
	r.Status.Completed, r.Status.Outcome = true, outcome
	errs, err := d.Complete(ctx, []driver.Completion{{Lease: driver.LeaseOf(r), Record: r}})
	require.NoError(t, errors.Join(append(errs, err)...))
}

// claimAt claims records of the queue without a name, and returns when there may be more.
func claimAt(t *testing.T, d *postgres.Driver, limit int, now time.Time) ([]*driver.Record, time.Time) {
	t.Helper()
	claimed, err := d.Claim(t.Context(), driver.ClaimRequest{
		Owner: "owner", Queues: []driver.Demand{{Limit: limit}}, Limit: limit, Now: now, LeaseTime: time.Minute,
	})
	require.NoError(t, err)
	return claimed.Records, claimed.Next
}

func count(t *testing.T, conn *pgx.Conn, schema, of string) (n int) {
	t.Helper()
	require.NoError(t, conn.QueryRow(t.Context(), "SELECT count(*) FROM "+schema+"."+of).Scan(&n))
	return n
}

func released(t *testing.T, d *postgres.Driver) int {
	t.Helper()
	s, err := d.Stats(t.Context(), "")
	require.NoError(t, err)
	return s.Pending - s.Blocked
}

func act(t *testing.T, d *postgres.Driver, id string, kind driver.ActionKind) (done int) {
	t.Helper()
	acted, err := d.Act(t.Context(), driver.ActRequest{Query: driver.Query{ID: id}, Action: driver.Action{Kind: kind}, Limit: 1})
	require.NoError(t, err)
	return acted.Done
}

func TestTheEndOfAJobReleasesManyDependentsInSmallTransactions(t *testing.T) {
	const dependents, most = 1500, 128
	for _, outcome := range []amboy.Outcome{"", amboy.OutcomeCanceled} {
		t.Run(fmt.Sprint("outcome ", outcome), func(t *testing.T) {
			d, _ := openEmpty(t)
			all := []*driver.Record{newRecord("job")}
			for i := range dependents {
				r := dependent(fmt.Sprint(i), "job")
				if i%10 == 0 {
					r.RequiredScopes = []string{fmt.Sprint(i)}
				}
				all = append(all, r)
			}
			insert(t.Context(), t, d, all...)
			job := claim(t, d, 1)[0]
			job.ForgetAt = time.Now().Add(-time.Hour)
			end(t.Context(), t, d, job, outcome)
			assert.Positive(t, released(t, d))
			assert.LessOrEqual(t, released(t, d), most)

			isTaken := func(why string) {
				t.Helper()
				errs, err := d.Insert(t.Context(), []*driver.Record{newRecord("job"), scoped("job", 0, "scope")})
				require.NoError(t, err)
				assert.True(t, amboy.IsDuplicateJobError(errs[0]), why)
				assert.True(t, amboy.IsDuplicateJobError(errs[1]), why)
			}
			isTaken("its dependents are being released")
			forgotten, err := d.Forget(t.Context(), time.Now(), 10)
			require.NoError(t, err)
			require.Zero(t, forgotten, "a new job would be taken for the removed one")

			for now := time.Now(); released(t, d) < dependents; {
				before := released(t, d)
				_, next := claimAt(t, d, 0, now) // all workers are busy
				require.Greater(t, released(t, d), before)
				if released(t, d) < dependents {
					require.Equal(t, now, next, "a claim goes on at once")
				}
			}
			_, _ = claimAt(t, d, 0, time.Now()) // it finds that nothing is left
			forgotten, err = d.Forget(t.Context(), time.Now(), 10)
			require.NoError(t, err)
			require.Equal(t, 1, forgotten)
			insert(t.Context(), t, d, newRecord("job"))
			for _, r := range claim(t, d, 20) {
				var failed []string
				if outcome != "" {
					failed = []string{"job"}
				}
				assert.Equal(t, failed, r.Dependency.Failed, r.JobID())
			}
		})
	}
}

func TestDependentsThatAreNotDueWaitForTheirTimeAfterTheirDependencyEnded(t *testing.T) {
	d, _ := openEmpty(t)
	late := dependent("late", "job")
	late.TimeInfo.WaitUntil = time.Now().Add(time.Hour)
	insert(t.Context(), t, d, newRecord("job"), late, dependent("both", "job", "late"))
	end(t.Context(), t, d, claim(t, d, 1)[0], "")
	require.Empty(t, claim(t, d, 10))
	got, _ := claimAt(t, d, 10, late.TimeInfo.WaitUntil.Add(time.Second))
	require.Equal(t, []string{"late"}, idsOf(got))
	end(t.Context(), t, d, got[0], "")
	require.Equal(t, []string{"both"}, idsOf(claim(t, d, 10)))
}

func TestFreeingAScopeMovesRecordsThatNeedAnotherScopeInSmallTransactions(t *testing.T) {
	const waiters, most = 2000, 2 * 257
	d, schema := openEmpty(t)
	conn := connect(t, pgtest.URL(t))
	all := []*driver.Record{scoped("first", 2, "first"), scoped("second", 2, "second")}
	for i := range waiters {
		all = append(all, scoped(fmt.Sprint(i), 1, "first", "second"))
	}
	insert(t.Context(), t, d, append(all, scoped("last", 0, "first"))...)
	holders := claim(t, d, 2)
	require.Len(t, holders, 2)
	require.Equal(t, waiters+1, count(t, conn, schema, "jobs WHERE waiting_for = 'first'"))

	end(t.Context(), t, d, holders[0], "")
	moved := count(t, conn, schema, "jobs WHERE waiting_for = 'second'")
	assert.Positive(t, moved)
	assert.LessOrEqual(t, moved, most)
	var last []*driver.Record
	for now, next := time.Now(), (time.Time{}); len(last) == 0; {
		require.NotZero(t, count(t, conn, schema, "leftovers"))
		last, next = claimAt(t, d, 10, now)
		require.True(t, len(last) > 0 || next.Equal(now), "a claim goes on at once")
	}
	require.Equal(t, []string{"last"}, idsOf(last))
	require.Equal(t, waiters, count(t, conn, schema, "jobs WHERE waiting_for = 'second'"))
	end(t.Context(), t, d, last[0], "")
	end(t.Context(), t, d, holders[1], "")
	for i := range 3 {
		got := claim(t, d, 10)
		require.Equal(t, []string{fmt.Sprint(i)}, idsOf(got))
		end(t.Context(), t, d, got[0], "")
	}
}

func TestFreeingAScopeExaminesFewWaitersInATransaction(t *testing.T) {
	const waiters, most = 100, 16
	d, schema := openEmpty(t)
	conn := connect(t, pgtest.URL(t))
	all := []*driver.Record{scoped("first", 3, "first")}
	for i := range waiters {
		second := fmt.Sprint("second of ", i)
		all = append(all, scoped("holder of "+second, 2, second), scoped(fmt.Sprint(i), 1, "first", second))
	}
	insert(t.Context(), t, d, append(all, scoped("last", 0, "first"))...)
	holders := claim(t, d, waiters+1)
	require.Len(t, holders, waiters+1)

	end(t.Context(), t, d, holders[0], "")
	assert.Equal(t, most, count(t, conn, schema, "jobs WHERE waiting_for LIKE 'second%'"))
	var last []*driver.Record
	for now := time.Now(); len(last) == 0; {
		require.NotZero(t, count(t, conn, schema, "leftovers"))
		last, _ = claimAt(t, d, 10, now)
	}
	require.Equal(t, []string{"last"}, idsOf(last))
	require.Zero(t, count(t, conn, schema, "leftovers"))
}

// A job was put while dependents of a deleted one with its ID were still to be released. Its own dependents were
// released with them, before it had run.
func TestDependentsOfAJobThatWasPutAgainWaitForIt(t *testing.T) {
	for name, putAgain := range map[string]func(t *testing.T, d *postgres.Driver) (put func()){
		"by a transaction that began before": func(t *testing.T, d *postgres.Driver) func() {
			tx := beginAt(t, pgx.RepeatableRead)
			return func() {
				errs, err := d.Insert(postgres.WithTx(t.Context(), tx), []*driver.Record{newRecord("job")})
				if errors.Join(append(errs, err)...) != nil {
					require.NoError(t, tx.Rollback(t.Context()))
					insert(t.Context(), t, d, newRecord("job"))
					return
				}
				require.NoError(t, tx.Commit(t.Context()))
			}
		},
		"by a statement that began before": func(t *testing.T, d *postgres.Driver) func() {
			conn := connect(t, pgtest.URL(t))
			tx, err := conn.Begin(t.Context())
			require.NoError(t, err)
			insert(postgres.WithTx(t.Context(), tx), t, d, newRecord("first"))
			inserted := make(chan []error, 1)
			go func() {
				errs, err := d.Insert(t.Context(), []*driver.Record{newRecord("first"), newRecord("job")})
				inserted <- append(errs, err)
			}()
			awaitBlocked(t, connect(t, pgtest.URL(t)), conn, 1)
			return func() {
				require.NoError(t, tx.Rollback(t.Context()))
				require.NoError(t, errors.Join(<-inserted...))
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			const dependents = 300 // more than one transaction releases
			d, _ := openEmpty(t)
			all := []*driver.Record{newRecord("job")}
			for i := range dependents {
				all = append(all, dependent(fmt.Sprint(i), "job"))
			}
			insert(t.Context(), t, d, all...)
			running := claim(t, d, 1)[0]
			put := putAgain(t, d)
			end(t.Context(), t, d, running, amboy.OutcomeCanceled)
			require.Equal(t, 1, act(t, d, "job", driver.Delete))
			put()
			insert(t.Context(), t, d, dependent("late", "job"))
			released := map[string]*driver.Record{}
			for range dependents {
				for _, r := range claim(t, d, dependents) {
					released[r.JobID()] = r
				}
			}
			assert.NotNil(t, released["job"])
			assert.Nil(t, released["late"], "it waits for the job that was put again")
			assert.Equal(t, []string{"job"}, released["299"].Dependency.Failed)
		})
	}
}
