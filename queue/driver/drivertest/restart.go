package drivertest

import (
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/driver"
)

var restartRules = []rule{
	{"the same attempt runs again", restartSame},
	{"the job is queued as if it were new", restartArrives},
	{"the job's errors stay among its attempt errors", restartErrors},
	{"the dispatch-by time is dropped", restartDispatchBy},
	{"the job does not wait for its edges", restartEdges},
	{"jobs that depended on it are not notified", restartDependents},
	{"the job takes its enqueue scopes again", restartScopes},
	{"the job is skipped if another job holds one of its scopes", restartScopesHeld},
	{"the job can be retried", restartRetry},
	{"a replaced attempt is not run again", restartReplaced},
}

func (f *fixture) restart(ids ...string) {
	f.Helper()
	f.act(driver.Action{Kind: driver.Restart}, ids...)
}

func restartSame(f *fixture) {
	f.insert(spec{id: "job", note: "content"})
	r := f.claimOne("job")
	e := ended(r, amboy.StateFailed)
	e.ForgetAt, e.Result = f.after(1), f.body("half a result")
	require.NoError(f, f.tryComplete(driver.LeaseOf(r), e))
	f.restart("job")
	got := f.get("job")
	assert.Equal(f, amboy.StatePending, stateOf(got))
	assert.Equal(f, r.Name, got.Name)
	assert.False(f, got.Status.Completed)
	assert.Empty(f, got.Status.Owner)
	assert.Equal(f, 2, got.Status.ModificationCount)
	assert.True(f, got.TimeInfo.Start.IsZero(), "the start is %s", got.TimeInfo.Start)
	assert.True(f, got.TimeInfo.End.IsZero(), "the end is %s", got.TimeInfo.End)
	assert.True(f, got.ForgetAt.IsZero(), "it may be forgotten at %s", got.ForgetAt)
	assert.Nil(f, got.Result)
	f.refusesLease(r)
	again := f.claimOne("job")
	assert.Equal(f, 3, again.Status.ModificationCount)
	f.end(again, amboy.StateSucceeded)
	f.hasState("job", amboy.StateSucceeded)
	assert.Equal(f, amboy.QueueStats{Total: 1, Completed: 1}.String(), f.stats().String())
}

func restartArrives(f *fixture) {
	f.insert(spec{id: "job", priority: 1})
	f.end(f.claimOne("job"), amboy.StateCanceled)
	f.insert(spec{id: "other", priority: 1}, spec{id: "low"})
	f.restart("job")
	f.insert(spec{id: "late", priority: 1})
	assert.Equal(f, []string{"other", "job", "late", "low"}, jobIDs(f.claim(10)))
}

func restartErrors(f *fixture) {
	f.insert(spec{id: "job"})
	r := f.claimOne("job")
	e := ended(r, amboy.StateFailed)
	e.Status.Attempts = []amboy.AttemptError{{Attempt: 0, Error: "it failed"}}
	e.Status.DroppedErrors = 2
	require.NoError(f, f.tryComplete(driver.LeaseOf(r), e))
	f.restart("job")
	got := f.claimOne("job")
	assert.Zero(f, got.Status.ErrorCount)
	assert.Empty(f, got.Status.Errors)
	require.Len(f, got.Status.Attempts, 1)
	assert.Equal(f, "it failed", got.Status.Attempts[0].Error)
	assert.Equal(f, 2, got.Status.DroppedErrors)
}

func restartDispatchBy(f *fixture) {
	f.insert(spec{id: "job", dispatchBy: f.after(1)})
	f.end(f.claimAt(2, 0).Records[0], amboy.StateExpired)
	f.restart("job")
	got := f.get("job")
	assert.Empty(f, got.Status.Outcome)
	assert.True(f, got.TimeInfo.DispatchBy.IsZero(), "dispatch-by is %s", got.TimeInfo.DispatchBy)
	assert.Empty(f, f.claimAt(9, 0).Records, "the job does not expire again")
	assert.Equal(f, []string{"job"}, jobIDs(f.claimAt(9, 1).Records))
}

func restartEdges(f *fixture) {
	f.insert(spec{id: "bad"}, spec{id: "open"})
	f.end(f.claimOne("bad"), amboy.StateFailed)
	f.insert(spec{id: "job", edges: []string{"bad", "open"}})
	f.cancel("job")
	f.restart("job")
	f.hasState("job", amboy.StatePending)
	running := f.claim(10)
	require.Equal(f, []string{"open", "job"}, jobIDs(running))
	assert.Empty(f, running[1].Dependency.Failed)
	assert.ElementsMatch(f, []string{"bad", "open"}, running[1].Dependency.Edges)
	f.end(running[0], amboy.StateSucceeded)
	f.end(running[1], amboy.StateSucceeded)

	f.insert(spec{id: "told", edges: []string{"bad"}})
	told := f.claimOne("told")
	require.Equal(f, []string{"bad"}, told.Dependency.Failed)
	f.end(told, amboy.StateFailed)
	f.restart("told")
	assert.Empty(f, f.claimOne("told").Dependency.Failed, "the dependent is not notified again")
}

func restartDependents(f *fixture) {
	f.insert(spec{id: "job"}, spec{id: "before", edges: []string{"job"}})
	f.end(f.claimOne("job"), amboy.StateFailed)
	f.restart("job")
	f.hasState("before", amboy.StatePending)
	assert.Equal(f, []string{"job"}, f.claimOne("before").Dependency.Failed, "the dependent was notified before")
	f.insert(spec{id: "after", edges: []string{"job"}})
	r := f.claimOne("job")
	assert.Empty(f, f.claim(10))
	f.end(r, amboy.StateSucceeded)
	assert.Empty(f, f.claimOne("after").Dependency.Failed)
}

func restartScopes(f *fixture) {
	both := []string{"put", "run"}
	f.insert(spec{id: "job", scopes: both, enqueueScopes: both[:1]})
	f.end(f.claimOne("job"), amboy.StateFailed)
	f.insert(spec{id: "put", scopes: both[:1]}, spec{id: "run", scopes: both[1:]})
	f.restart("job")
	assert.Equal(f, []string{"put"}, f.get("job").Scopes)
	f.refusedForScope(spec{id: "rival", scopes: both[:1], enqueueScopes: both[:1]})
	f.hasState("put", amboy.StateBlocked)
	f.end(f.claimOne("run"), amboy.StateSucceeded)
	r := f.claimOne("job")
	assert.ElementsMatch(f, both, r.Scopes)
	f.end(r, amboy.StateSucceeded)
	f.claimOne("put")
}

func restartScopesHeld(f *fixture) {
	both := []string{"a", "b"}
	f.insert(spec{id: "job", scopes: both, enqueueScopes: both})
	f.end(f.claimOne("job"), amboy.StateFailed)
	f.insert(spec{id: "holder", scopes: both[1:]})
	r := f.claimOne("holder")
	unchanged := f.unchanged()
	assert.False(f, f.tryAct(driver.Action{Kind: driver.Restart}, "job"))
	unchanged()
	f.insert(spec{id: "a", scopes: both[:1]})
	f.end(f.claimOne("a"), amboy.StateSucceeded)
	f.end(r, amboy.StateSucceeded)
	f.restart("job")
	f.claimOne("job")
}

func restartRetry(f *fixture) {
	f.retry(f.retrying(spec{id: "job"}))
	f.end(f.claimOne("job"), amboy.StateFailed)
	f.restart("job")
	r := f.claimOne("job")
	assert.Equal(f, attemptName(f.queue, 1), r.Name)
	f.end(r, amboy.StateRetrying)
	f.hasState("job", amboy.StateRetrying)
	f.retry(f.get("job"))
	f.end(f.claimOne("job"), amboy.StateSucceeded)
	assert.Len(f, f.attempts("job"), 3)
}

func restartReplaced(f *fixture) {
	f.retry(f.retrying(spec{id: "job"}))
	f.end(f.claimOne("job"), amboy.StateFailed)
	acted := f.actOn(driver.Query{}, driver.Action{Kind: driver.Restart})
	assert.Equal(f, driver.Acted{Done: 1, Skipped: 1}, acted)
	assert.Equal(f, attemptName(f.queue, 1), f.claimOne("job").Name)
	assert.Empty(f, f.claim(10))
}
