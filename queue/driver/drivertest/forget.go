package drivertest

import (
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/driver"
)

var forgetRules = []rule{
	{"an ended record is removed when its time has come", forgetWhenTime},
	{"a record without a time stays", forgetWithoutTime},
	{"only records that ended for good are removed", forgetOnlyEnded},
	{"no more records than the limit are removed, earliest time first", forgetLimit},
	{"replaced attempts are removed too", forgetAttempts},
	{"an attempt that awaited a retry is removed after the retry has ended", forgetEndedRetry},
	{"forgotten records are counted, and their IDs are free", forgetFrees},
	{"a canceled record is removed at the time of the action", forgetCanceled},
	{"a restarted job is not removed", forgetRestarted},
	{"records of all queues are removed", forgetOfQueues},
}

// endAt ends a claimed record that may be forgotten at a time.
func (f *fixture) endAt(r *driver.Record, state amboy.JobState, forgetAt time.Time) *driver.Record {
	f.Helper()
	e := ended(r, state)
	e.ForgetAt = forgetAt
	require.NoError(f, f.tryComplete(driver.LeaseOf(r), e))
	return e
}

// endedAt inserts a job, and ends it.
func (f *fixture) endedAt(id string, state amboy.JobState, forgetAt time.Time) {
	f.Helper()
	f.insert(spec{id: id})
	f.endAt(f.claimOne(id), state, forgetAt)
}

func forgetWhenTime(f *fixture) {
	f.endedAt("job", amboy.StateSucceeded, f.after(1))
	assert.True(f, f.after(1).Equal(f.get("job").ForgetAt))
	assert.Zero(f, f.forget(f.after(0.9), 10))
	assert.Equal(f, 1, f.forget(f.after(1), 10))
	assert.Zero(f, f.forget(f.after(1), 10))
	f.missing("job")
	assert.Empty(f, f.list())
}

func forgetWithoutTime(f *fixture) {
	f.endedAt("job", amboy.StateFailed, time.Time{})
	assert.Zero(f, f.forget(f.after(1000), 10))
	f.hasState("job", amboy.StateFailed)
}

func forgetOnlyEnded(f *fixture) {
	early := f.after(-1)
	waiting := f.record(spec{id: "waiting"})
	waiting.ForgetAt = early
	require.NoError(f, every(f.driver.Insert(f.ctx, []*driver.Record{waiting})))
	f.insert(spec{id: "retrying", retryable: true, priority: 1}, spec{id: "running", priority: 1})
	f.endAt(f.claimOne("retrying"), amboy.StateRetrying, early)
	f.claimOne("running")
	unchanged := f.unchanged()
	assert.Zero(f, f.forget(f.after(1000), 10))
	unchanged()
}

func forgetLimit(f *fixture) {
	hours := map[string]float64{"c": 3, "a": 1, "e": 5, "b": 2, "d": 4}
	for _, id := range []string{"c", "a", "e", "b", "d"} {
		f.endedAt(id, amboy.StateSucceeded, f.after(hours[id]))
	}
	assert.Equal(f, 2, f.forget(f.after(4), 2))
	assert.Equal(f, []string{"c", "e", "d"}, jobIDs(f.list()))
	assert.Equal(f, 2, f.forget(f.after(4), 2))
	assert.Equal(f, []string{"e"}, jobIDs(f.list()))
	assert.Zero(f, f.forget(f.after(4), 2))
}

func forgetAttempts(f *fixture) {
	r := f.retrying(spec{id: "job"})
	e := endedRetry(r, amboy.StateFailed)
	e.ForgetAt = f.after(1)
	require.NoError(f, f.driver.Retry(f.ctx, e, nextAttempt(r)))
	f.consistent()
	assert.Equal(f, 1, f.forget(f.after(1), 10))
	f.hasState("job", amboy.StatePending)
	attempts := f.attempts("job")
	require.Len(f, attempts, 1)
	assert.Equal(f, 1, attempts[0].RetryInfo.CurrentAttempt)
	f.refusedAsDuplicate(spec{id: "job", retryable: true})
	f.refusedAsDuplicate(spec{id: "job"})
	f.end(f.claimOne("job"), amboy.StateSucceeded)
}

func forgetEndedRetry(f *fixture) {
	r := f.retrying(spec{id: "job"})
	e := endedRetry(r, amboy.StateFailed)
	e.ForgetAt = f.after(1)
	require.NoError(f, f.driver.EndRetry(f.ctx, e))
	f.consistent()
	assert.Equal(f, 1, f.forget(f.after(1), 10))
	f.missing("job")
}

func forgetFrees(f *fixture) {
	f.endedAt("job", amboy.StateFailed, f.after(1))
	f.insert(spec{id: "dependent", edges: []string{"job"}})
	require.Equal(f, 1, f.forget(f.after(1), 10))
	assert.Equal(f, amboy.QueueStats{Total: 2, Completed: 1, Pending: 1}.String(), f.stats().String())
	var invalid *amboy.InvalidJobError
	require.ErrorAs(f, f.tryInsert(spec{id: "late", edges: []string{"job"}})[0], &invalid)
	assert.Equal(f, []string{"job"}, f.claimOne("dependent").Dependency.Failed, "the edge failed before")
	assert.Empty(f, f.attempts("job"))
	f.insert(spec{id: "job"})
	f.claimOne("job")
}

func forgetCanceled(f *fixture) {
	f.insert(spec{id: "job"})
	f.act(driver.Action{Kind: driver.Cancel, ForgetAt: f.after(1)}, "job")
	assert.Equal(f, 1, f.forget(f.after(1), 10))
	f.missing("job")
}

func forgetRestarted(f *fixture) {
	f.endedAt("job", amboy.StateFailed, f.after(1))
	f.act(driver.Action{Kind: driver.Restart}, "job")
	assert.Zero(f, f.forget(f.after(9), 10))
	f.end(f.claimOne("job"), amboy.StateSucceeded)
	assert.Zero(f, f.forget(f.after(9), 10), "the job ended without a time")
}

func forgetOfQueues(f *fixture) {
	for i, queue := range []string{"", "a", "b"} {
		f.in(queue).endedAt("job", amboy.StateSucceeded, f.after(float64(i)))
	}
	assert.Equal(f, 2, f.forget(f.after(1), 10))
	f.in("").missing("job")
	f.in("a").missing("job")
	f.in("b").hasState("job", amboy.StateSucceeded)
}
