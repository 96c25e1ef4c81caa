package schedule_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/internal/schedule"
)

// scoped returns an entry that takes its scopes when it starts.
func scoped(id string, priority int, scopes ...string) *entry {
	return &entry{ID: id, Priority: priority, Scopes: schedule.NewScopes(scopes, nil)}
}

// enqueued returns an entry that takes its scopes when it is added.
func enqueued(id string, scopes ...string) *entry {
	return &entry{ID: id, Scopes: schedule.NewScopes(scopes, scopes)}
}

func TestScopeHasOneHolder(t *testing.T) {
	f := newFixture(t)
	f.add(scoped("a", 0, "s"), scoped("b", 0, "s"), scoped("c", 0, "s"), scoped("free", 0))
	assert.Equal(t, 2, f.Ready(), "only one entry with the scope may run")
	f.next("a")
	f.next("free")
	f.noNext()
	assert.Equal(t, schedule.ScopeBlocked, f.get("b").Place())
	assert.Equal(t, schedule.Block{Scope: "s"}, f.get("b").Block())

	f.finish("a", true)
	f.next("b")
	f.noNext()
	f.finish("b", false)
	f.next("c")
}

func TestAnEntryThatRunsFirstTakesAPromise(t *testing.T) {
	f := newFixture(t)
	f.add(scoped("low", 0, "s", "t"))
	assert.Equal(t, schedule.Ready, f.get("low").Place())
	f.add(scoped("other", 0, "t"))
	assert.Equal(t, schedule.ScopeBlocked, f.get("other").Place())

	f.add(scoped("high", 1, "s"))
	assert.Equal(t, schedule.ScopeBlocked, f.get("low").Place())
	assert.Equal(t, schedule.Ready, f.get("other").Place(), "it gets the other scope of the revoked promise")
	f.next("high")
	f.next("other")
	f.noNext()
	f.finish("other", true)
	f.noNext()
	f.finish("high", true)
	f.next("low")
}

func TestAnEntryThatRunsLaterTakesNoPromise(t *testing.T) {
	f := newFixture(t)
	f.add(scoped("first", 0, "s"), scoped("equal", 0, "s"), scoped("low", -1, "s"))
	assert.Equal(t, []string{"first", "equal", "low"}, f.drain())
}

func TestAFreedScopeGoesToTheFirstWaitingEntry(t *testing.T) {
	f := newFixture(t)
	f.add(enqueued("holder", "red", "blue"), scoped("low", 0, "red", "blue"), scoped("high", 1, "blue"))
	f.next("holder")
	f.finish("holder", true)
	f.next("high")
	f.noNext()
	f.finish("high", true)
	f.next("low")
}

func TestAnEntryThatNoLongerWaitsForASmallLimitDoesNotHoldUpThoseWithALargerOne(t *testing.T) {
	for name, leave := range map[string]func(*fixture){
		"rescheduled": func(f *fixture) { f.Reschedule(f.get("small"), after(60), f.now) },
		"runs later":  func(f *fixture) { f.Prioritize(f.get("small"), -1) },
		"parked":      func(f *fixture) { f.Park(f.get("small")) },
		"finished":    func(f *fixture) { f.finish("small", false) },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.add(scoped("running", 0, amboy.LimitScope("l", 2)))
			f.next("running")
			f.add(scoped("small", 0, amboy.LimitScope("l", 1)), scoped("large", 0, amboy.LimitScope("l", 2)))
			f.noNext()
			leave(f)
			f.next("large")
			f.noNext()
		})
	}
}

func TestAnEntryThatLeavesReadyReleasesItsPromises(t *testing.T) {
	for name, leave := range map[string]func(*fixture){
		"finished": func(f *fixture) { f.finish("a", false) },
		"parked":   func(f *fixture) { f.Park(f.get("a")) },
		"expired":  func(f *fixture) { assert.Equal(f.t, []string{"a"}, f.advance(after(11))) },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.add(&entry{ID: "a", Scopes: schedule.NewScopes([]string{"s", "t"}, nil), DispatchBy: after(10)}, scoped("b", 0, "s"), scoped("c", 0, "t"))
			leave(f)
			f.next("b")
			f.next("c")
			f.noNext()
		})
	}
}

func TestAnEntryThatLeftItsLineIsSkipped(t *testing.T) {
	f := newFixture(t)
	f.add(scoped("a", 0, "s"), scoped("b", 0, "s"), scoped("c", 0, "s"), scoped("d", 0, "s"))
	f.next("a")
	f.finish("b", false)
	f.Park(f.get("c"))
	f.finish("a", true)
	f.next("d")
	f.Unpark(f.get("c"), f.now)
	f.finish("d", true)
	f.next("c")
}

func TestAllScopesAreNeeded(t *testing.T) {
	f := newFixture(t)
	f.add(scoped("red", 2, "red"), scoped("blue", 1, "blue"), scoped("both", 0, "red", "blue"))
	f.next("red")
	f.next("blue")
	f.finish("red", true)
	f.noNext()
	assert.Equal(t, "blue", f.get("both").Block().Scope)
	f.add(scoped("red again", -1, "red"))
	f.next("red again") // an entry that waits for one scope reserves no other
	f.finish("blue", true)
	f.noNext()
	f.finish("red again", true)
	f.next("both")
}

func TestRepeatedScopesCountOnce(t *testing.T) {
	f := newFixture(t)
	f.add(
		scoped("a", 0, "s", "s"),
		&entry{ID: "b", Scopes: schedule.NewScopes([]string{"s", "t", "s", "t"}, []string{"t", "t"})},
		scoped("c", 0, "s"),
	)
	assert.Equal(t, 1, f.Ready())
	assert.Equal(t, []string{"a", "b", "c"}, f.drain())
	assert.True(t, f.Idle())
}

func TestScopesAtPut(t *testing.T) {
	f := newFixture(t)
	f.add(&entry{ID: "a", Scopes: schedule.NewScopes([]string{"kept", "mine"}, []string{"kept"})})

	err := f.Add(enqueued("b", "kept"), f.now)
	assert.True(t, amboy.IsDuplicateJobScopeError(err))
	assert.True(t, amboy.IsDuplicateJobError(err))
	require.ErrorContains(t, err, `"kept"`)
	require.ErrorContains(t, err, `"b"`)
	_, ok := f.Get("b")
	assert.False(t, ok)

	f.add(scoped("c", 1, "kept"), scoped("d", 1, "mine"))
	f.next("d")
	f.noNext() // a waits for d, and c for a
	f.finish("d", true)
	f.next("a")
	f.noNext()
	f.finish("a", true)
	f.next("c")
}

func TestRefusedAddTakesNoScope(t *testing.T) {
	f := newFixture(t)
	f.add(enqueued("a", "held"))
	require.Error(t, f.Add(enqueued("b", "free", "held"), f.now))
	require.Error(t, f.Add(&entry{ID: "b", Scopes: schedule.NewScopes([]string{"free"}, []string{"free"}), Edges: []string{"nobody"}}, f.now))
	f.add(enqueued("b", "free"))
}

func TestAddTakesAPromisedScope(t *testing.T) {
	f := newFixture(t)
	f.add(scoped("promised", 9, "s", "t"), scoped("other", 0, "t"))
	f.add(enqueued("newcomer", "s"))
	assert.Equal(t, schedule.ScopeBlocked, f.get("promised").Place())
	f.next("other")
	f.next("newcomer")
	f.finish("other", true)
	f.noNext()
	f.finish("newcomer", true)
	f.next("promised")
}

// TestEnqueueScopeHasNoGap tries to take an enqueue scope of a job at every point of its life.
func TestEnqueueScopeHasNoGap(t *testing.T) {
	f := newFixture(t)
	job := func() *entry {
		return &entry{ID: "job", Scopes: schedule.NewScopes([]string{"kept", "mine"}, []string{"kept"})}
	}
	tryToTake := func() {
		t.Helper()
		require.True(t, amboy.IsDuplicateJobScopeError(f.Add(enqueued("thief", "kept"), f.now)))
		require.Equal(t, schedule.ScopeBlocked, f.get("patient").Place())
	}
	f.add(job(), scoped("patient", 9, "kept"))
	tryToTake()
	f.next("job")
	tryToTake()
	f.retry("job")
	tryToTake()
	f.add(scoped("rival", 0, "mine"))
	f.next("rival") // the scope that is taken when a job starts is free between attempts
	f.replace(job())
	tryToTake()
	f.noNext()
	f.finish("rival", true)
	f.Release(f.next("job"), after(10), f.now)
	tryToTake()
	f.advance(after(10))
	f.Park(f.next("job"))
	tryToTake()
	f.Unpark(f.get("job"), f.now)
	f.next("job")
	f.retry("job")
	tryToTake()
	f.finish("job", false)
	f.next("patient")
}

func TestNextAttemptWithOtherScopes(t *testing.T) {
	f := newFixture(t)
	f.add(enqueued("job", "kept", "given up", "taken later"), enqueued("other", "held"))
	f.next("job")
	f.retry("job")

	err := f.Replace(f.get("job"), enqueued("job", "kept", "held"), f.now)
	assert.True(t, amboy.IsDuplicateJobScopeError(err))
	assert.Equal(t, schedule.Retrying, f.get("job").Place())
	require.Error(t, f.Add(enqueued("thief", "given up"), f.now), "a failed Replace changes nothing")

	f.replace(&entry{ID: "job", Scopes: schedule.NewScopes([]string{"kept", "new", "taken later"}, []string{"kept", "new"})})
	for _, name := range []string{"kept", "new"} {
		require.Error(t, f.Add(enqueued("thief", name), f.now), name)
	}
	f.add(enqueued("first", "given up"), scoped("second", 1, "taken later"))
	f.next("second")
	f.next("other")
	f.next("first")
	f.noNext()
	f.finish("second", true)
	f.next("job")
	f.finish("job", true)
	f.add(enqueued("heir", "kept", "new", "taken later"))
	f.next("heir")
}

// Many entries wait for a scope. If each of them were examined, a start would take a hundred times as long.
func TestEntriesThatWaitForAHeldScopeCostNothing(t *testing.T) {
	const waiting, starts = 30_000, 3_000
	held := func(waiting int) *fixture {
		f := newFixture(t)
		f.add(scoped("holder", 1, "s"))
		f.next("holder")
		for i := range waiting {
			f.add(scoped(fmt.Sprint("waiting-", i), 0, "s"))
		}
		return f
	}
	alone, f := held(0), held(waiting)
	free := func(f *fixture) func(i int) {
		return func(i int) {
			f.add(scoped(fmt.Sprint("free-", i), 0, "t"))
			f.Finish(f.Next(), true, f.now)
			f.noNext()
			f.Advance(f.now)
			f.NextTime()
		}
	}
	usual := fastest(starts, free(alone))
	assert.Less(t, fastest(starts, free(f)), 10*usual)

	// The waiting entries run one after the other, in order.
	f.finish("holder", true)
	assert.Less(t, fastest(starts, func(i int) { f.Finish(f.next(fmt.Sprint("waiting-", i)), true, f.now) }), 10*usual)
}

// fastest returns how long the fastest of n calls took. Unlike their sum, it does not depend on what else the machine
// does.
func fastest(n int, call func(i int)) time.Duration {
	least := time.Duration(math.MaxInt64)
	for i := range n {
		begin := time.Now()
		call(i)
		least = min(least, time.Since(begin))
	}
	return least
}

// manyWaiters is the number of waiting entries in the tests of the cost of a release.
const manyWaiters = 10_000

// examined returns the number of groups that are examined while f runs.
func (f *fixture) examined(run func()) int {
	before := schedule.Examined(&f.Schedule)
	run()
	return schedule.Examined(&f.Schedule) - before
}

func TestTheCostOfAReleaseDoesNotDependOnEntriesThatNeedAnotherScope(t *testing.T) {
	f := newFixture(t)
	f.add(scoped("first", 1, "first"), scoped("second", 1, "second"))
	f.next("first")
	f.next("second")
	for i := range manyWaiters {
		f.add(scoped(fmt.Sprint(i), 0, "first", "second"))
	}
	f.add(scoped("other", -1, "first"))

	assert.LessOrEqual(t, f.examined(func() { f.finish("first", true) }), 2)
	f.next("other")
	assert.Equal(t, schedule.Block{Scope: "second"}, f.get("0").Block())
	assert.LessOrEqual(t, f.examined(func() { f.finish("second", true) }), 2)
	f.noNext()
	assert.LessOrEqual(t, f.examined(func() { f.finish("other", true) }), 2)
	for i := range 3 {
		f.next(fmt.Sprint(i))
		f.noNext()
		assert.LessOrEqual(t, f.examined(func() { f.finish(fmt.Sprint(i), true) }), 2)
	}
}

func TestAReleaseExaminesFewOfManyGroups(t *testing.T) {
	f := newFixture(t)
	f.add(scoped("first", 1, "first"))
	f.next("first")
	for i := range manyWaiters {
		second := fmt.Sprint("second of ", i)
		f.add(enqueued("holder "+second, second), scoped(fmt.Sprint(i), 0, "first", second))
	}
	f.add(scoped("last", -1, "first"), scoped("beside", -2, "beside"), scoped("after", -3, "beside"))
	ready := f.Ready()

	assert.LessOrEqual(t, f.examined(func() { f.finish("first", true) }), 16)
	assert.True(t, f.Unsettled())
	assert.LessOrEqual(t, f.examined(func() { f.finish("beside", true) }), 16)
	assert.Equal(t, schedule.Ready, f.get("after").Place(), "it does not wait until the other groups are examined")
	steps := 0
	for f.Unsettled() {
		at, ok := f.NextTime()
		require.True(t, ok)
		require.False(t, at.After(f.now))
		require.LessOrEqual(t, f.examined(func() { assert.Empty(t, f.Advance(f.now)) }), 16)
		steps++
	}
	assert.Less(t, steps, manyWaiters/16+2)
	assert.Equal(t, schedule.Ready, f.get("last").Place())
	assert.Equal(t, ready+1, f.Ready())
}
