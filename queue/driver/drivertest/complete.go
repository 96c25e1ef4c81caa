package drivertest

import (
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/driver"
)

var completeRules = []rule{
	{"the record replaces what is stored", completeReplaces},
	{"the fields that Insert scheduled by are kept", completeKeeps},
	{"every ending is kept", completeEndings},
	{"a record that ended gives up all scopes", completeFreesScopes},
	{"a record that awaits a retry keeps its enqueue scopes", completeKeepsEnqueueScopes},
	{"a record that awaits a retry is not claimed, and its dependents wait", completeRetrying},
	{"a record ends once", completeOnce},
	{"a record that is not running ends under the lease that it shows", completeByHand},
	{"each of several has its own error", completeSeveral},
}

func completeReplaces(f *fixture) {
	f.insert(spec{id: "job", note: "before"})
	r := f.claimOne("job")
	e := ended(r, amboy.StateFailed)
	e.Job = f.record(spec{id: "job", note: "after"}).Job
	e.Status.Attempts = []amboy.AttemptError{{Attempt: 1, Error: "it failed"}}
	e.Result, e.ForgetAt = f.body("result"), f.after(1)
	require.NoError(f, f.tryComplete(driver.LeaseOf(r), e))

	got := f.get("job")
	assert.Equal(f, []string{"it failed"}, got.Status.Errors)
	assert.Equal(f, e.Status.Attempts[0].Error, got.Status.Attempts[0].Error)
	assert.True(f, e.TimeInfo.End.Equal(got.TimeInfo.End), "the end is %s", got.TimeInfo.End)
	j, err := got.Resolve(amboy.JSON)
	require.NoError(f, err)
	assert.Equal(f, "after", j.(*testJob).Note)
	assert.True(f, f.after(1).Equal(got.ForgetAt), "it may be forgotten at %s", got.ForgetAt)
	require.NotNil(f, got.Result)
	want, err := e.Result.MarshalJSON()
	require.NoError(f, err)
	result, err := got.Result.MarshalJSON()
	require.NoError(f, err)
	assert.JSONEq(f, string(want), string(result))
}

func completeKeeps(f *fixture) {
	f.insert(spec{id: "edge", priority: 9})
	f.end(f.claimOne("edge"), amboy.StateSucceeded)
	f.insert(spec{
		id:            "job",
		priority:      5,
		tags:          []string{"x", "y"},
		scopes:        []string{"put", "run"},
		enqueueScopes: []string{"put"},
		edges:         []string{"edge"},
		retryable:     true,
	})
	r := f.claimOne("job")
	e := ended(r, amboy.StateRetrying)
	e.Priority, e.Tags, e.RequiredScopes, e.EnqueueScopes = 1, []string{"z"}, []string{"other"}, []string{"other"}
	dependency := *e.Dependency
	dependency.Edges = []string{"other"}
	e.Dependency = &dependency
	require.NoError(f, f.tryComplete(driver.LeaseOf(r), e))
	got := f.get("job")
	assert.Equal(f, 5, got.Priority)
	assert.ElementsMatch(f, []string{"x", "y"}, got.Tags)
	assert.ElementsMatch(f, []string{"put", "run"}, got.RequiredScopes)
	assert.Equal(f, []string{"put"}, got.EnqueueScopes)
	assert.Equal(f, []string{"put"}, got.Scopes)
	require.NotNil(f, got.Dependency)
	assert.Equal(f, []string{"edge"}, got.Dependency.Edges)
	f.insert(spec{id: "other", scopes: []string{"other"}, enqueueScopes: []string{"other"}})
	assert.Len(f, f.find(driver.Query{Tags: []string{"x"}}), 1)
	assert.Empty(f, f.find(driver.Query{Tags: []string{"z"}}))
}

func completeEndings(f *fixture) {
	for _, state := range []amboy.JobState{amboy.StateSucceeded, amboy.StateFailed, amboy.StateCanceled, amboy.StateExpired} {
		id := string(state)
		f.insert(spec{id: id})
		f.end(f.claimOne(id), state)
		f.hasState(id, state)
		assert.Empty(f, f.claimAt(9, 10).Records, "an ended job is not run again")
	}
}

func completeFreesScopes(f *fixture) {
	both := []string{"put", "run"}
	f.insert(spec{id: "job", scopes: both, enqueueScopes: both[:1]}, spec{id: "put", scopes: both[:1]}, spec{id: "run", scopes: both[1:]})
	r := f.claimOne("job")
	assert.Empty(f, f.claim(10))
	f.end(r, amboy.StateFailed)
	assert.Empty(f, f.get("job").Scopes)
	assert.Equal(f, []string{"put", "run"}, jobIDs(f.claim(10)))
}

func completeKeepsEnqueueScopes(f *fixture) {
	both := []string{"put", "run"}
	f.insert(
		spec{id: "job", scopes: both, enqueueScopes: both[:1], retryable: true},
		spec{id: "put", scopes: both[:1]},
		spec{id: "run", scopes: both[1:]},
	)
	f.end(f.claimOne("job"), amboy.StateRetrying)
	assert.Equal(f, []string{"put"}, f.get("job").Scopes)
	f.hasState("put", amboy.StateBlocked)
	f.refusedForScope(spec{id: "other", scopes: both[:1], enqueueScopes: both[:1]})
	assert.Equal(f, []string{"run"}, jobIDs(f.claim(10)))
}

func completeRetrying(f *fixture) {
	f.insert(spec{id: "job", retryable: true}, spec{id: "dependent", edges: []string{"job"}})
	f.end(f.claimOne("job"), amboy.StateRetrying)
	f.hasState("job", amboy.StateRetrying)
	f.hasState("dependent", amboy.StateBlocked)
	assert.Empty(f, f.claimAt(9, 10).Records)
	assert.Zero(f, f.recoverEnded(), "a record that awaits a retry has no lease")
}

func completeOnce(f *fixture) {
	f.insert(spec{id: "job"})
	r := f.claimOne("job")
	f.end(r, amboy.StateSucceeded)
	unchanged := f.unchanged()
	f.lost(f.tryComplete(driver.LeaseOf(r), ended(r, amboy.StateFailed)))
	f.lost(f.tryComplete(driver.LeaseOf(f.get("job")), ended(r, amboy.StateFailed)))
	unchanged()
	unknown := driver.Lease{Queue: f.queue, Name: "unknown", Owner: owner, Count: 1}
	f.lost(f.tryComplete(unknown, ended(r, amboy.StateFailed)))
}

func completeByHand(f *fixture) {
	f.insert(spec{id: "holder", scopes: []string{"held"}, enqueueScopes: []string{"held"}, priority: 9})
	f.claimOne("holder")
	f.insert(
		spec{id: "parked", priority: 2},
		spec{id: "postponed", priority: 1},
	)
	f.release(driver.HandBack{Lease: driver.LeaseOf(f.claimOne("parked")), Park: true})
	f.release(driver.HandBack{Lease: driver.LeaseOf(f.claimOne("postponed")), NotBefore: f.after(1)})
	f.insert(
		spec{id: "pending", scopes: []string{"s"}, enqueueScopes: []string{"s"}},
		spec{id: "scheduled", waitUntil: f.after(1)},
		spec{id: "edge", edges: []string{"holder"}},
		spec{id: "scope", scopes: []string{"held"}},
	)
	for _, id := range []string{"parked", "postponed", "pending", "scheduled", "edge", "scope"} {
		f.end(f.get(id), amboy.StateCanceled)
		f.hasState(id, amboy.StateCanceled)
	}
	assert.Empty(f, f.claimAt(9, 10).Records)
	f.insert(spec{id: "heir", scopes: []string{"s"}, enqueueScopes: []string{"s"}})
	f.end(f.get("holder"), amboy.StateSucceeded) // a job that ended before it wakes no waiter
	f.claimOne("heir")
	assert.Empty(f, f.claim(10))
}

func completeSeveral(f *fixture) {
	f.insert(spec{id: "a"}, spec{id: "b"}, spec{id: "c"})
	running := f.claim(3)
	f.end(running[1], amboy.StateSucceeded)
	var completions []driver.Completion
	for _, r := range running {
		completions = append(completions, driver.Completion{Lease: driver.LeaseOf(r), Record: ended(r, amboy.StateFailed)})
	}
	errs, err := f.driver.Complete(f.ctx, completions)
	require.NoError(f, err)
	require.Len(f, errs, 3)
	require.NoError(f, errs[0])
	f.lost(errs[1])
	require.NoError(f, errs[2])
	f.hasState("a", amboy.StateFailed)
	f.hasState("b", amboy.StateSucceeded)
	f.hasState("c", amboy.StateFailed)

	errs, err = f.driver.Complete(f.ctx, nil)
	require.NoError(f, err)
	assert.Empty(f, errs)
}
