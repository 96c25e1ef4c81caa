package drivertest

import (
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/driver"
)

var retryRules = []rule{
	{"the next attempt replaces the one before", retryReplaces},
	{"the next attempt is ordered after waiting records", retryComesLast},
	{"the next attempt waits for its time", retryWaitUntil},
	{"the next attempt takes over the scopes", retryPassesScopes},
	{"scopes that the next attempt does not want are given up", retryGivesUpScopes},
	{"a new scope that is held refuses the retry and changes nothing", retryRefusedForScope},
	{"the next attempt takes over the dependents", retryPassesDependents},
	{"the next attempt has no failed edges", retryForgetsFailedEdges},
	{"a record is retried once", retryOnce},
	{"only a record that awaits its retry is retried", retryWrongState},
	{"a retry, or the end of one, is not that of an earlier run", retryOfEarlierRun},
	{"a taken name refuses the retry and changes nothing", retryRefusedForName},
}

var endRetryRules = []rule{
	{"ending a retry frees the scopes and lets dependents run", endRetryEnds},
	{"dependents find a failed retry among their failed edges", endRetryFailed},
	{"a retry ends once", endRetryOnce},
	{"only an awaited retry ends", endRetryWrongState},
}

// retrying inserts a job and ends its first attempt so that it awaits a retry.
func (f *fixture) retrying(s spec) *driver.Record {
	f.Helper()
	s.retryable, s.priority = true, 9
	f.insert(s)
	return f.end(f.claimOne(s.id), amboy.StateRetrying)
}

func retryReplaces(f *fixture) {
	r := f.retrying(spec{id: "job"})
	f.retry(r)
	f.hasState("job", amboy.StatePending)
	got := f.get("job")
	assert.Equal(f, attemptName(f.queue, 1), got.Name)
	assert.Equal(f, 1, got.RetryInfo.CurrentAttempt)

	all := f.list()
	require.Len(f, all, 2)
	assert.Equal(f, attemptName(f.queue, 0), all[0].Name)
	assert.Equal(f, amboy.StateFailed, stateOf(all[0]))
	assert.False(f, all[0].RetryInfo.NeedsRetry)
	assert.False(f, all[0].RetryInfo.End.IsZero())

	second := f.claimOne("job")
	assert.Equal(f, attemptName(f.queue, 1), second.Name)
	f.end(second, amboy.StateSucceeded)
	f.hasState("job", amboy.StateSucceeded)
	assert.Equal(f, amboy.QueueStats{Total: 2, Completed: 2}.String(), f.stats().String())
}

func retryComesLast(f *fixture) {
	r := f.retrying(spec{id: "job"})
	f.insert(spec{id: "other", priority: 9})
	f.retry(r)
	f.insert(spec{id: "late", priority: 9})
	assert.Equal(f, []string{"other", "job", "late"}, jobIDs(f.claim(10)))
}

func retryWaitUntil(f *fixture) {
	r := f.retrying(spec{id: "job"})
	next := nextAttempt(r)
	next.TimeInfo.WaitUntil, next.TimeInfo.DispatchBy = f.after(1), f.after(3)
	require.NoError(f, f.tryRetry(r, next))
	f.hasState("job", amboy.StateScheduled)
	assert.Empty(f, f.claim(10))
	assert.Equal(f, []string{"job"}, jobIDs(f.claimAt(4, 0).Records), "it expires")
}

func retryPassesScopes(f *fixture) {
	s := []string{"s"}
	r := f.retrying(spec{id: "job", scopes: s, enqueueScopes: s})
	f.insert(spec{id: "waiting", scopes: s, priority: 10})
	rival := spec{id: "rival", scopes: s, enqueueScopes: s}
	f.refusedForScope(rival)
	f.retry(r)
	assert.Equal(f, s, f.get("job").Scopes)
	f.refusedForScope(rival)
	f.hasState("waiting", amboy.StateBlocked)
	second := f.claimOne("job")
	f.refusedForScope(rival)
	f.end(second, amboy.StateSucceeded)
	f.claimOne("waiting")
}

func retryGivesUpScopes(f *fixture) {
	both := []string{"a", "b"}
	r := f.retrying(spec{id: "job", scopes: both, enqueueScopes: both})
	next := nextAttempt(r)
	next.EnqueueScopes = both[:1]
	f.insert(spec{id: "waiting", scopes: both[1:], priority: 10})
	require.NoError(f, f.tryRetry(r, next))
	f.refusedForScope(spec{id: "rival", scopes: both[:1], enqueueScopes: both[:1]})
	running := f.claim(10)
	require.Equal(f, []string{"waiting"}, jobIDs(running), "the job waits for the scope that it gave up")
	f.end(running[0], amboy.StateSucceeded)
	f.claimOne("job")
}

func retryRefusedForScope(f *fixture) {
	r := f.retrying(spec{id: "job", scopes: []string{"a"}, enqueueScopes: []string{"a"}})
	f.insert(spec{id: "holder", scopes: []string{"held"}, enqueueScopes: []string{"held"}})
	next := nextAttempt(r)
	next.RequiredScopes = []string{"free", "held"}
	next.EnqueueScopes = next.RequiredScopes
	unchanged := f.unchanged()
	err := f.tryRetry(r, next)
	require.True(f, amboy.IsDuplicateJobScopeError(err), "the error is %v", err)
	unchanged()
	f.insert(spec{id: "free", scopes: []string{"free"}, enqueueScopes: []string{"free"}})
	f.refusedForScope(spec{id: "rival", scopes: []string{"a"}, enqueueScopes: []string{"a"}})
	f.retry(r)
}

func retryPassesDependents(f *fixture) {
	r := f.retrying(spec{id: "job"})
	f.insert(spec{id: "before", edges: []string{"job"}})
	f.retry(r)
	f.insert(spec{id: "after", edges: []string{"job"}})
	second := f.claimOne("job")
	assert.Empty(f, f.claim(10), "the dependents wait for the last attempt")
	f.end(second, amboy.StateRetrying)
	assert.Empty(f, f.claim(10))
	f.retry(f.get("job"))
	f.end(f.claimOne("job"), amboy.StateSucceeded)
	woken := f.claim(10)
	require.Equal(f, []string{"before", "after"}, jobIDs(woken))
	for _, r := range woken {
		assert.Empty(f, r.Dependency.Failed, "the last attempt succeeded")
	}
}

func retryForgetsFailedEdges(f *fixture) {
	f.insert(spec{id: "bad"})
	f.end(f.claimOne("bad"), amboy.StateFailed)
	r := f.retrying(spec{id: "job", edges: []string{"bad"}})
	f.retry(r)
	assert.Empty(f, f.claimOne("job").Dependency.Failed)
}

func retryOnce(f *fixture) {
	r := f.retrying(spec{id: "job"})
	f.retry(r)
	unchanged := f.unchanged()
	f.lost(f.tryRetry(r, nextAttempt(r)))
	f.lost(f.driver.EndRetry(f.ctx, endedRetry(r, amboy.StateFailed)))
	unchanged()
}

func (f *fixture) refusesRetry(r *driver.Record) {
	f.Helper()
	unchanged := f.unchanged()
	f.lost(f.tryRetry(r, nextAttempt(r)))
	f.lost(f.driver.EndRetry(f.ctx, endedRetry(r, amboy.StateFailed)))
	unchanged()
}

func retryWrongState(f *fixture) {
	f.refusesRetry(f.record(spec{id: "unknown", retryable: true}))
	f.insert(spec{id: "job", retryable: true})
	f.refusesRetry(f.get("job"))
	r := f.claimOne("job")
	f.refusesRetry(r)
	f.end(r, amboy.StateFailed)
	f.refusesRetry(r)
}

func retryRefusedForName(f *fixture) {
	r := f.retrying(spec{id: "job"})
	f.insert(spec{id: "attempt-1.job"})
	unchanged := f.unchanged()
	err := f.tryRetry(r, nextAttempt(r))
	require.True(f, amboy.IsDuplicateJobError(err), "the error is %v", err)
	unchanged()
	f.hasState("job", amboy.StateRetrying)
}

func endRetryEnds(f *fixture) {
	s := []string{"s"}
	r := f.retrying(spec{id: "job", scopes: s, enqueueScopes: s})
	f.insert(spec{id: "waiting", scopes: s}, spec{id: "dependent", edges: []string{"job"}})
	assert.Empty(f, f.claim(10))
	require.NoError(f, f.driver.EndRetry(f.ctx, endedRetry(r, amboy.StateSucceeded)))
	f.consistent()
	f.hasState("job", amboy.StateSucceeded)
	woken := f.claim(10)
	require.Equal(f, []string{"waiting", "dependent"}, jobIDs(woken))
	assert.Empty(f, woken[1].Dependency.Failed)
}

func endRetryFailed(f *fixture) {
	r := f.retrying(spec{id: "job"})
	f.insert(spec{id: "dependent", edges: []string{"job"}})
	require.NoError(f, f.driver.EndRetry(f.ctx, endedRetry(r, amboy.StateFailed)))
	f.hasState("job", amboy.StateFailed)
	assert.Equal(f, []string{"job"}, f.claimOne("dependent").Dependency.Failed)
}

func endRetryOnce(f *fixture) {
	r := f.retrying(spec{id: "job"})
	require.NoError(f, f.driver.EndRetry(f.ctx, endedRetry(r, amboy.StateFailed)))
	f.refusesRetry(r)
}

// retryOfEarlierRun has a process that is slow to retry a job, which another process ended for good, an
// operator restarted, and which failed again.
func retryOfEarlierRun(f *fixture) {
	first := f.retrying(spec{id: "job"})
	require.NoError(f, f.driver.EndRetry(f.ctx, endedRetry(first, amboy.StateFailed)))
	f.act(driver.Action{Kind: driver.Restart}, "job")
	second := f.end(f.claimOne("job"), amboy.StateRetrying)
	f.refusesRetry(first)
	f.retry(second)
	f.hasState("job", amboy.StatePending)
}

func endRetryWrongState(f *fixture) {
	f.insert(spec{id: "plain"})
	f.refusesRetry(f.claimOne("plain"))
}
