package schedule_test

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/internal/schedule"
)

type entry = schedule.Entry[string]

// epoch is the time at which the tests begin.
var epoch = time.Date(2026, time.January, 2, 3, 4, 5, 0, time.UTC)

// after returns the time a number of seconds after epoch.
func after(seconds int) time.Time { return epoch.Add(time.Duration(seconds) * time.Second) }

// fixture is a Schedule with the current time.
type fixture struct {
	schedule.Schedule[string]
	t   *testing.T
	now time.Time
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	return &fixture{Schedule: schedule.Schedule[string]{KeepFinished: 1000}, t: t, now: epoch}
}

func (f *fixture) add(entries ...*entry) {
	f.t.Helper()
	for _, e := range entries {
		require.NoError(f.t, f.Add(e, f.now))
	}
}

func (f *fixture) get(id string) *entry {
	f.t.Helper()
	e, ok := f.Get(id)
	require.True(f.t, ok, "there is no entry %q", id)
	return e
}

// next starts the next entry, which must have the given ID.
func (f *fixture) next(id string) *entry {
	f.t.Helper()
	e := f.Next()
	require.NotNil(f.t, e, "there is no next entry, and it should be %q", id)
	require.Equal(f.t, id, e.ID)
	return e
}

func (f *fixture) noNext() {
	f.t.Helper()
	if e := f.Next(); e != nil {
		require.Empty(f.t, e.ID, "an entry that may not run was started")
	}
}

func (f *fixture) finish(id string, succeeded bool) {
	f.t.Helper()
	f.Finish(f.get(id), succeeded, f.now)
}

// retry ends an attempt of a running entry.
func (f *fixture) retry(id string) {
	f.t.Helper()
	f.Retry(f.get(id))
}

// replace replaces a retrying entry by its next attempt.
func (f *fixture) replace(next *entry) {
	f.t.Helper()
	require.NoError(f.t, f.Replace(f.get(next.ID), next, f.now))
}

// advance moves the time, and returns the IDs of expired entries.
func (f *fixture) advance(to time.Time) []string {
	f.t.Helper()
	f.now = to
	return ids(f.Advance(to))
}

// drain starts and finishes entries until none may run, and returns their IDs.
func (f *fixture) drain() []string {
	f.t.Helper()
	var order []string
	for e := f.Next(); e != nil; e = f.Next() {
		order = append(order, e.ID)
		f.Finish(e, true, f.now)
	}
	return order
}

func ids(entries []*entry) []string {
	var all []string
	for _, e := range entries {
		all = append(all, e.ID)
	}
	return all
}

func TestOrder(t *testing.T) {
	for name, test := range map[string]struct {
		entries []*entry
		order   []string
	}{
		"arrival": {
			entries: []*entry{{ID: "c"}, {ID: "a"}, {ID: "b"}},
			order:   []string{"c", "a", "b"},
		},
		"priority": {
			entries: []*entry{{ID: "low", Priority: -1}, {ID: "default"}, {ID: "high", Priority: 1}},
			order:   []string{"high", "default", "low"},
		},
		"arrival among equals": {
			entries: []*entry{{ID: "b"}, {ID: "h2", Priority: 5}, {ID: "a"}, {ID: "h1", Priority: 5}},
			order:   []string{"h2", "h1", "b", "a"},
		},
		"extremes": {
			entries: []*entry{{ID: "min", Priority: math.MinInt}, {ID: "zero"}, {ID: "max", Priority: math.MaxInt}},
			order:   []string{"max", "zero", "min"},
		},
		"extremes that wait for a scope": {
			entries: []*entry{
				{ID: "first", Priority: math.MaxInt, Scopes: schedule.NewScopes([]string{"s"}, nil)},
				{ID: "min", Priority: math.MinInt, Scopes: schedule.NewScopes([]string{"s"}, nil)},
				{ID: "zero", Scopes: schedule.NewScopes([]string{"s"}, nil)},
			},
			order: []string{"first", "zero", "min"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.add(test.entries...)
			assert.Equal(t, test.order, f.drain())
			assert.True(t, f.Idle())
		})
	}
}

func TestManyKeepTheirOrder(t *testing.T) {
	f := newFixture(t)
	var want []string
	for priority := 9; priority >= 0; priority-- {
		for i := range 100 {
			want = append(want, fmt.Sprint(priority, "-", i))
		}
	}
	for i := range 100 {
		for priority := range 10 {
			f.add(&entry{ID: fmt.Sprint(priority, "-", i), Priority: priority})
		}
	}
	assert.Equal(t, want, f.drain())
}

func TestTimers(t *testing.T) {
	f := newFixture(t)
	f.add(
		&entry{ID: "later", WaitUntil: after(20), Priority: 9},
		&entry{ID: "soon", WaitUntil: after(10)},
		&entry{ID: "soon too", WaitUntil: after(10), Priority: 1},
		&entry{ID: "due", WaitUntil: epoch},
		&entry{ID: "past", WaitUntil: after(-10)},
	)
	assert.Equal(t, schedule.Scheduled, f.get("soon").Place())
	at, ok := f.NextTime()
	assert.True(t, ok)
	assert.True(t, at.Equal(after(10)), "it is %s", at)
	assert.Equal(t, []string{"due", "past"}, f.drain())

	assert.Empty(t, f.advance(after(10).Add(-1)))
	f.noNext()
	assert.Empty(t, f.advance(after(10)))
	assert.Equal(t, []string{"soon too", "soon"}, f.drain())

	assert.Empty(t, f.advance(after(30)))
	assert.Equal(t, []string{"later"}, f.drain())
	_, ok = f.NextTime()
	assert.False(t, ok)
}

func TestDistantTimes(t *testing.T) {
	distant := time.Date(9999, time.December, 31, 0, 0, 0, 0, time.UTC)
	ancient := time.Date(1, time.January, 2, 0, 0, 0, 0, time.UTC)
	f := newFixture(t)
	f.add(
		&entry{ID: "never due", WaitUntil: distant},
		&entry{ID: "never expires", DispatchBy: distant},
		&entry{ID: "long due", WaitUntil: ancient},
		&entry{ID: "long expired", DispatchBy: ancient},
	)
	at, ok := f.NextTime()
	assert.True(t, ok)
	assert.True(t, at.Before(epoch), "it is %s", at)
	assert.Equal(t, []string{"long expired"}, f.advance(epoch))
	assert.Equal(t, []string{"never expires", "long due"}, f.drain())

	at, ok = f.NextTime()
	assert.True(t, ok)
	assert.True(t, at.After(after(100*365*24*3600)), "it is %s", at)
}

func TestJobMayStartAtItsDeadline(t *testing.T) {
	f := newFixture(t)
	f.add(&entry{ID: "a", DispatchBy: after(10)})
	at, ok := f.NextTime()
	assert.True(t, ok)
	assert.True(t, at.Equal(after(10).Add(1)), "it is %s", at)

	assert.Empty(t, f.advance(after(10)))
	f.next("a")
	_, ok = f.NextTime()
	assert.False(t, ok, "a job that started can't expire")
	assert.Empty(t, f.advance(after(20)))
}

func TestExpiry(t *testing.T) {
	// Each job expires at 10, in the place to which prepare moves it.
	for name, test := range map[string]struct {
		job     entry
		prepare func(f *fixture)
		place   schedule.Place
	}{
		"ready":     {place: schedule.Ready},
		"scheduled": {job: entry{WaitUntil: after(10)}, place: schedule.Scheduled},
		"waiting":   {job: entry{Edges: []string{"other"}}, place: schedule.Waiting},
		"blocked": {
			job:   entry{Scopes: schedule.NewScopes([]string{"held"}, nil)},
			place: schedule.ScopeBlocked,
		},
		"released": {
			prepare: func(f *fixture) { f.Release(f.next("job"), time.Time{}, f.now) },
			place:   schedule.Ready,
		},
		"postponed": {
			prepare: func(f *fixture) { f.Release(f.next("job"), after(100), f.now) },
			place:   schedule.Postponed,
		},
		"unparked": {
			prepare: func(f *fixture) {
				f.Park(f.get("job"))
				f.Unpark(f.get("job"), f.now)
			},
			place: schedule.Ready,
		},
		"expired and released": {
			prepare: func(f *fixture) {
				f.advance(after(11))
				f.Release(f.get("job"), time.Time{}, f.now)
			},
			place: schedule.Ready,
		},
		"expired while waiting, and released": {
			job: entry{Edges: []string{"other"}},
			prepare: func(f *fixture) {
				f.advance(after(11))
				f.Release(f.get("job"), after(100), f.now)
			},
			place: schedule.Waiting,
		},
		"next attempt": {
			prepare: func(f *fixture) {
				f.next("job")
				f.retry("job")
				f.replace(&entry{ID: "job", DispatchBy: after(10)})
			},
			place: schedule.Ready,
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.add(&entry{ID: "holder", Scopes: schedule.NewScopes([]string{"held"}, []string{"held"}), WaitUntil: after(1000)})
			f.add(&entry{ID: "other", WaitUntil: after(1000)})
			job := test.job
			job.ID, job.DispatchBy = "job", after(10)
			f.add(&job)
			if test.prepare != nil {
				test.prepare(f)
			}
			assert.Equal(t, test.place, f.get("job").Place())

			assert.Equal(t, []string{"job"}, f.advance(after(12)))
			assert.Equal(t, schedule.Running, f.get("job").Place())
			assert.Empty(t, f.advance(after(13)), "an expired entry is returned once")
			f.finish("job", false)
			assert.Equal(t, schedule.Finished, f.get("job").Place())
			f.noNext()
		})
	}
}

func TestParkedAndRetryingJobsDoNotExpire(t *testing.T) {
	f := newFixture(t)
	f.add(&entry{ID: "retrying", DispatchBy: after(10)}, &entry{ID: "parked", DispatchBy: after(10)})
	f.next("retrying")
	f.retry("retrying")
	f.Park(f.get("parked"))
	assert.Empty(t, f.advance(after(20)))
	_, ok := f.NextTime()
	assert.False(t, ok)
}

func TestExpiryIsInOrder(t *testing.T) {
	f := newFixture(t)
	f.add(
		&entry{ID: "c", DispatchBy: after(3)},
		&entry{ID: "a", DispatchBy: after(1), Priority: -1},
		&entry{ID: "b1", DispatchBy: after(2)},
		&entry{ID: "b2", DispatchBy: after(2), Priority: 1},
	)
	assert.Equal(t, []string{"a", "b1", "b2", "c"}, f.advance(after(4)))
}

func TestStatsCountEveryPlace(t *testing.T) {
	f := newFixture(t)
	f.add(
		&entry{ID: "running", Scopes: schedule.NewScopes([]string{"held"}, nil), Priority: 1},
		&entry{ID: "retrying", Priority: 1},
		&entry{ID: "postponed", Priority: 1},
		&entry{ID: "finished", Priority: 1},
	)
	f.next("running")
	f.next("retrying")
	f.next("postponed")
	f.next("finished")
	f.retry("retrying")
	f.Release(f.get("postponed"), after(10), f.now)
	f.finish("finished", true)
	f.add(
		&entry{ID: "blocked", Scopes: schedule.NewScopes([]string{"held"}, nil)},
		&entry{ID: "waiting", Edges: []string{"running"}},
		&entry{ID: "scheduled", WaitUntil: after(10)},
		&entry{ID: "ready"},
		&entry{ID: "parked"},
	)
	f.Park(f.get("parked"))

	assert.Equal(t, amboy.QueueStats{
		Total:     9,
		Pending:   6,
		Blocked:   3,
		Running:   1,
		Completed: 2,
		Retrying:  1,
	}, f.Stats())
	assert.Equal(t, 6, f.Pending())
	assert.Equal(t, 1, f.Ready())
	assert.Equal(t, 9, f.Len())
	assert.False(t, f.Idle())
	var all []string
	for e := range f.All {
		all = append(all, e.ID)
	}
	assert.ElementsMatch(t, []string{
		"running", "retrying", "postponed", "finished",
		"blocked", "waiting", "scheduled", "ready", "parked",
	}, all)
	for range f.All {
		break // it stops when the caller does
	}
}

func TestFinishFromEveryPlace(t *testing.T) {
	for name, test := range map[string]struct {
		job     entry
		prepare func(f *fixture)
		place   schedule.Place
	}{
		"waiting":   {job: entry{Edges: []string{"other"}}, place: schedule.Waiting},
		"scheduled": {job: entry{WaitUntil: after(10)}, place: schedule.Scheduled},
		"blocked":   {job: entry{Scopes: schedule.NewScopes([]string{"mine", "held"}, nil)}, place: schedule.ScopeBlocked},
		"ready":     {place: schedule.Ready},
		"running":   {prepare: func(f *fixture) { f.next("job") }, place: schedule.Running},
		"parked":    {prepare: func(f *fixture) { f.Park(f.get("job")) }, place: schedule.Parked},
		"postponed": {
			prepare: func(f *fixture) { f.Release(f.next("job"), after(10), f.now) },
			place:   schedule.Postponed,
		},
		"retrying": {
			prepare: func(f *fixture) {
				f.next("job")
				f.retry("job")
			},
			place: schedule.Retrying,
		},
		"finished": {prepare: func(f *fixture) { f.finish("job", true) }, place: schedule.Finished},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.add(&entry{ID: "holder", Scopes: schedule.NewScopes([]string{"held"}, nil), Priority: 1}, &entry{ID: "other", WaitUntil: after(1000)})
			f.next("holder")
			job := test.job
			job.ID, job.DispatchBy = "job", after(100)
			if job.Scopes == nil {
				job.Scopes = schedule.NewScopes([]string{"mine", "kept"}, []string{"kept"})
			}
			f.add(&job)
			if test.prepare != nil {
				test.prepare(f)
			}
			require.Equal(t, test.place, f.get("job").Place())
			f.add(&entry{ID: "dependent", Edges: []string{"job"}})

			f.finish("job", true)
			f.finish("job", false) // changes nothing
			assert.Equal(t, schedule.Finished, f.get("job").Place())
			assert.Equal(t, 1, f.Stats().Completed)
			assert.Equal(t, []string{"job"}, ids(slices.Collect(f.Finished)))
			assert.Empty(t, f.advance(after(200)), "it can't expire")

			f.add(&entry{ID: "successor", Scopes: schedule.NewScopes([]string{"mine", "kept"}, []string{"kept"})})
			assert.Equal(t, []string{"dependent", "successor"}, f.drain())
			assert.Empty(t, f.get("dependent").Failed())
		})
	}
}

func TestKeepFinished(t *testing.T) {
	f := newFixture(t)
	f.KeepFinished = 3
	var forgotten []string
	f.Forget = func(e *entry) { forgotten = append(forgotten, e.ID) }
	for i := range 5 {
		f.add(&entry{ID: fmt.Sprint(i)})
	}
	f.drain()

	assert.Equal(t, []string{"0", "1"}, forgotten)
	assert.Equal(t, []string{"2", "3", "4"}, ids(slices.Collect(f.Finished)))
	_, ok := f.Get("1")
	assert.False(t, ok)
	assert.Equal(t, 3, f.Len())
	assert.Equal(t, 5, f.Stats().Completed, "removed jobs still count")
	for e := range f.Finished {
		assert.Equal(t, "2", e.ID)
		break // it stops when the caller does
	}

	f.add(&entry{ID: "0"}) // the ID is free again
	assert.Equal(t, []string{"0"}, f.drain())
}

func TestRemove(t *testing.T) {
	for _, order := range [][]string{{"0", "1", "2"}, {"2", "1", "0"}, {"1", "0", "2"}} {
		t.Run(fmt.Sprint(order), func(t *testing.T) {
			f := newFixture(t)
			var forgotten []string
			f.Forget = func(e *entry) { forgotten = append(forgotten, e.ID) }
			left := []string{"0", "1", "2"}
			for _, id := range left {
				f.add(&entry{ID: id})
			}
			f.drain()
			for _, id := range order {
				f.Remove(f.get(id))
				left = slices.DeleteFunc(left, func(other string) bool { return other == id })
				assert.Equal(t, left, append([]string{}, ids(slices.Collect(f.Finished))...))
				assert.Equal(t, len(left), f.Len())
			}
			assert.Equal(t, order, forgotten)
			assert.Equal(t, 3, f.Stats().Completed, "removed jobs still count")
			f.add(&entry{ID: "1"})
			assert.Equal(t, []string{"1"}, f.drain())
		})
	}
}

func TestForgettingAnAttemptKeepsTheJob(t *testing.T) {
	f := newFixture(t)
	f.KeepFinished = 1
	f.add(&entry{ID: "a", Job: "first"})
	f.next("a")
	f.retry("a")
	f.replace(&entry{ID: "a", Job: "second"})
	f.add(&entry{ID: "b", Priority: 1})
	f.next("b")
	f.finish("b", true) // the first attempt is removed

	assert.Equal(t, "second", f.get("a").Job)
	assert.Equal(t, []string{"a"}, f.drain())
}

func TestKeepNothingFinished(t *testing.T) {
	var s schedule.Schedule[string]
	require.NoError(t, s.Add(&entry{ID: "a"}, epoch))
	s.Finish(s.Next(), true, epoch)
	assert.Zero(t, s.Len())
	assert.Equal(t, 1, s.Stats().Completed)
}

func TestAddRefusesATakenID(t *testing.T) {
	f := newFixture(t)
	f.add(&entry{ID: "a"})
	for range 2 { // while it is pending, and when it has ended
		err := f.Add(&entry{ID: "a", Scopes: schedule.NewScopes([]string{"s"}, []string{"s"})}, f.now)
		assert.True(t, amboy.IsDuplicateJobError(err))
		assert.False(t, amboy.IsDuplicateJobScopeError(err))
		require.ErrorContains(t, err, `job "a"`)
		f.drain()
	}
	assert.Equal(t, 1, f.Stats().Total)
	f.add(&entry{ID: "b", Scopes: schedule.NewScopes([]string{"s"}, []string{"s"})})
}

func TestPark(t *testing.T) {
	f := newFixture(t)
	f.add(
		&entry{ID: "job", Scopes: schedule.NewScopes([]string{"mine", "kept"}, []string{"kept"})},
		&entry{ID: "rival", Scopes: schedule.NewScopes([]string{"mine"}, nil)},
	)
	f.next("job")
	f.Park(f.get("job"))
	assert.Equal(t, schedule.Parked, f.get("job").Place())
	assert.Equal(t, 2, f.Stats().Pending)
	assert.Zero(t, f.Stats().Blocked)
	f.next("rival")
	f.noNext()
	err := f.Add(&entry{ID: "late", Scopes: schedule.NewScopes([]string{"kept"}, []string{"kept"})}, f.now)
	assert.True(t, amboy.IsDuplicateJobScopeError(err), "a parked job keeps its enqueue scopes")

	f.Unpark(f.get("job"), f.now)
	assert.Equal(t, schedule.ScopeBlocked, f.get("job").Place())
	f.Unpark(f.get("job"), f.now) // changes nothing
	f.finish("rival", true)
	f.next("job")
	f.Unpark(f.get("job"), f.now) // changes nothing
	assert.Equal(t, schedule.Running, f.get("job").Place())
}

func TestUnparkRestoresTheTurnOfAJob(t *testing.T) {
	f := newFixture(t)
	f.add(
		&entry{ID: "target", WaitUntil: after(10)},
		&entry{ID: "waiting", Edges: []string{"target"}},
		&entry{ID: "scheduled", WaitUntil: after(20)},
		&entry{ID: "first"},
		&entry{ID: "second"},
	)
	for _, id := range []string{"waiting", "scheduled", "first"} {
		f.Park(f.get(id))
	}
	f.Unpark(f.get("scheduled"), f.now)
	f.Unpark(f.get("first"), f.now)
	assert.Equal(t, schedule.Scheduled, f.get("scheduled").Place())
	assert.Equal(t, []string{"first", "second"}, f.drain(), "a job keeps its turn")

	f.Unpark(f.get("waiting"), f.now)
	assert.Equal(t, schedule.Waiting, f.get("waiting").Place())
	f.Park(f.get("waiting"))
	f.advance(after(10))
	assert.Equal(t, []string{"target"}, f.drain())
	f.noNext()
	f.Unpark(f.get("waiting"), f.now)
	assert.Equal(t, []string{"waiting"}, f.drain())
}

func TestRelease(t *testing.T) {
	f := newFixture(t)
	f.add(
		&entry{ID: "job", Scopes: schedule.NewScopes([]string{"s"}, nil)},
		&entry{ID: "free"},
		&entry{ID: "rival", Scopes: schedule.NewScopes([]string{"s"}, nil)},
	)
	f.Release(f.next("job"), time.Time{}, f.now)
	f.Release(f.next("job"), f.now, f.now) // it keeps its turn before the others
	f.Release(f.next("job"), after(10), f.now)
	assert.Equal(t, schedule.Postponed, f.get("job").Place())
	assert.Equal(t, 1, f.Stats().Blocked)
	assert.Equal(t, []string{"free", "rival"}, f.drain())
	assert.Empty(t, f.advance(after(10)))
	assert.Equal(t, []string{"job"}, f.drain())
}

func TestRetry(t *testing.T) {
	f := newFixture(t)
	f.add(&entry{ID: "a", Job: "first"}, &entry{ID: "b"}, &entry{ID: "dependent", Edges: []string{"a"}})
	f.next("a")
	f.retry("a")
	assert.Equal(t, schedule.Retrying, f.get("a").Place())
	assert.Equal(t, amboy.QueueStats{Total: 3, Pending: 2, Blocked: 1, Completed: 1, Retrying: 1}, f.Stats())

	f.replace(&entry{ID: "a", Job: "second", WaitUntil: after(5)})
	assert.Equal(t, amboy.QueueStats{Total: 4, Pending: 3, Blocked: 1, Completed: 1}, f.Stats())
	assert.Equal(t, schedule.Scheduled, f.get("a").Place())
	assert.Equal(t, []string{"b"}, f.drain())
	f.advance(after(5))
	assert.Equal(t, "second", f.next("a").Job)
	f.retry("a")
	f.replace(&entry{ID: "a", Job: "third"})
	assert.Equal(t, "third", f.next("a").Job)
	assert.Equal(t, schedule.Waiting, f.get("dependent").Place(), "the dependent waits for the last attempt")

	f.finish("a", true)
	assert.Equal(t, []string{"dependent"}, f.drain())
	var attempts []string
	for e := range f.Finished {
		attempts = append(attempts, e.Job)
	}
	assert.Equal(t, []string{"first", "", "second", "third", ""}, attempts)
}

func TestARetriedJobRunsAfterWaitingJobs(t *testing.T) {
	f := newFixture(t)
	f.add(&entry{ID: "a"}, &entry{ID: "b"})
	f.next("a")
	f.retry("a")
	f.replace(&entry{ID: "a"})
	assert.Equal(t, []string{"b", "a"}, f.drain())
}

func TestRetryOfAJobThatExpiredWhileItWaited(t *testing.T) {
	f := newFixture(t)
	f.add(
		&entry{ID: "target", WaitUntil: after(20)},
		&entry{ID: "job", Edges: []string{"target"}, DispatchBy: after(10)},
	)
	assert.Equal(t, []string{"job"}, f.advance(after(15)))
	f.retry("job")
	f.replace(&entry{ID: "job", Edges: []string{"target"}})
	assert.Equal(t, schedule.Waiting, f.get("job").Place())
	f.advance(after(20))
	assert.Equal(t, []string{"target", "job"}, f.drain())
}

func TestDescribe(t *testing.T) {
	for name, test := range map[string]struct {
		place  schedule.Place
		block  schedule.Block
		status amboy.JobStatusInfo
	}{
		"waiting": {
			place:  schedule.Waiting,
			block:  schedule.Block{Open: 2, Edges: 3},
			status: amboy.JobStatusInfo{Hold: amboy.HoldBlocked, Reason: "waits for 2 of the 3 jobs that it depends on"},
		},
		"blocked": {
			place:  schedule.ScopeBlocked,
			block:  schedule.Block{Scope: "disk"},
			status: amboy.JobStatusInfo{Hold: amboy.HoldBlocked, Reason: `waits for scope "disk"`},
		},
		"postponed": {
			place:  schedule.Postponed,
			status: amboy.JobStatusInfo{Hold: amboy.HoldBlocked, Reason: "its dependency says that it must wait"},
		},
		"parked":    {place: schedule.Parked, status: amboy.JobStatusInfo{Hold: amboy.HoldParked}},
		"scheduled": {place: schedule.Scheduled},
		"ready":     {place: schedule.Ready},
		"running":   {place: schedule.Running, status: amboy.JobStatusInfo{InProgress: true}},
		"retrying":  {place: schedule.Retrying, status: amboy.JobStatusInfo{Completed: true}},
		"finished":  {place: schedule.Finished, status: amboy.JobStatusInfo{Completed: true}},
	} {
		t.Run(name, func(t *testing.T) {
			var status amboy.JobStatusInfo
			schedule.Describe(&status, test.place, test.block)
			assert.Equal(t, test.status, status)
		})
	}
}
