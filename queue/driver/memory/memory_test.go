package memory_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/memory"
	"github.com/mongodb/amboy/registry"
)

// newDriver makes a driver, as the queue over it sees it.
func newDriver(t *testing.T, capacity int) driver.Driver {
	t.Helper()
	d, err := memory.New(memory.Options{Capacity: capacity, KeepFinished: 100})
	require.NoError(t, err)
	return d
}

// record makes a record of a job that is not retryable, and changes it.
func record(id string, changes ...func(*driver.Record)) *driver.Record {
	r := &driver.Record{Name: id, Type: "type"}
	for _, change := range changes {
		change(r)
	}
	return r
}

// attempt makes a record of an attempt of a retryable job.
func attempt(id string, number int, changes ...func(*driver.Record)) *driver.Record {
	r := record(id)
	r.RetryInfo = amboy.JobRetryInfo{Retryable: true, BaseJobID: id, CurrentAttempt: number}
	r.Name = driver.RecordName(id, r.RetryInfo)
	for _, change := range changes {
		change(r)
	}
	return r
}

func priority(p int) func(*driver.Record) { return func(r *driver.Record) { r.Priority = p } }

func scopes(names ...string) func(*driver.Record) {
	return func(r *driver.Record) { r.RequiredScopes = names }
}

// enqueueScopes are among those that scopes gave.
func enqueueScopes(names ...string) func(*driver.Record) {
	return func(r *driver.Record) { r.EnqueueScopes = names }
}

func edges(ids ...string) func(*driver.Record) {
	return func(r *driver.Record) { r.Dependency = &registry.DependencyInterchange{Edges: ids} }
}

func waitUntil(at time.Time) func(*driver.Record) {
	return func(r *driver.Record) { r.TimeInfo.WaitUntil = at }
}

func dispatchBy(at time.Time) func(*driver.Record) {
	return func(r *driver.Record) { r.TimeInfo.DispatchBy = at }
}

// ended is a copy of a record that ended, with the errors.
func ended(r *driver.Record, errs ...string) *driver.Record {
	done := *r
	done.Status.Completed, done.Status.InProgress = true, false
	done.Status.Errors, done.Status.ErrorCount = errs, len(errs)
	return &done
}

// failing is a copy of a record whose attempt ended, and that asks for another.
func failing(r *driver.Record) *driver.Record {
	done := ended(r, "failed")
	done.RetryInfo.NeedsRetry = true
	return done
}

// next is the next attempt of a job.
func next(r *driver.Record, changes ...func(*driver.Record)) *driver.Record {
	following := attempt(r.JobID(), r.RetryInfo.CurrentAttempt+1)
	following.RequiredScopes, following.EnqueueScopes = r.RequiredScopes, r.EnqueueScopes
	for _, change := range changes {
		change(following)
	}
	return following
}

func insert(t *testing.T, d driver.Driver, records ...*driver.Record) {
	t.Helper()
	errs, err := d.Insert(t.Context(), records)
	require.NoError(t, err)
	require.Len(t, errs, len(records))
	for i, failure := range errs {
		require.NoError(t, failure, records[i].Name)
	}
}

// insertOne inserts a record.
func insertOne(ctx context.Context, d driver.Driver, r *driver.Record) error {
	return only(d.Insert(ctx, []*driver.Record{r}))
}

// only is the error of a call about one item.
func only(errs []error, err error) error {
	if err != nil {
		return err
	}
	return errs[0]
}

func claim(t *testing.T, d driver.Driver, limit int) []*driver.Record {
	t.Helper()
	claimed, err := d.Claim(t.Context(), driver.ClaimRequest{Owner: "owner", Limit: limit, Now: time.Now()})
	require.NoError(t, err)
	return claimed.Records
}

// claimOne claims the record with that name, which must be the only one.
func claimOne(t *testing.T, d driver.Driver, name string) *driver.Record {
	t.Helper()
	records := claim(t, d, 10)
	require.Equal(t, []string{name}, names(records))
	return records[0]
}

// complete ends the attempt of a record that was claimed.
func complete(t *testing.T, d driver.Driver, claimed, done *driver.Record) {
	t.Helper()
	require.NoError(t, tryComplete(t.Context(), d, driver.LeaseOf(claimed), done))
}

func tryComplete(ctx context.Context, d driver.Driver, lease driver.Lease, done *driver.Record) error {
	return only(d.Complete(ctx, []driver.Completion{{Lease: lease, Record: done}}))
}

func handBack(ctx context.Context, d driver.Driver, h driver.HandBack) error {
	return only(d.Release(ctx, []driver.HandBack{h}))
}

func get(t *testing.T, d driver.Driver, id string) *driver.Record {
	t.Helper()
	r, err := d.Get(t.Context(), id)
	require.NoError(t, err)
	return r
}

func stats(t *testing.T, d driver.Driver) amboy.QueueStats {
	t.Helper()
	s, err := d.Stats(t.Context())
	require.NoError(t, err)
	return s
}

func stateOf(r *driver.Record) amboy.JobState {
	return amboy.StateOf(amboy.JobInfo{Status: r.Status, Time: r.TimeInfo, Retry: r.RetryInfo}, time.Now())
}

func names(records []*driver.Record) []string {
	var all []string
	for _, r := range records {
		all = append(all, r.Name)
	}
	return all
}

func TestOptions(t *testing.T) {
	for name, test := range map[string]struct {
		opts memory.Options
		err  string
	}{
		"valid":             {opts: memory.Options{KeepFinished: 1}},
		"negative capacity": {opts: memory.Options{Capacity: -1, KeepFinished: 1}, err: "Capacity must not be negative (is -1)"},
		"nothing kept":      {opts: memory.Options{Capacity: 1}, err: "KeepFinished must be at least 1 (is 0)"},
	} {
		t.Run(name, func(t *testing.T) {
			d, err := memory.New(test.opts)
			if test.err == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, test.err)
			assert.Nil(t, d)
		})
	}
}

func TestInsertGivesTheErrorOfEach(t *testing.T) {
	d := newDriver(t, 0)
	insert(t, d, record("old", scopes("held"), enqueueScopes("held")), attempt("retried", 0))
	records := []*driver.Record{
		record("after", edges("good")),
		record("old"),
		attempt("retried", 0),
		attempt("retried", 1),
		record("thief", scopes("held"), enqueueScopes("held")),
		record("lonely", edges("nobody")),
		record("left", edges("right")),
		record("right", edges("left")),
		record("good", edges("old")),
		record("good"),
		record("attempt-0.retried"), // the name is that of another job
	}
	errs, err := d.Insert(t.Context(), records)
	require.NoError(t, err)
	require.Len(t, errs, len(records))

	var invalid *amboy.InvalidJobError
	var cycle *amboy.DependencyCycleError
	duplicate := func(err error) bool {
		return amboy.IsDuplicateJobError(err) && !amboy.IsDuplicateJobScopeError(err)
	}
	for i, is := range []func(error) bool{
		func(err error) bool { return err == nil },
		duplicate,
		duplicate,
		duplicate,
		amboy.IsDuplicateJobScopeError,
		func(err error) bool { return errors.As(err, &invalid) && invalid.JobID == "lonely" },
		func(err error) bool { return errors.As(err, &cycle) && len(cycle.Path) == 3 },
		func(err error) bool { return errors.As(err, &cycle) && len(cycle.Path) == 3 },
		func(err error) bool { return err == nil },
		duplicate,
		duplicate,
	} {
		assert.True(t, is(errs[i]), "record %d: %v", i, errs[i])
	}
	all, err := d.List(t.Context())
	require.NoError(t, err)
	assert.ElementsMatch(t, []string{"old", "attempt-0.retried", "good", "after"}, names(all))
	assert.Equal(t, 4, stats(t, d).Total)

	r := claim(t, d, 10)[1]
	assert.Equal(t, "attempt-0.retried", r.Name)
	assert.Equal(t, "retried", r.JobID())
}

func TestRecordsAreCopies(t *testing.T) {
	d := newDriver(t, 0)
	r := record("a", priority(1))
	insert(t, d, r)
	r.Priority = 2
	got := get(t, d, "a")
	got.Priority = 3
	given := claimOne(t, d, "a")
	assert.Equal(t, 1, given.Priority)
	given.Priority = 4
	assert.Equal(t, 1, get(t, d, "a").Priority)
}

func TestClaimOrderAndLimit(t *testing.T) {
	d := newDriver(t, 0)
	insert(t, d, record("a"), record("high", priority(9)), record("b"), record("low", priority(-1)), record("c"))
	assert.Empty(t, claim(t, d, 0))
	assert.Equal(t, []string{"high"}, names(claim(t, d, 1)))
	assert.Equal(t, []string{"a", "b"}, names(claim(t, d, 2)))
	assert.Equal(t, []string{"c", "low"}, names(claim(t, d, 100)))
	assert.Empty(t, claim(t, d, 100))
}

func TestClaimTakesALease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDriver(t, 0)
		insert(t, d, record("a", scopes("kept", "mine"), enqueueScopes("kept")))
		waiting := get(t, d, "a")
		assert.Equal(t, []string{"kept"}, waiting.Scopes)
		assert.Equal(t, amboy.StatePending, stateOf(waiting))

		now := time.Now()
		claimed, err := d.Claim(t.Context(), driver.ClaimRequest{Owner: "first", Limit: 1, Now: now})
		require.NoError(t, err)
		assert.Zero(t, claimed.Next)
		require.Len(t, claimed.Records, 1)
		r := claimed.Records[0]
		assert.Equal(t, driver.Lease{Name: "a", Owner: "first", Count: 1}, driver.LeaseOf(r))
		assert.Equal(t, []string{"kept", "mine"}, r.Scopes)
		assert.Equal(t, now, r.Status.ModificationTime)
		assert.Equal(t, now, r.TimeInfo.Start)
		assert.Equal(t, amboy.StateRunning, stateOf(r))
		assert.Equal(t, r, get(t, d, "a"))

		require.NoError(t, handBack(t.Context(), d, driver.HandBack{Lease: driver.LeaseOf(r)}))
		given := get(t, d, "a")
		assert.Equal(t, []string{"kept"}, given.Scopes)
		assert.Empty(t, given.Status.Owner)
		assert.Zero(t, given.TimeInfo.Start)
		assert.Equal(t, amboy.StatePending, stateOf(given))

		again := claimOne(t, d, "a")
		assert.Equal(t, driver.Lease{Name: "a", Owner: "owner", Count: 2}, driver.LeaseOf(again))
	})
}

func TestClaimSaysWhenToComeBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDriver(t, 0)
		start := time.Now()
		insert(t, d,
			record("later", waitUntil(start.Add(time.Hour)), priority(1)),
			record("soon", waitUntil(start.Add(time.Minute)), dispatchBy(start.Add(2*time.Minute))),
		)
		claimAt := func(at time.Duration, limit int) driver.Claimed {
			claimed, err := d.Claim(t.Context(), driver.ClaimRequest{Owner: "owner", Limit: limit, Now: start.Add(at)})
			require.NoError(t, err)
			return claimed
		}
		claimed := claimAt(0, 10)
		assert.Empty(t, claimed.Records)
		assert.True(t, claimed.Next.Equal(start.Add(time.Minute)), "it is %s", claimed.Next)

		claimed = claimAt(2*time.Minute, 0)
		assert.Empty(t, claimed.Records, "it may still be started at its deadline")
		assert.True(t, claimed.Next.Equal(start.Add(2*time.Minute+1)), "it is %s", claimed.Next)

		claimed = claimAt(2*time.Minute+1, 0)
		assert.Equal(t, []string{"soon"}, names(claimed.Records), "what expired needs no free worker")
		assert.True(t, claimed.Next.Equal(start.Add(time.Hour)), "it is %s", claimed.Next)

		claimed = claimAt(time.Hour, 10)
		assert.Equal(t, []string{"later"}, names(claimed.Records))
		assert.Zero(t, claimed.Next)
	})
}

func TestExpiredRecords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDriver(t, 0)
		insert(t, d, record("a"), record("expired", edges("a"), dispatchBy(time.Now().Add(time.Second))), record("after", edges("expired")))
		time.Sleep(time.Minute)
		assert.Equal(t, amboy.StateExpired, stateOf(get(t, d, "expired")))
		records := claim(t, d, 1)
		assert.Equal(t, []string{"expired", "a"}, names(records))

		done := ended(records[0])
		done.Status.Outcome = amboy.OutcomeExpired
		complete(t, d, records[0], done)
		assert.Equal(t, []string{"expired"}, claimOne(t, d, "after").Dependency.Failed)
	})
}

func TestDependencies(t *testing.T) {
	d := newDriver(t, 0)
	insert(t, d, record("job", edges("good", "bad")), record("good"), record("bad"))
	assert.Equal(t, amboy.StateBlocked, stateOf(get(t, d, "job")))
	assert.Equal(t, "waits for 2 of the 2 jobs that it depends on", get(t, d, "job").Status.Reason)
	records := claim(t, d, 10)
	require.Equal(t, []string{"good", "bad"}, names(records))
	complete(t, d, records[1], ended(records[1], "no luck"))
	assert.Empty(t, claim(t, d, 10))
	complete(t, d, records[0], ended(records[0]))

	r := claimOne(t, d, "job")
	assert.Equal(t, []string{"bad"}, r.Dependency.Failed)
	assert.Empty(t, r.Status.Reason)
	complete(t, d, r, ended(r))

	insert(t, d, record("late", edges("bad")))
	assert.Equal(t, []string{"bad"}, claimOne(t, d, "late").Dependency.Failed)
}

func TestScopeHasOneHolder(t *testing.T) {
	d := newDriver(t, 0)
	insert(t, d, record("a", scopes("s")), record("b", scopes("s")), record("c"))
	records := claim(t, d, 10)
	require.Equal(t, []string{"a", "c"}, names(records))
	assert.Equal(t, amboy.StateBlocked, stateOf(get(t, d, "b")))
	assert.Equal(t, `waits for scope "s"`, get(t, d, "b").Status.Reason)
	complete(t, d, records[0], ended(records[0], "failed"))
	assert.Empty(t, get(t, d, "a").Scopes)
	claimOne(t, d, "b")
}

// TestStaleLeases makes every kind of write under every kind of lease that is not
// the record's.
func TestStaleLeases(t *testing.T) {
	leases := map[string]func(t *testing.T, d driver.Driver) driver.Lease{
		"of another owner": func(t *testing.T, d driver.Driver) driver.Lease {
			lease := driver.LeaseOf(claimOne(t, d, "job"))
			lease.Owner = "thief"
			return lease
		},
		"of an earlier claim": func(t *testing.T, d driver.Driver) driver.Lease {
			lease := driver.LeaseOf(claimOne(t, d, "job"))
			require.NoError(t, handBack(t.Context(), d, driver.HandBack{Lease: lease}))
			claimOne(t, d, "job")
			return lease
		},
		"that was handed back": func(t *testing.T, d driver.Driver) driver.Lease {
			lease := driver.LeaseOf(claimOne(t, d, "job"))
			require.NoError(t, handBack(t.Context(), d, driver.HandBack{Lease: lease}))
			return lease
		},
		"of a parked record": func(t *testing.T, d driver.Driver) driver.Lease {
			lease := driver.LeaseOf(claimOne(t, d, "job"))
			require.NoError(t, handBack(t.Context(), d, driver.HandBack{Lease: lease, Park: true}))
			return lease
		},
		"of a record that ended": func(t *testing.T, d driver.Driver) driver.Lease {
			r := claimOne(t, d, "job")
			complete(t, d, r, ended(r))
			return driver.LeaseOf(r)
		},
		"of a record that awaits its retry": func(t *testing.T, d driver.Driver) driver.Lease {
			r := claimOne(t, d, "job")
			failed := failing(r)
			failed.RetryInfo.Retryable = true
			complete(t, d, r, failed)
			return driver.LeaseOf(r)
		},
		"of a record that is not there": func(*testing.T, driver.Driver) driver.Lease {
			return driver.Lease{Name: "nobody", Owner: "owner", Count: 1}
		},
	}
	writes := map[string]func(t *testing.T, d driver.Driver, lease driver.Lease){
		"complete": func(t *testing.T, d driver.Driver, lease driver.Lease) {
			require.ErrorIs(t, tryComplete(t.Context(), d, lease, ended(record(lease.Name, priority(9)))), driver.ErrLeaseLost)
		},
		"release": func(t *testing.T, d driver.Driver, lease driver.Lease) {
			require.ErrorIs(t, handBack(t.Context(), d, driver.HandBack{Lease: lease, Reason: "stale"}), driver.ErrLeaseLost)
			require.ErrorIs(t, handBack(t.Context(), d, driver.HandBack{Lease: lease, Park: true}), driver.ErrLeaseLost)
		},
		"extend": func(t *testing.T, d driver.Driver, lease driver.Lease) {
			lost, err := d.Extend(t.Context(), []driver.Lease{lease}, time.Now().Add(time.Hour))
			require.NoError(t, err)
			assert.Equal(t, []driver.Lease{lease}, lost)
		},
	}
	for kind, leaseOf := range leases {
		for name, write := range writes {
			t.Run(name+" under a lease "+kind, func(t *testing.T) {
				d := newDriver(t, 0)
				insert(t, d, record("job"))
				lease := leaseOf(t, d)
				before, counts := get(t, d, "job"), stats(t, d)
				write(t, d, lease)
				assert.Equal(t, before, get(t, d, "job"))
				assert.Equal(t, counts, stats(t, d))
			})
		}
	}
}

// TestNoLeaseIsNoLease hands back and extends records that nobody claimed, under
// the lease that they show.
func TestNoLeaseIsNoLease(t *testing.T) {
	d := newDriver(t, 0)
	insert(t, d, record("a"), record("b", edges("a")), record("c"))
	parked := claim(t, d, 2)[1]
	require.NoError(t, handBack(t.Context(), d, driver.HandBack{Lease: driver.LeaseOf(parked), Park: true}))
	for _, id := range []string{"b", "c"} {
		lease := driver.LeaseOf(get(t, d, id))
		require.ErrorIs(t, handBack(t.Context(), d, driver.HandBack{Lease: lease}), driver.ErrLeaseLost)
		lost, err := d.Extend(t.Context(), []driver.Lease{lease}, time.Now())
		require.NoError(t, err)
		assert.Equal(t, []driver.Lease{lease}, lost)
	}
	assert.Empty(t, claim(t, d, 10))
}

func TestRecordThatNeverRanCanBeCompleted(t *testing.T) {
	d := newDriver(t, 0)
	insert(t, d, record("first"), attempt("job", 0, edges("first")))
	waiting := get(t, d, "job")
	complete(t, d, waiting, failing(waiting))
	require.NoError(t, d.Retry(t.Context(), waiting, next(waiting, edges("first"))))
	assert.Equal(t, amboy.StateBlocked, stateOf(get(t, d, "job")))

	first := claimOne(t, d, "first")
	complete(t, d, first, ended(first))
	again := get(t, d, "job")
	complete(t, d, again, ended(again))
	assert.Empty(t, claim(t, d, 10))
	assert.Equal(t, amboy.QueueStats{Completed: 3, Total: 3}, stats(t, d))
}

func TestExtendTouchesTheTimeAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDriver(t, 0)
		insert(t, d, record("a"), record("b"))
		before := claim(t, d, 2)
		time.Sleep(time.Minute)
		lost, err := d.Extend(t.Context(), []driver.Lease{driver.LeaseOf(before[0])}, time.Now())
		require.NoError(t, err)
		assert.Empty(t, lost)
		before[0].Status.ModificationTime = time.Now()
		assert.Equal(t, before[0], get(t, d, "a"))
		assert.Equal(t, before[1], get(t, d, "b"))
	})
}

func TestCompletionsAreIndependent(t *testing.T) {
	d := newDriver(t, 0)
	insert(t, d, record("a"), record("b"), record("c"))
	records := claim(t, d, 3)
	var completions []driver.Completion
	for _, r := range records {
		completions = append(completions, driver.Completion{Lease: driver.LeaseOf(r), Record: ended(r)})
	}
	completions[1].Lease.Count++
	errs, err := d.Complete(t.Context(), completions)
	require.NoError(t, err)
	require.Len(t, errs, 3)
	require.NoError(t, errs[0])
	require.ErrorIs(t, errs[1], driver.ErrLeaseLost)
	require.NoError(t, errs[2])
	assert.Equal(t, amboy.StateRunning, stateOf(get(t, d, "b")))
	assert.Equal(t, 2, stats(t, d).Completed)
}

func TestRecordKeepsItsName(t *testing.T) {
	d := newDriver(t, 0)
	insert(t, d, record("a"))
	r := claimOne(t, d, "a")
	renamed := ended(r)
	renamed.Name = "b"
	complete(t, d, r, renamed)
	assert.Equal(t, "a", get(t, d, "a").Name)
}

func TestRelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDriver(t, 0)
		insert(t, d,
			record("job", scopes("kept", "mine"), enqueueScopes("kept"), dispatchBy(time.Now().Add(time.Hour))),
			record("rival", scopes("mine")),
		)
		r := claimOne(t, d, "job")
		require.NoError(t, handBack(t.Context(), d, driver.HandBack{
			Lease: driver.LeaseOf(r), NotBefore: time.Now().Add(time.Minute), Reason: "the disk is full",
		}))
		waiting := get(t, d, "job")
		assert.Equal(t, amboy.StateBlocked, stateOf(waiting))
		assert.Equal(t, "the disk is full", waiting.Status.Reason)
		rival := claimOne(t, d, "rival")

		time.Sleep(time.Minute)
		assert.Empty(t, claim(t, d, 10))
		assert.Equal(t, `waits for scope "mine"`, get(t, d, "job").Status.Reason)
		complete(t, d, rival, ended(rival))
		r = claimOne(t, d, "job")
		assert.Empty(t, r.Status.Reason, "it runs now")

		require.NoError(t, handBack(t.Context(), d, driver.HandBack{Lease: driver.LeaseOf(r)}))
		time.Sleep(2 * time.Hour)
		assert.Equal(t, amboy.StateExpired, stateOf(get(t, d, "job")))
		assert.Equal(t, []string{"job"}, names(claim(t, d, 0)), "a hand-back does not stop the clock")
	})
}

func TestParkedRecords(t *testing.T) {
	d := newDriver(t, 0)
	insert(t, d, record("job"))
	r := claimOne(t, d, "job")
	require.NoError(t, handBack(t.Context(), d, driver.HandBack{Lease: driver.LeaseOf(r), Park: true, Reason: "unknown type"}))
	assert.Empty(t, claim(t, d, 10))
	parked := get(t, d, "job")
	assert.Equal(t, amboy.StateParked, stateOf(parked))
	assert.Equal(t, "unknown type", parked.Status.Reason)
	assert.Empty(t, parked.Status.Owner)
	assert.Equal(t, amboy.QueueStats{Pending: 1, Total: 1}, stats(t, d))
}

func TestRetry(t *testing.T) {
	d := newDriver(t, 0)
	insert(t, d,
		attempt("job", 0, scopes("kept", "mine"), enqueueScopes("kept")),
		record("after", edges("job")),
		record("rival", scopes("mine")),
	)
	thief := record("thief", scopes("kept"), enqueueScopes("kept"))
	require.True(t, amboy.IsDuplicateJobScopeError(insertOne(t.Context(), d, thief)))
	r := claim(t, d, 1)[0]
	require.Equal(t, "attempt-0.job", r.Name)
	failed := failing(r)
	complete(t, d, r, failed)
	retrying := get(t, d, "job")
	assert.Equal(t, amboy.StateRetrying, stateOf(retrying))
	assert.Equal(t, []string{"kept"}, retrying.Scopes)
	assert.Equal(t, amboy.QueueStats{Pending: 2, Blocked: 1, Completed: 1, Retrying: 1, Total: 3}, stats(t, d))
	require.True(t, amboy.IsDuplicateJobScopeError(insertOne(t.Context(), d, thief)))
	rival := claimOne(t, d, "rival")

	failed.RetryInfo.NeedsRetry = false
	require.NoError(t, d.Retry(t.Context(), failed, next(r)))
	require.ErrorIs(t, d.Retry(t.Context(), failed, next(r)), driver.ErrLeaseLost)
	require.ErrorIs(t, d.EndRetry(t.Context(), failed), driver.ErrLeaseLost)
	require.True(t, amboy.IsDuplicateJobScopeError(insertOne(t.Context(), d, thief)))
	assert.Equal(t, amboy.QueueStats{Pending: 2, Blocked: 2, Running: 1, Completed: 1, Total: 4}, stats(t, d))

	complete(t, d, rival, ended(rival))
	second := claimOne(t, d, "attempt-1.job")
	assert.Equal(t, 1, second.Status.ModificationCount)
	complete(t, d, second, ended(second))
	claimOne(t, d, "after")
	insert(t, d, thief)

	attempts, err := d.Attempts(t.Context(), "job")
	require.NoError(t, err)
	require.Equal(t, []string{"attempt-0.job", "attempt-1.job"}, names(attempts))
	assert.Equal(t, amboy.StateFailed, stateOf(attempts[0]))
	assert.Empty(t, attempts[0].Scopes)
	assert.Equal(t, amboy.StateSucceeded, stateOf(attempts[1]))
}

func TestRetryIsAllOrNothing(t *testing.T) {
	d := newDriver(t, 0)
	insert(t, d, attempt("job", 0, scopes("kept"), enqueueScopes("kept")), record("other", scopes("held"), enqueueScopes("held")))
	r := claim(t, d, 1)[0]
	require.ErrorIs(t, d.Retry(t.Context(), ended(r), next(r)), driver.ErrLeaseLost, "it runs")
	require.ErrorIs(t, d.Retry(t.Context(), record("nobody"), next(r)), driver.ErrLeaseLost)
	failed := failing(r)
	complete(t, d, r, failed)
	before, counts := get(t, d, "job"), stats(t, d)

	err := d.Retry(t.Context(), failed, next(r, scopes("kept", "free", "held"), enqueueScopes("free", "held")))
	assert.True(t, amboy.IsDuplicateJobScopeError(err))
	err = d.Retry(t.Context(), failed, attempt("job", 0))
	assert.True(t, amboy.IsDuplicateJobError(err))
	assert.False(t, amboy.IsDuplicateJobScopeError(err))
	assert.Equal(t, before, get(t, d, "job"))
	assert.Equal(t, counts, stats(t, d))
	insert(t, d, record("heir", scopes("free"), enqueueScopes("free")))
	assert.True(t, amboy.IsDuplicateJobScopeError(insertOne(t.Context(), d, record("thief", scopes("kept"), enqueueScopes("kept")))))
}

func TestEndRetry(t *testing.T) {
	d := newDriver(t, 0)
	insert(t, d, attempt("job", 0, scopes("kept"), enqueueScopes("kept")), record("after", edges("job")))
	r := claimOne(t, d, "attempt-0.job")
	require.ErrorIs(t, d.EndRetry(t.Context(), ended(r)), driver.ErrLeaseLost, "it runs")
	complete(t, d, r, failing(r))
	require.NoError(t, d.EndRetry(t.Context(), ended(r, "gave up")))
	require.ErrorIs(t, d.EndRetry(t.Context(), ended(r)), driver.ErrLeaseLost)

	assert.Equal(t, amboy.StateFailed, stateOf(get(t, d, "job")))
	assert.Equal(t, []string{"job"}, claimOne(t, d, "after").Dependency.Failed)
	insert(t, d, record("heir", scopes("kept"), enqueueScopes("kept")))
}

// everyState makes a driver with a record in each state but expired, named after
// it.
func everyState(t *testing.T) driver.Driver {
	t.Helper()
	d := newDriver(t, 0)
	for _, name := range []string{"parked", "retrying", "succeeded", "failed", "canceled"} {
		r := record(name)
		r.RetryInfo.Retryable = name == "retrying"
		insert(t, d, r)
	}
	for _, r := range claim(t, d, 10) {
		done := ended(r)
		switch r.Name {
		case "parked":
			require.NoError(t, handBack(t.Context(), d, driver.HandBack{Lease: driver.LeaseOf(r), Park: true}))
			continue
		case "retrying":
			done = failing(r)
		case "failed":
			done = ended(r, "failed")
		case "canceled":
			done.Status.Outcome = amboy.OutcomeCanceled
		}
		complete(t, d, r, done)
	}
	insert(t, d, record("running"))
	claimOne(t, d, "running")
	insert(t, d,
		record("scheduled", waitUntil(time.Now().Add(time.Hour))),
		record("pending"),
		record("blocked", edges("running")),
	)
	return d
}

func TestListByState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := everyState(t)
		insert(t, d, record("expired", dispatchBy(time.Now().Add(time.Second))))
		time.Sleep(time.Minute)
		for _, state := range amboy.JobStates() {
			records, err := d.List(t.Context(), state)
			require.NoError(t, err)
			assert.Equal(t, []string{string(state)}, names(records))
		}
		records, err := d.List(t.Context(), amboy.StateBlocked, amboy.StateFailed)
		require.NoError(t, err)
		assert.Equal(t, []string{"failed", "blocked"}, names(records), "in the order in which they were added")
		records, err = d.List(t.Context())
		require.NoError(t, err)
		assert.Equal(t, []string{
			"parked", "retrying", "succeeded", "failed", "canceled",
			"running", "scheduled", "pending", "blocked", "expired",
		}, names(records))
	})
}

func TestStats(t *testing.T) {
	assert.Equal(t, amboy.QueueStats{
		Pending:   4,
		Blocked:   1,
		Running:   1,
		Retrying:  1,
		Completed: 4,
		Total:     9,
	}, stats(t, everyState(t)))
}

func TestSaveChangesNoState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := everyState(t)
		all, err := d.List(t.Context())
		require.NoError(t, err)
		body, err := registry.DecodeJobInterchange([]byte(`{"job":{"saved":true}}`), amboy.JSON)
		require.NoError(t, err)
		counts := stats(t, d)
		for _, before := range all {
			saved := record(before.Name, priority(99), scopes("other"), edges("other"))
			saved.Job = body.Job
			saved.Status = amboy.JobStatusInfo{
				Owner: "thief", Completed: !before.Status.Completed, InProgress: !before.Status.InProgress,
				ModificationCount: 99, Errors: []string{"a", "b"}, ErrorCount: 2,
				Outcome: amboy.OutcomeExpired, Hold: amboy.HoldParked, Reason: "none",
			}
			saved.RetryInfo = amboy.JobRetryInfo{Retryable: true, NeedsRetry: true, CurrentAttempt: 9, MaxAttempts: 7}
			saved.TimeInfo = amboy.JobTimeInfo{WaitUntil: time.Now(), DispatchBy: time.Now()}
			require.NoError(t, d.Save(t.Context(), saved))

			want := *before
			want.Job = body.Job
			want.Status.Errors, want.Status.ErrorCount = []string{"a", "b"}, 2
			want.RetryInfo.MaxAttempts = 7
			assert.Equal(t, &want, get(t, d, before.Name))
		}
		assert.Equal(t, counts, stats(t, d))
		assert.Equal(t, []string{"pending"}, names(claim(t, d, 10)))
		assert.True(t, amboy.IsJobNotFoundError(d.Save(t.Context(), record("nobody"))))
	})
}

func TestGetAndAttempts(t *testing.T) {
	d := newDriver(t, 0)
	_, err := d.Get(t.Context(), "nobody")
	assert.True(t, amboy.IsJobNotFoundError(err))
	attempts, err := d.Attempts(t.Context(), "nobody")
	require.NoError(t, err)
	assert.Empty(t, attempts)
	insert(t, d, record("plain"))
	attempts, err = d.Attempts(t.Context(), "plain")
	require.NoError(t, err)
	assert.Empty(t, attempts, "it is not retryable")
	_, err = d.Get(t.Context(), "attempt-0.job")
	assert.True(t, amboy.IsJobNotFoundError(err))

	insert(t, d, attempt("job", 0, priority(1)))
	for i := range 3 {
		r := claim(t, d, 1)[0]
		require.Equal(t, fmt.Sprintf("attempt-%d.job", i), r.Name)
		complete(t, d, r, failing(r))
		require.NoError(t, d.Retry(t.Context(), ended(r, "failed"), next(r, priority(1))))
	}
	assert.Equal(t, "attempt-3.job", get(t, d, "job").Name)
	attempts, err = d.Attempts(t.Context(), "job")
	require.NoError(t, err)
	assert.Equal(t, []string{"attempt-0.job", "attempt-1.job", "attempt-2.job", "attempt-3.job"}, names(attempts))
}

func TestOldestFinishedRecordsAreForgotten(t *testing.T) {
	d, err := memory.New(memory.Options{KeepFinished: 2})
	require.NoError(t, err)
	insert(t, d, attempt("a", 0), record("b"), record("c"))
	for _, r := range claim(t, d, 3) {
		complete(t, d, r, ended(r))
	}
	records, err := d.List(t.Context())
	require.NoError(t, err)
	assert.Equal(t, []string{"b", "c"}, names(records))
	assert.Equal(t, 3, stats(t, d).Completed)
	insert(t, d, attempt("a", 0))
	claimOne(t, d, "attempt-0.a")
}

func TestRecoverStale(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDriver(t, 0)
		insert(t, d, record("fresh"), record("stale", scopes("s")), record("rival", scopes("s"), priority(-1)), record("pending", priority(-2)))
		records := claim(t, d, 2)
		time.Sleep(time.Minute)
		_, err := d.Extend(t.Context(), []driver.Lease{driver.LeaseOf(records[0])}, time.Now())
		require.NoError(t, err)

		recovered, err := d.RecoverStale(t.Context(), records[1].Status.ModificationTime)
		require.NoError(t, err)
		assert.Zero(t, recovered, "before means before")
		recovered, err = d.RecoverStale(t.Context(), time.Now())
		require.NoError(t, err)
		assert.Equal(t, 1, recovered)
		assert.Equal(t, amboy.StatePending, stateOf(get(t, d, "stale")))
		require.ErrorIs(t, tryComplete(t.Context(), d, driver.LeaseOf(records[1]), ended(records[1])), driver.ErrLeaseLost)

		again := claim(t, d, 1)[0]
		assert.Equal(t, "stale", again.Name)
		assert.Equal(t, 2, again.Status.ModificationCount)
		complete(t, d, records[0], ended(records[0]))
	})
}

func TestInsertWaitsForRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDriver(t, 2)
		insert(t, d, record("a"), record("b"))
		require.True(t, amboy.IsDuplicateJobError(insertOne(t.Context(), d, record("a"))), "a duplicate need not wait")

		var mu sync.Mutex
		var order []string
		for i := range 3 {
			go func() {
				name := fmt.Sprint("waiting-", i)
				assert.NoError(t, insertOne(t.Context(), d, record(name)))
				mu.Lock()
				defer mu.Unlock()
				order = append(order, name)
			}()
			synctest.Wait()
		}
		assert.Empty(t, order)
		first := claim(t, d, 1)[0]
		synctest.Wait()
		assert.Equal(t, []string{"waiting-0"}, order)

		complete(t, d, first, ended(first)) // it ran already, and makes no more room
		synctest.Wait()
		assert.Equal(t, []string{"waiting-0"}, order)
		claim(t, d, 2)
		synctest.Wait()
		assert.Equal(t, []string{"waiting-0", "waiting-1", "waiting-2"}, order)
	})
}

func TestInsertStopsWaitingWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDriver(t, 1)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		errs, err := d.Insert(ctx, []*driver.Record{record("a"), record("b"), record("c")})
		require.NoError(t, err)
		require.Len(t, errs, 3)
		require.NoError(t, errs[0])
		require.ErrorIs(t, errs[1], context.DeadlineExceeded)
		require.ErrorIs(t, errs[2], context.DeadlineExceeded)
	})
}

// TestRoomIsPassedOn makes room at the moment at which the first in line gives
// up, so that the room is for the second.
func TestRoomIsPassedOn(t *testing.T) {
	for range 100 {
		synctest.Test(t, func(t *testing.T) {
			d := newDriver(t, 1)
			insert(t, d, record("a"))
			ctx, leave := context.WithCancel(t.Context())
			defer leave()
			first, second := make(chan error), make(chan error)
			go func() { first <- insertOne(ctx, d, record("first")) }()
			synctest.Wait()
			go func() { second <- insertOne(t.Context(), d, record("second")) }()
			synctest.Wait()
			leave()
			claim(t, d, 1)
			if <-first == nil {
				claim(t, d, 1) // it got the room all the same
			}
			require.NoError(t, <-second)
		})
	}
}

// TestBatchLargerThanTheRoom needs somebody to claim the first records of a batch
// while the others wait, who is told of them only by the driver.
func TestBatchLargerThanTheRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDriver(t, 2)
		news := make(chan struct{}, 1)
		cancel := d.(driver.Notifier).Subscribe(func() {
			select {
			case news <- struct{}{}:
			default:
			}
		})
		defer cancel()
		var records []*driver.Record
		for i := range 10 {
			records = append(records, record(fmt.Sprint(i)))
		}
		inserted := make(chan []error)
		go func() {
			errs, err := d.Insert(t.Context(), records)
			inserted <- append(errs, err)
		}()
		for stats(t, d).Completed < len(records) {
			<-news
			for _, r := range claim(t, d, 10) {
				complete(t, d, r, ended(r))
			}
		}
		require.NoError(t, errors.Join(<-inserted...))
	})
}

func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDriver(t, 1)
		insert(t, d, attempt("job", 0, priority(1)))
		claimed := claimOne(t, d, "attempt-0.job")
		insert(t, d, record("pending"))
		var waiting error
		go func() { waiting = insertOne(t.Context(), d, record("waiting")) }()
		synctest.Wait()

		require.NoError(t, d.Close(t.Context()))
		require.NoError(t, d.Close(t.Context()))
		synctest.Wait()
		require.ErrorIs(t, waiting, driver.ErrClosed)
		for name, call := range writes(d, claimed) {
			require.ErrorIs(t, call(t.Context()), driver.ErrClosed, name)
		}
		assert.Equal(t, amboy.StateRunning, stateOf(get(t, d, "job")), "what is stored can be read")
		assert.Equal(t, amboy.QueueStats{Pending: 1, Running: 1, Total: 2}, stats(t, d))
		records, err := d.List(t.Context())
		require.NoError(t, err)
		assert.Len(t, records, 2)
	})
}

// writes are the calls that change something, on a driver in which a record is
// claimed.
func writes(d driver.Driver, claimed *driver.Record) map[string]func(context.Context) error {
	lease := driver.LeaseOf(claimed)
	return map[string]func(context.Context) error{
		"Insert": func(ctx context.Context) error { return insertOne(ctx, d, record("new")) },
		"Claim": func(ctx context.Context) error {
			_, err := d.Claim(ctx, driver.ClaimRequest{Owner: "owner", Limit: 1, Now: time.Now()})
			return err
		},
		"Extend": func(ctx context.Context) error {
			_, err := d.Extend(ctx, []driver.Lease{lease}, time.Now().Add(time.Hour))
			return err
		},
		"Complete": func(ctx context.Context) error {
			return tryComplete(ctx, d, lease, ended(claimed))
		},
		"Release":  func(ctx context.Context) error { return handBack(ctx, d, driver.HandBack{Lease: lease}) },
		"Retry":    func(ctx context.Context) error { return d.Retry(ctx, claimed, next(claimed)) },
		"EndRetry": func(ctx context.Context) error { return d.EndRetry(ctx, claimed) },
		"Save":     func(ctx context.Context) error { return d.Save(ctx, record(claimed.Name, priority(9))) },
		"RecoverStale": func(ctx context.Context) error {
			_, err := d.RecoverStale(ctx, time.Now().Add(time.Hour))
			return err
		},
	}
}

func TestEndedContext(t *testing.T) {
	d := newDriver(t, 0)
	insert(t, d, attempt("job", 0, priority(1)), record("pending"))
	claimed := claim(t, d, 1)[0]
	before, counts := get(t, d, "job"), stats(t, d)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	calls := writes(d, claimed)
	calls["Get"] = func(ctx context.Context) error {
		_, err := d.Get(ctx, "job")
		return err
	}
	calls["Attempts"] = func(ctx context.Context) error {
		_, err := d.Attempts(ctx, "job")
		return err
	}
	calls["List"] = func(ctx context.Context) error {
		_, err := d.List(ctx)
		return err
	}
	calls["Stats"] = func(ctx context.Context) error {
		_, err := d.Stats(ctx)
		return err
	}
	for name, call := range calls {
		require.ErrorIs(t, call(ctx), context.Canceled, name)
	}
	assert.Equal(t, before, get(t, d, "job"))
	assert.Equal(t, counts, stats(t, d))
}

func TestSubscribe(t *testing.T) {
	d := newDriver(t, 0)
	notifier := d.(driver.Notifier)
	calls, others := 0, 0
	cancel := notifier.Subscribe(func() { calls++ })
	cancelOther := notifier.Subscribe(func() { others++ })
	told := func(what string, change func()) {
		t.Helper()
		before := calls
		change()
		assert.Greater(t, calls, before, what)
	}
	told("Insert", func() { insert(t, d, attempt("job", 0)) })
	r := claimOne(t, d, "attempt-0.job")
	told("Release", func() { require.NoError(t, handBack(t.Context(), d, driver.HandBack{Lease: driver.LeaseOf(r)})) })
	r = claimOne(t, d, "attempt-0.job")
	told("RecoverStale", func() {
		_, err := d.RecoverStale(t.Context(), time.Now().Add(time.Hour))
		require.NoError(t, err)
	})
	r = claimOne(t, d, r.Name)
	told("Complete", func() { complete(t, d, r, failing(r)) })
	told("Retry", func() { require.NoError(t, d.Retry(t.Context(), ended(r), next(r))) })
	r = claimOne(t, d, "attempt-1.job")
	complete(t, d, r, failing(r))
	told("EndRetry", func() { require.NoError(t, d.EndRetry(t.Context(), ended(r))) })

	cancelOther()
	cancelOther()
	before, othersBefore := calls, others
	insert(t, d, record("other"))
	assert.Greater(t, calls, before)
	assert.Equal(t, othersBefore, others)
	cancel()
	before = calls
	insert(t, d, record("last"))
	assert.Equal(t, before, calls)
}

// TestManyAtOnce has many goroutines that insert, claim, complete and read.
func TestManyAtOnce(t *testing.T) {
	const goroutines, each, capacity = 16, 50, 20
	d := newDriver(t, capacity)
	var claims, holders sync.Map
	run := func(r *driver.Record) {
		_, twice := claims.LoadOrStore(r.Name, true)
		assert.False(t, twice, "record %q was claimed twice", r.Name)
		for _, scope := range r.Scopes {
			other, held := holders.LoadOrStore(scope, r.Name)
			assert.False(t, held, "scope %q of record %q is held by %v", scope, r.Name, other)
		}
		lost, extendErr := d.Extend(t.Context(), []driver.Lease{driver.LeaseOf(r)}, time.Now())
		assert.Empty(t, lost)
		for _, scope := range r.Scopes {
			holders.Delete(scope)
		}
		completeErr := tryComplete(t.Context(), d, driver.LeaseOf(r), ended(r))
		assert.NoError(t, errors.Join(extendErr, completeErr))
	}
	check := func() (idle bool) {
		counts, countErr := d.Stats(t.Context())
		_, listErr := d.List(t.Context(), amboy.StateFailed)
		assert.LessOrEqual(t, counts.Pending, capacity)
		assert.Equal(t, counts.Total, counts.Pending+counts.Running+counts.Completed)
		if err := errors.Join(countErr, listErr); err != nil {
			t.Error(err)
		}
		return counts.IsComplete() && counts.Total == goroutines*each
	}
	var all sync.WaitGroup
	for g := range goroutines {
		all.Go(func() {
			for !check() && !t.Failed() {
				claimed, err := d.Claim(t.Context(), driver.ClaimRequest{Owner: fmt.Sprint(g), Limit: 3, Now: time.Now()})
				for _, r := range claimed.Records {
					run(r)
				}
				assert.NoError(t, err)
			}
		})
		all.Go(func() {
			for i := range each {
				assert.NoError(t, insertOne(t.Context(), d, record(fmt.Sprintf("%d-%d", g, i), scopes(fmt.Sprint(i%3)))))
			}
		})
	}
	all.Wait()
}
