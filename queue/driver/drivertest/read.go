package drivertest

import (
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/driver"
)

var getRules = []rule{
	{"a job that is not there is not found", getUnknown},
	{"the latest attempt is given", getLatest},
}

var attemptsRules = []rule{
	{"they are given oldest first", attemptsOldestFirst},
	{"there are none of a job that is not there or not retryable", attemptsNone},
}

var listRules = []rule{
	{"every state is told apart", listStates},
	{"records come in the order in which they were added", listOrder},
}

var statsRules = []rule{
	{"every state is counted", statsCount},
	{"an empty store counts nothing", statsEmpty},
}

func getUnknown(f *fixture) {
	f.insert(spec{id: "job"})
	_, err := f.driver.Get(f.ctx, "nobody")
	require.True(f, amboy.IsJobNotFoundError(err), "the error is %v", err)
}

func getLatest(f *fixture) {
	r := f.retrying(spec{id: "job"})
	for attempt := 1; attempt <= 11; attempt++ { // 10 is no less than 9
		f.retry(r)
		assert.Equal(f, attempt, f.get("job").RetryInfo.CurrentAttempt)
		r = f.end(f.claimOne("job"), amboy.StateRetrying)
	}
}

func attemptsOldestFirst(f *fixture) {
	r := f.retrying(spec{id: "job"})
	for range 10 {
		f.retry(r)
		r = f.end(f.claimOne("job"), amboy.StateRetrying)
	}
	attempts, err := f.driver.Attempts(f.ctx, "job")
	require.NoError(f, err)
	require.Len(f, attempts, 11)
	for i, r := range attempts {
		assert.Equal(f, i, r.RetryInfo.CurrentAttempt)
		assert.Equal(f, "job", r.JobID())
	}
	assert.Equal(f, amboy.StateFailed, stateOf(attempts[0]))
	assert.Equal(f, amboy.StateRetrying, stateOf(attempts[10]))
}

func attemptsNone(f *fixture) {
	f.insert(spec{id: "plain"})
	for _, id := range []string{"plain", "nobody"} {
		attempts, err := f.driver.Attempts(f.ctx, id)
		require.NoError(f, err)
		assert.Empty(f, attempts, "of %s", id)
	}
}

// everyState puts a job in each state, which is its ID, and one more in some.
func everyState(f *fixture) map[string]amboy.JobState {
	f.Helper()
	states := map[string]amboy.JobState{
		"scope": amboy.StateBlocked, "edge": amboy.StateBlocked, "postponed": amboy.StateBlocked,
		"late": amboy.StateExpired, "overdue edge": amboy.StateExpired,
	}
	order := []amboy.JobState{
		amboy.StateSucceeded, amboy.StateFailed, amboy.StateCanceled, amboy.StateExpired,
		amboy.StateRetrying, amboy.StateParked,
	}
	for _, state := range order {
		f.insert(spec{id: string(state), retryable: state == amboy.StateRetrying})
		states[string(state)] = state
	}
	f.insert(spec{id: "postponed"}, spec{id: "running", scopes: []string{"held"}})
	running := f.claim(10)
	require.Len(f, running, len(order)+2)
	for i, state := range order {
		if state != amboy.StateParked {
			f.end(running[i], state)
		}
	}
	f.release(driver.HandBack{Lease: driver.LeaseOf(running[len(order)-1]), Park: true})
	f.release(driver.HandBack{Lease: driver.LeaseOf(running[len(order)]), NotBefore: f.after(1)})
	f.insert(
		spec{id: "scope", scopes: []string{"held"}},
		spec{id: "edge", edges: []string{"running"}},
		spec{id: "scheduled", waitUntil: f.after(1)},
		spec{id: "pending"},
		spec{id: "late", dispatchBy: f.after(-1)},
		spec{id: "overdue edge", dispatchBy: f.after(-1), edges: []string{"running"}},
	)
	states["running"], states["scheduled"], states["pending"] = amboy.StateRunning, amboy.StateScheduled, amboy.StatePending
	return states
}

func listStates(f *fixture) {
	states := everyState(f)
	for id, state := range states {
		f.hasState(id, state)
	}
	listed := 0
	for _, state := range amboy.JobStates() {
		records := f.list(state)
		assert.NotEmpty(f, records, "in state %s", state)
		for _, r := range records {
			listed++
			assert.Equal(f, state, states[r.JobID()], "job %q is listed as %s", r.JobID(), state)
			assert.Equal(f, state, stateOf(r), "job %q is listed as %s", r.JobID(), state)
		}
	}
	assert.Equal(f, len(states), listed, "each job is listed in one state")
	assert.Len(f, f.list(), len(states))
}

func listOrder(f *fixture) {
	everyState(f)
	some := f.list(amboy.StateRunning, amboy.StateParked, amboy.StateFailed, amboy.StateExpired)
	assert.Equal(f, []string{"failed", "expired", "parked", "running", "late", "overdue edge"}, jobIDs(some))
	assert.Equal(f, []string{
		"succeeded", "failed", "canceled", "expired", "retrying", "parked", "postponed", "running",
		"scope", "edge", "scheduled", "pending", "late", "overdue edge",
	}, jobIDs(f.list()))
}

func statsCount(f *fixture) {
	everyState(f)
	want := amboy.QueueStats{Total: 14, Pending: 8, Blocked: 4, Running: 1, Completed: 5, Retrying: 1}
	assert.Equal(f, want.String(), f.stats().String())
}

func statsEmpty(f *fixture) {
	assert.Equal(f, amboy.QueueStats{}.String(), f.stats().String())
	assert.Empty(f, f.list())
}
