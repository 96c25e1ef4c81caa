package drivertest

import (
	"fmt"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/driver"
)

var nextRules = []rule{
	{"the next attempt takes the place of the one that ended", nextReplaces},
	{"the next attempt waits for its time", nextWaitUntil},
	{"scopes taken by Insert pass to the next attempt, and others are given up", nextPassesScopes},
	{"dependents and the unique key pass to the next attempt", nextPassesWhatDepends},
	{"edges that failed are not held against the next attempt", nextForgetsFailedEdges},
	{"a record that is marked ends as canceled, and has no next attempt", nextCanceled},
	{"an end under a lease that is lost has no next attempt", nextLost},
	{"a job that became retryable while it ran has a next attempt", nextOfPlain},
	{"a name that is taken, or a scope that is held, refuses the end and changes nothing", nextRefused},
}

// running inserts a job, and claims it.
func (f *fixture) running(s spec) *driver.Record {
	f.Helper()
	s.retryable, s.priority = true, 9
	f.insert(s)
	return f.claimOne(s.id)
}

// tryNext ends a record that runs with its next attempt.
func (f *fixture) tryNext(r, next *driver.Record) error {
	f.Helper()
	errs, err := f.driver.Complete(f.ctx, []driver.Completion{
		{Lease: driver.LeaseOf(r), Record: endedRetry(r, amboy.StateFailed), Next: next},
	})
	require.NoError(f, err)
	require.Len(f, errs, 1)
	f.consistent()
	return errs[0]
}

func (f *fixture) next(r *driver.Record) {
	f.Helper()
	require.NoError(f, f.tryNext(r, nextAttempt(r)), "ending record %q with its next attempt", r.Name)
}

func nextReplaces(f *fixture) {
	for i, s := range []spec{{id: "job"}, {id: "job", tags: []string{"tag"}}} {
		nextReplacesIn(f.in(fmt.Sprint(f.queue, " ", i)), s)
	}
}

func nextReplacesIn(f *fixture, s spec) {
	r := f.running(s)
	f.insert(spec{id: "other", priority: 9})
	f.next(r)
	f.hasState("job", amboy.StatePending)
	got := f.get("job")
	assert.Equal(f, attemptName(f.queue, 1), got.Name)
	assert.Equal(f, s.tags, got.Tags)
	all := f.attempts("job")
	require.Len(f, all, 2)
	assert.Equal(f, amboy.StateFailed, stateOf(all[0]))
	assert.False(f, all[0].RetryInfo.End.IsZero())
	f.end(f.claimOne("other"), amboy.StateSucceeded)
	f.end(f.claimOne("job"), amboy.StateSucceeded)
	assert.Equal(f, amboy.QueueStats{Total: 3, Completed: 3}.String(), f.stats().String())
}

func nextWaitUntil(f *fixture) {
	r := f.running(spec{id: "job"})
	next := nextAttempt(r)
	next.TimeInfo.WaitUntil, next.TimeInfo.DispatchBy = f.after(1), f.after(3)
	require.NoError(f, f.tryNext(r, next))
	f.hasState("job", amboy.StateScheduled)
	assert.Empty(f, f.claim(10))
	assert.Equal(f, []string{"job"}, jobIDs(f.claimAt(4, 0).Records), "it expires")
}

func nextPassesScopes(f *fixture) {
	r := f.running(spec{id: "job", scopes: []string{"kept", "dropped"}, enqueueScopes: []string{"kept"}})
	f.insert(spec{id: "kept", scopes: []string{"kept"}, priority: 10}, spec{id: "dropped", scopes: []string{"dropped"}, priority: 10})
	assert.Empty(f, f.claim(10))
	f.next(r)
	got := f.claim(10)
	require.Equal(f, []string{"dropped"}, jobIDs(got))
	f.end(got[0], amboy.StateSucceeded)
	second := f.claimOne("job")
	assert.ElementsMatch(f, []string{"kept", "dropped"}, second.Scopes)
	f.end(second, amboy.StateSucceeded)
	f.claimOne("kept")
}

func nextPassesWhatDepends(f *fixture) {
	r := f.running(spec{id: "job", uniqueKey: "key"})
	f.insert(spec{id: "dependent", edges: []string{"job"}})
	f.next(r)
	assert.True(f, amboy.IsDuplicateJobError(f.tryInsert(spec{id: "rival", uniqueKey: "key"})[0]))
	second := f.claimOne("job")
	assert.Empty(f, f.claim(10), "it waits for the last attempt")
	f.end(second, amboy.StateSucceeded)
	assert.Empty(f, f.claimOne("dependent").Dependency.Failed)
	f.insert(spec{id: "rival", uniqueKey: "key"})
}

func nextForgetsFailedEdges(f *fixture) {
	f.insert(spec{id: "bad"})
	f.end(f.claimOne("bad"), amboy.StateFailed)
	f.next(f.running(spec{id: "job", edges: []string{"bad"}}))
	assert.Empty(f, f.claimOne("job").Dependency.Failed)
}

func nextCanceled(f *fixture) {
	r := f.running(spec{id: "job"})
	f.cancel("job")
	f.next(r)
	f.hasState("job", amboy.StateCanceled)
	assert.Len(f, f.attempts("job"), 1)
	assert.Empty(f, f.claim(10))
}

func nextLost(f *fixture) {
	r := f.running(spec{id: "job"})
	f.release(driver.HandBack{Lease: driver.LeaseOf(r)})
	unchanged := f.unchanged()
	f.lost(f.tryNext(r, nextAttempt(r)))
	unchanged()
	r = f.claimOne("job")
	f.next(r)
	unchanged = f.unchanged()
	f.lost(f.tryNext(r, nextAttempt(r)))
	unchanged()
}

func nextRefused(f *fixture) {
	r := f.running(spec{id: "job"})
	f.insert(spec{id: "attempt-1.job", priority: -1}, spec{id: "holder", scopes: []string{"held"}, enqueueScopes: []string{"held"}, priority: -1})
	unchanged := f.unchanged()
	assert.True(f, amboy.IsDuplicateJobError(f.tryNext(r, nextAttempt(r))))
	unchanged()
	other := f.running(spec{id: "other"})
	next := nextAttempt(other)
	next.RequiredScopes = []string{"held"}
	next.EnqueueScopes = next.RequiredScopes
	unchanged = f.unchanged()
	assert.True(f, amboy.IsDuplicateJobScopeError(f.tryNext(other, next)))
	unchanged()
	f.end(other, amboy.StateSucceeded)
	f.end(r, amboy.StateSucceeded)
}

func nextOfPlain(f *fixture) {
	f.insert(spec{id: "job"})
	r := f.claimOne("job")
	r.RetryInfo = amboy.JobRetryInfo{Retryable: true, BaseJobID: "job"}
	f.next(r)
	second := f.claimOne("job")
	assert.Equal(f, attemptName(f.queue, 1), second.Name)
	f.refusedAsDuplicate(spec{id: "job"})
	f.insert(spec{id: "dependent", edges: []string{"job"}})
	f.hasState("dependent", amboy.StateBlocked)
	f.end(second, amboy.StateSucceeded)
	f.hasState("job", amboy.StateSucceeded)
	assert.Empty(f, f.claimOne("dependent").Dependency.Failed)
}
