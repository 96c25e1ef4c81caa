package drivertest

import (
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/driver"
)

var uniqueRules = []rule{
	{"a unique key can be taken once", uniqueOnce},
	{"the first of two records with one key in one call is added", uniqueInCall},
	{"a refused record takes no key", uniqueRefused},
	{"a key is held for as long as its job says", uniqueUntil},
	{"a key until the job starts is never taken again by that job", uniqueStarted},
	{"a job that never started has no key when it has ended", uniqueNeverStarted},
	{"the next attempt takes over the key", uniqueRetry},
	{"a key is the one of Insert, whatever is written later", uniqueKept},
	{"a restarted job takes its key again", uniqueRestart},
	{"a job whose key another job has is not restarted", uniqueRestartRefused},
	{"a key is free when its job is forgotten or deleted", uniqueRemoved},
	{"a job does not free a key that another job has taken since", uniqueTakenSince},
}

// hasKey requires that the unique key "key" is held, or that it is free, at some point of
// a job's life.
func (f *fixture) hasKey(held bool, when string) {
	f.Helper()
	probe := "probe when the job " + when
	err := f.tryInsert(spec{id: probe, uniqueKey: "key"})[0]
	if held {
		require.True(f, amboy.IsDuplicateJobError(err), "the key must be held when the job %s (the error is %v)", when, err)
		require.False(f, amboy.IsDuplicateJobScopeError(err), "the error is %v", err)
		f.missing(probe)
		return
	}
	require.NoError(f, err, "the key must be free when the job %s", when)
	f.act(driver.Action{Kind: driver.Cancel}, probe)
}

func uniqueOnce(f *fixture) {
	f.insert(spec{id: "job", uniqueKey: "key"}, spec{id: "other", uniqueKey: "other"}, spec{id: "none"}, spec{id: "none too"})
	f.refusedAsDuplicate(spec{id: "rival", uniqueKey: "key"})
	f.refusedAsDuplicate(spec{id: "rival", uniqueKey: "key", uniqueUntil: amboy.UniqueUntilStarted})
	f.insert(spec{id: "key"}, spec{id: "rival", uniqueKey: "Key"}, spec{id: "job2", uniqueKey: "job"})
	got := f.get("job")
	assert.Equal(f, "key", got.UniqueKey)
	assert.Equal(f, amboy.UniqueUntilEnded, got.UniqueUntil)
}

func uniqueInCall(f *fixture) {
	errs := f.tryInsert(spec{id: "a", uniqueKey: "key"}, spec{id: "b", uniqueKey: "key"}, spec{id: "c", uniqueKey: "c"})
	require.NoError(f, errs[0])
	require.True(f, amboy.IsDuplicateJobError(errs[1]), "the error is %v", errs[1])
	require.NoError(f, errs[2])
	assert.Equal(f, []string{"a", "c"}, jobIDs(f.list()))
}

func uniqueRefused(f *fixture) {
	f.insert(spec{id: "holder", scopes: []string{"s"}, enqueueScopes: []string{"s"}})
	f.refusedForScope(spec{id: "job", scopes: []string{"s"}, enqueueScopes: []string{"s"}, uniqueKey: "key"})
	f.refusedAsDuplicate(spec{id: "holder", uniqueKey: "key"})
	f.hasKey(false, "was refused")

	f.insert(spec{id: "unique", uniqueKey: "key"})
	f.refusedAsDuplicate(spec{id: "job", uniqueKey: "key", scopes: []string{"t"}, enqueueScopes: []string{"t"}})
	f.insert(spec{id: "job", scopes: []string{"t"}, enqueueScopes: []string{"t"}})
}

// uniqueUntil tries each duration with each ending.
func uniqueUntil(f *fixture) {
	f.unchecked = true // many calls; the test checks the keys
	// held reports for each duration in which states a job has its key.
	held := map[amboy.UniqueUntil]func(state amboy.JobState) bool{
		"":                         func(state amboy.JobState) bool { return !state.IsFinal() },
		amboy.UniqueUntilEnded:     func(state amboy.JobState) bool { return !state.IsFinal() },
		amboy.UniqueUntilStarted:   func(state amboy.JobState) bool { return state == amboy.StatePending },
		amboy.UniqueUntilFailed:    func(state amboy.JobState) bool { return !state.IsFinal() || state == amboy.StateSucceeded },
		amboy.UniqueUntilForgotten: func(amboy.JobState) bool { return true },
	}
	for until, isHeld := range held {
		for _, state := range []amboy.JobState{amboy.StateSucceeded, amboy.StateFailed, amboy.StateCanceled, amboy.StateExpired} {
			id := string(until) + " " + string(state)
			f.insert(spec{id: id, uniqueKey: "key", uniqueUntil: until, retryable: true})
			f.hasKey(isHeld(amboy.StatePending), id+" waits")
			r := f.claimOne(id)
			f.hasKey(isHeld(amboy.StateRunning), id+" runs")
			f.end(r, state)
			f.hasKey(isHeld(state), id+" has ended")
			f.act(driver.Action{Kind: driver.Delete}, id)
		}
	}
}

func uniqueStarted(f *fixture) {
	f.insert(spec{id: "job", uniqueKey: "key", uniqueUntil: amboy.UniqueUntilStarted, retryable: true})
	r := f.claimOne("job")
	f.hasKey(false, "runs")
	f.release(driver.HandBack{Lease: driver.LeaseOf(r)})
	f.hasKey(false, "was handed back")
	f.end(f.claimOne("job"), amboy.StateRetrying)
	f.hasKey(false, "awaits its retry")
	f.insert(spec{id: "next", uniqueKey: "key", uniqueUntil: amboy.UniqueUntilStarted})
	f.retry(f.get("job"))
	f.hasKey(true, "is to be retried, and another has the key")
	f.end(f.claimOne("next"), amboy.StateSucceeded)
	f.hasKey(false, "waits for its next attempt")
}

func uniqueNeverStarted(f *fixture) {
	for _, until := range []amboy.UniqueUntil{amboy.UniqueUntilEnded, amboy.UniqueUntilStarted, amboy.UniqueUntilFailed} {
		s := spec{id: "by hand " + string(until), uniqueKey: "key", uniqueUntil: until}
		f.insert(s)
		f.end(f.get(s.id), amboy.StateCanceled)
		f.hasKey(false, s.id+" was ended")
		s.id = "canceled " + string(until)
		f.insert(s)
		f.act(driver.Action{Kind: driver.Cancel}, s.id)
		f.hasKey(false, s.id+" was canceled")
	}
}

func uniqueRetry(f *fixture) {
	r := f.retrying(spec{id: "job", uniqueKey: "key"})
	f.hasKey(true, "awaits its retry")
	f.retry(r)
	f.hasKey(true, "has a next attempt")
	assert.Equal(f, "key", f.get("job").UniqueKey)
	f.end(f.claimOne("job"), amboy.StateRetrying)
	f.hasKey(true, "awaits its second retry")
	require.NoError(f, f.driver.EndRetry(f.ctx, endedRetry(f.get("job"), amboy.StateFailed)))
	f.consistent()
	f.hasKey(false, "has ended")

	r = f.retrying(spec{id: "kept", uniqueKey: "key", uniqueUntil: amboy.UniqueUntilFailed})
	require.NoError(f, f.driver.EndRetry(f.ctx, endedRetry(r, amboy.StateSucceeded)))
	f.hasKey(true, "has succeeded after all")
}

func uniqueKept(f *fixture) {
	f.insert(spec{id: "job", uniqueKey: "key", uniqueUntil: amboy.UniqueUntilForgotten})
	saved := f.record(spec{id: "job", uniqueKey: "saved"})
	require.NoError(f, f.driver.Save(f.ctx, saved))
	f.hasKey(true, "was saved")
	r := f.claimOne("job")
	e := ended(r, amboy.StateFailed)
	e.UniqueKey, e.UniqueUntil = "other", amboy.UniqueUntilEnded
	require.NoError(f, f.tryComplete(driver.LeaseOf(r), e))
	f.hasKey(true, "has ended")
	assert.Equal(f, "key", f.get("job").UniqueKey)
	f.insert(spec{id: "other", uniqueKey: "other"}, spec{id: "saved", uniqueKey: "saved"})
}

func uniqueRestart(f *fixture) {
	for _, until := range []amboy.UniqueUntil{amboy.UniqueUntilEnded, amboy.UniqueUntilStarted, amboy.UniqueUntilFailed, amboy.UniqueUntilForgotten} {
		id := string(until)
		f.insert(spec{id: id, uniqueKey: "key", uniqueUntil: until})
		f.end(f.claimOne(id), amboy.StateFailed)
		f.act(driver.Action{Kind: driver.Restart}, id)
		f.hasKey(true, id+" is to run again")
		r := f.claimOne(id)
		f.hasKey(until != amboy.UniqueUntilStarted, id+" runs again")
		f.end(r, amboy.StateFailed)
		f.hasKey(until == amboy.UniqueUntilForgotten, id+" has ended again")
		f.act(driver.Action{Kind: driver.Delete}, id)
	}
}

func uniqueRestartRefused(f *fixture) {
	f.insert(spec{id: "job", uniqueKey: "key", scopes: []string{"s"}, enqueueScopes: []string{"s"}})
	f.end(f.claimOne("job"), amboy.StateFailed)
	f.insert(spec{id: "rival", uniqueKey: "key"})
	unchanged := f.unchanged()
	assert.False(f, f.tryAct(driver.Action{Kind: driver.Restart}, "job"))
	unchanged()
	f.insert(spec{id: "scope", scopes: []string{"s"}, enqueueScopes: []string{"s"}})
	f.act(driver.Action{Kind: driver.Cancel}, "rival", "scope")
	f.act(driver.Action{Kind: driver.Restart}, "job")
	f.claimOne("job")
}

func uniqueRemoved(f *fixture) {
	f.insert(spec{id: "forgotten", uniqueKey: "key", uniqueUntil: amboy.UniqueUntilForgotten})
	r := f.claimOne("forgotten")
	e := ended(r, amboy.StateSucceeded)
	e.ForgetAt = f.after(1)
	require.NoError(f, f.tryComplete(driver.LeaseOf(r), e))
	f.hasKey(true, "has ended")
	require.Equal(f, 1, f.forget(f.after(1), 10))
	f.hasKey(false, "was forgotten")

	f.insert(spec{id: "deleted", uniqueKey: "key", uniqueUntil: amboy.UniqueUntilFailed})
	f.end(f.claimOne("deleted"), amboy.StateSucceeded)
	f.hasKey(true, "has succeeded")
	f.act(driver.Action{Kind: driver.Delete}, "deleted")
	f.hasKey(false, "was deleted")
}

func uniqueTakenSince(f *fixture) {
	f.insert(spec{id: "first", uniqueKey: "key", uniqueUntil: amboy.UniqueUntilStarted})
	first := f.claimOne("first")
	f.insert(spec{id: "second", uniqueKey: "key", uniqueUntil: amboy.UniqueUntilForgotten})
	f.end(first, amboy.StateFailed)
	f.hasKey(true, "has ended, and another has the key")
	f.act(driver.Action{Kind: driver.Delete}, "first")
	f.hasKey(true, "was deleted, and another has the key")
}
