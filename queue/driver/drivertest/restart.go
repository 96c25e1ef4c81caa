package drivertest

import (
	"fmt"
	"time"

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
	{"the job waits for the time of the action", restartAt},
	{"the job waits for its edges again", restartEdges},
	{"edges that did not succeed are named again", restartFailedEdges},
	{"the job waits for an edge that was restarted before it", restartEdgeFirst},
	{"the job does not wait for an edge that no longer exists", restartGoneEdge},
	{"the job does not wait for its edges if the action ignores them", restartIgnoringEdges},
	{"jobs that depended on it are not notified", restartDependents},
	{"a job that has just ended is restarted and deleted, however many jobs depended on it", restartManyDependents},
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

func restartAt(f *fixture) {
	f.insert(spec{id: "job"})
	f.end(f.claimOne("job"), amboy.StateFailed)
	f.act(driver.Action{Kind: driver.Restart, At: f.after(1)}, "job")
	f.hasState("job", amboy.StateScheduled)
	assert.WithinDuration(f, f.after(1), f.get("job").TimeInfo.WaitUntil, time.Millisecond)
	assert.Empty(f, f.claim(1))
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
	f.insert(spec{id: "good"}, spec{id: "open"}, spec{id: "job", edges: []string{"good", "open"}, waitUntil: f.after(1)})
	f.end(f.claimOne("good"), amboy.StateSucceeded)
	for range 2 { // also if it was canceled while it waited for the same edge
		f.cancel("job")
		f.restart("job")
		f.hasState("job", amboy.StateBlocked)
		assert.NotEmpty(f, f.get("job").Status.Reason)
	}
	open := f.claimOne("open")
	assert.Empty(f, f.claimAt(2, 10).Records)
	f.end(open, amboy.StateSucceeded)
	f.hasState("job", amboy.StateScheduled)
	claimed := f.claimAt(2, 10).Records
	require.Equal(f, []string{"job"}, jobIDs(claimed))
	assert.Empty(f, claimed[0].Dependency.Failed)
	assert.ElementsMatch(f, []string{"good", "open"}, claimed[0].Dependency.Edges)
}

func restartFailedEdges(f *fixture) {
	f.insert(spec{id: "bad"}, spec{id: "good"}, spec{id: "job", edges: []string{"bad", "good"}})
	bad, good := f.claimOne("bad"), f.claimOne("good")
	f.end(bad, amboy.StateCanceled)
	f.cancel("job")
	f.restart("job")
	f.hasState("job", amboy.StateBlocked)
	f.end(good, amboy.StateSucceeded)
	for range 2 {
		job := f.claimOne("job")
		assert.Equal(f, []string{"bad"}, job.Dependency.Failed)
		f.end(job, amboy.StateFailed)
		f.restart("job")
		f.hasState("job", amboy.StatePending)
	}
	f.cancel("job")
	f.restart("bad")
	f.end(f.claimOne("bad"), amboy.StateSucceeded)
	f.restart("job")
	assert.Empty(f, f.claimOne("job").Dependency.Failed, "it has succeeded since")
}

func restartEdgeFirst(f *fixture) {
	f.insert(spec{id: "pay"}, spec{id: "ship", edges: []string{"pay"}}, spec{id: "mail", edges: []string{"ship"}})
	for _, id := range []string{"pay", "ship", "mail"} {
		f.end(f.claimOne(id), amboy.StateFailed)
	}
	assert.Equal(f, driver.Acted{Done: 3}, f.actOn(driver.Query{}, driver.Action{Kind: driver.Restart}))
	for _, id := range []string{"pay", "ship", "mail"} {
		running := f.claim(10)
		require.Equal(f, []string{id}, jobIDs(running))
		if running[0].Dependency != nil {
			assert.Empty(f, running[0].Dependency.Failed)
		}
		f.end(running[0], amboy.StateSucceeded)
	}
}

func restartGoneEdge(f *fixture) {
	f.insert(spec{id: "gone"}, spec{id: "open"}, spec{id: "job", edges: []string{"gone", "open"}})
	f.end(f.claimOne("gone"), amboy.StateFailed)
	f.cancel("job")
	f.act(driver.Action{Kind: driver.Delete}, "gone")
	f.restart("job")
	f.hasState("job", amboy.StateBlocked)
	f.end(f.claimOne("open"), amboy.StateSucceeded)
	job := f.claimOne("job")
	assert.Empty(f, job.Dependency.Failed)
	assert.Equal(f, []string{"gone", "open"}, job.Dependency.Edges)
	f.end(job, amboy.StateFailed)
	f.act(driver.Action{Kind: driver.Delete}, "open")
	f.restart("job")
	assert.Empty(f, f.claimOne("job").Dependency.Failed)
}

func restartIgnoringEdges(f *fixture) {
	f.insert(spec{id: "bad"}, spec{id: "open"})
	f.end(f.claimOne("bad"), amboy.StateFailed)
	f.insert(spec{id: "job", edges: []string{"bad", "open"}})
	f.cancel("job")
	f.act(driver.Action{Kind: driver.Restart, IgnoreEdges: true}, "job")
	f.hasState("job", amboy.StatePending)
	running := f.claim(10)
	require.Equal(f, []string{"open", "job"}, jobIDs(running))
	assert.Empty(f, running[1].Dependency.Failed)
	assert.ElementsMatch(f, []string{"bad", "open"}, running[1].Dependency.Edges)
	f.end(running[1], amboy.StateFailed)
	f.restart("job")
	f.hasState("job", amboy.StateBlocked)
	f.end(running[0], amboy.StateSucceeded)
	assert.Equal(f, []string{"bad"}, f.claimOne("job").Dependency.Failed, "the next restart waits for them")
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

func restartManyDependents(f *fixture) {
	const dependents = 600 // more than a store releases at once
	f.unchecked = true
	specs := []spec{{id: "job", priority: 1}}
	for i := range dependents {
		specs = append(specs, spec{id: fmt.Sprint(i), edges: []string{"job"}})
	}
	f.insert(specs...)
	f.end(f.claimOne("job"), amboy.StateFailed)
	restart := driver.ActRequest{Query: driver.Query{ID: "job"}, Action: driver.Action{Kind: driver.Restart}, Limit: 1, DryRun: true}
	planned, err := f.driver.Act(f.ctx, restart)
	require.NoError(f, err)
	assert.Equal(f, 1, planned.Done)
	f.restart("job")
	f.insert(spec{id: "second", edges: []string{"job"}, priority: 1})
	f.end(f.claimOne("job"), amboy.StateFailed)
	f.act(driver.Action{Kind: driver.Delete}, "job")
	f.insert(spec{id: "job", priority: 1}, spec{id: "third", edges: []string{"job"}, priority: 1})

	claimed := map[string]*driver.Record{}
	for range dependents {
		for _, r := range f.claim(dependents) {
			claimed[r.JobID()] = r
		}
		if len(claimed) == dependents+2 {
			break
		}
	}
	assert.Len(f, claimed, dependents+2)
	require.Contains(f, claimed, "job")
	f.hasState("third", amboy.StateBlocked)
	delete(claimed, "job")
	for id, r := range claimed {
		assert.Equal(f, []string{"job"}, r.Dependency.Failed, id)
	}
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
