package drivertest

import (
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
)

var getRules = []rule{
	{"an unknown job is not found", getUnknown},
	{"the latest attempt is returned", getLatest},
}

var attemptsRules = []rule{
	{"attempts are returned oldest first", attemptsOldestFirst},
	{"a job that is unknown or not retryable has none", attemptsNone},
}

var statsRules = []rule{
	{"every state is counted", statsCount},
	{"an empty store counts nothing", statsEmpty},
}

func getUnknown(f *fixture) {
	f.insert(spec{id: "job"})
	_, err := f.driver.Get(f.ctx, f.queue, "unknown")
	require.True(f, amboy.IsJobNotFoundError(err), "the error is %v", err)
}

func getLatest(f *fixture) {
	r := f.retrying(spec{id: "job"})
	for attempt := 1; attempt <= 11; attempt++ { // attempts are compared as numbers
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
	attempts := f.attempts("job")
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
	for _, id := range []string{"plain", "unknown"} {
		assert.Empty(f, f.attempts(id), "of %s", id)
	}
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
