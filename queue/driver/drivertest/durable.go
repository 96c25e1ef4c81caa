package drivertest

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/driver"
)

var durableRules = []rule{
	{"everything is kept when the store is reopened", durableClosed},
	{"everything is kept after the process was killed", durableKilled},
	{"leases, scopes, edges and keys hold when the store is reopened", durableHolds},
	{"a marked record does not run again after the process was killed", durableCancel},
	{"a cursor stays valid when the store is reopened", durableCursor},
	{"accepted records are kept after the process was killed during calls", durableKilledAmidCalls},
}

// reopen continues with another driver on the same store, after the previous one was
// closed, or abandoned as by a killed process.
func (f *fixture) reopen(killed bool) {
	f.Helper()
	if !killed {
		require.NoError(f, f.driver.Close(f.ctx))
	}
	f.use(f.harness.Reopen(f.T, f.driver))
}

// everything stores data of every kind in two queues.
func (f *fixture) everything() {
	f.Helper()
	everyState(f)
	other := f.in("other")
	other.retry(other.retrying(spec{id: "retried", scopes: []string{"s"}, enqueueScopes: []string{"s"}, uniqueKey: "key"}))
	other.insert(spec{id: "job", tags: []string{"x", "y"}, priority: 10}, spec{id: "forgotten", priority: 11})
	other.endAt(other.claimOne("forgotten"), amboy.StateSucceeded, f.after(1))
	require.Equal(f, 1, other.forget(f.after(1), 1))
	r := other.claimOne("job")
	other.setProgress(r, f.progress(0.5, "half"))
	other.cancel("job")
	f.maxRunning(7)
	other.pause(true)
	require.True(f, f.takeDuty("duty", "a", 0, 5))
	f.keep(f.note("kept", 5))
}

func durableClosed(f *fixture) {
	f.everything()
	unchanged := f.unchanged()
	f.reopen(false)
	unchanged()
}

func durableKilled(f *fixture) {
	f.everything()
	for range 2 {
		unchanged := f.unchanged()
		f.reopen(true)
		unchanged()
	}
}

func durableHolds(f *fixture) {
	s := []string{"s"}
	f.insert(spec{id: "running", scopes: s, priority: 1, uniqueKey: "key"}, spec{id: "waiting", scopes: s})
	f.insert(spec{id: "dependent", edges: []string{"running"}})
	r := f.claimOne("running")
	f.cancel("running")
	require.True(f, f.takeDuty("duty", "a", 0, 5))
	f.mark("mark", f.after(3))
	f.drain(true)
	for _, killed := range []bool{false, true} {
		f.reopen(killed)
		assert.False(f, f.tryExtend(driver.LeaseOf(r)))
		assert.Zero(f, f.recover())
		assert.Empty(f, f.claim(10))
		assert.Equal(f, []driver.Lease{driver.LeaseOf(r)}, f.toCancel(owner))
		assert.False(f, f.takeDuty("duty", "b", 1, 5))
		assert.Equal(f, f.after(3).UTC(), f.mark("mark", time.Time{}))
		require.ErrorIs(f, f.tryInsert(spec{id: "late"})[0], amboy.ErrQueueDraining)
	}
	f.drain(false)
	f.hasKey(true, "runs")
	f.refusedForScope(spec{id: "rival", scopes: s, enqueueScopes: s})
	f.end(r, amboy.StateCanceled)
	woken := f.claim(10)
	require.Equal(f, []string{"waiting", "dependent"}, jobIDs(woken))
	assert.Equal(f, []string{"running"}, woken[1].Dependency.Failed)
	f.hasKey(false, "has ended")
}

func durableCancel(f *fixture) {
	f.insert(spec{id: "job", retryable: true})
	f.claimOne("job")
	f.cancel("job")
	f.reopen(true)
	require.Equal(f, 1, f.recoverEnded())
	got := f.get("job")
	assert.Equal(f, amboy.StateCanceled, stateOf(got))
	assert.Equal(f, "not wanted", got.Status.Reason)
	assert.True(f, f.after(9).Equal(got.ForgetAt), "it may be forgotten at %s", got.ForgetAt)
	assert.Empty(f, f.claim(10))
}

func durableCursor(f *fixture) {
	f.fifteen()
	page := driver.PageRequest{Limit: 4}
	pages := f.pages(driver.Query{}, page, func([]string) { f.reopen(false) })
	assert.Equal(f, jobIDs(f.list()), slices.Concat(pages...))
}

// accepted holds the jobs whose Insert was not refused, and the jobs that ended.
type accepted struct {
	mu            sync.Mutex
	put, finished []string
}

// durableKilledAmidCalls abandons a driver while other goroutines call it, and then ends
// their contexts.
func durableKilledAmidCalls(f *fixture) {
	rounds := 1
	if *long {
		rounds = 10
	}
	for round := range rounds {
		var got accepted
		ctx, kill := context.WithCancel(f.ctx)
		var callers sync.WaitGroup
		for caller := range 3 {
			callers.Go(func() { f.call(ctx, fmt.Sprintf("%d-%d", round, caller), &got) })
		}
		f.awaitFinished(&got, 10)
		killed := f.driver
		f.use(f.harness.Reopen(f.T, killed))
		kill()
		callers.Wait()
		f.settles()
		for _, id := range got.put {
			f.get(id)
		}
		for _, id := range got.finished {
			f.hasState(id, amboy.StateSucceeded)
		}
		f.recoverEnded() // The records that ran when it was killed hold the scopes.
	}
	f.unchecked = true // There are many jobs.
	for stats := f.stats(); stats.Completed < stats.Total; stats = f.stats() {
		require.NoError(f, f.ctx.Err(), "every job must run to its end, and %s", stats)
		for _, r := range f.claim(1000) {
			f.end(r, amboy.StateSucceeded)
		}
	}
}

// settles waits until Stats counts what Find finds. A driver may still be finishing what
// a killed process, or a call whose context ended, has left undone.
func (f *fixture) settles() {
	f.Helper()
	for {
		var found amboy.QueueStats
		for _, r := range f.list() {
			found = counted(found, r)
		}
		stats := f.stats()
		if found.String() == stats.String() {
			return
		}
		require.NoError(f, f.ctx.Err(), "Stats must count what Find finds: %s is not %s", stats, found)
	}
}

// call puts and runs jobs until its context ends.
func (f *fixture) call(ctx context.Context, name string, got *accepted) {
	d := f.driver
	for i := 0; ctx.Err() == nil; i++ {
		s := spec{id: fmt.Sprintf("%s-%d", name, i), scopes: []string{fmt.Sprint(i % 2)}}
		if every(d.Insert(ctx, []*driver.Record{f.record(s)})) == nil {
			got.mu.Lock()
			got.put = append(got.put, s.id)
			got.mu.Unlock()
		}
		claimed, err := d.Claim(ctx, f.request(name, time.Now(), 1))
		if err != nil {
			continue
		}
		for _, r := range claimed.Records {
			c := driver.Completion{Lease: driver.LeaseOf(r), Record: ended(r, amboy.StateSucceeded)}
			if every(d.Complete(ctx, []driver.Completion{c})) == nil {
				got.mu.Lock()
				got.finished = append(got.finished, r.JobID())
				got.mu.Unlock()
			}
		}
	}
}

// awaitFinished waits until n jobs have ended.
func (f *fixture) awaitFinished(got *accepted, n int) {
	f.Helper()
	for f.ctx.Err() == nil {
		got.mu.Lock()
		finished := len(got.finished)
		got.mu.Unlock()
		if finished >= n {
			return
		}
		f.stats() // lets other goroutines run
	}
	require.Fail(f, "the jobs did not end")
}
