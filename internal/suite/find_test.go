package suite_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
)

// found returns the IDs of the jobs that a query selects, in order.
func (f *fixture) found(q amboy.Queue, query amboy.JobQuery) []string {
	f.Helper()
	finder, ok := q.(amboy.JobFinder)
	require.True(f, ok)
	ids := []string{}
	for info, err := range finder.FindJobs(f.ctx, query) {
		require.NoError(f, err)
		ids = append(ids, info.ID)
	}
	n, err := finder.CountJobs(f.ctx, query)
	require.NoError(f, err)
	assert.Len(f, ids, n)
	return ids
}

func TestJobsAreFound(t *testing.T) {
	onEach(t, func(f *fixture) {
		q := f.open(options{})
		tagged := func(id string, run func(context.Context, *funcJob), tags ...string) *funcJob {
			j := f.job(id, run)
			j.SetTags(tags)
			return j
		}
		nothing := func(context.Context, *funcJob) {}
		failing := func(_ context.Context, j *funcJob) { j.AddRetryableError(errors.New("no")) }
		later := tagged("later", nothing, "red")
		later.UpdateTimeInfo(amboy.JobTimeInfo{WaitUntil: f.now().Add(time.Hour)})
		f.put(q, tagged("a", nothing, "red", "green"), tagged("b", nothing, "green"), tagged("c", failing, "red"), f.job("d", nothing), later)

		assert.Equal(f, []string{"a", "b", "c", "d", "later"}, f.found(q, amboy.JobQuery{}))
		assert.Equal(f, []string{"a", "c", "later"}, f.found(q, amboy.JobQuery{Tag: "red"}))
		assert.Equal(f, []string{"a", "b"}, f.found(q, amboy.JobQuery{Tag: "green"}))
		assert.Empty(f, f.found(q, amboy.JobQuery{Tag: "blue"}))
		assert.Empty(f, f.found(q, amboy.JobQuery{Types: []string{"other"}}))
		assert.Len(f, f.found(q, amboy.JobQuery{Types: []string{funcJobType, "other"}}), 5)
		assert.Equal(f, []string{"later"}, f.found(q, amboy.JobQuery{Tag: "red", States: []amboy.JobState{amboy.StateScheduled}}))

		require.NoError(f, q.Start(f.ctx))
		for _, id := range []string{"a", "b", "c", "d"} {
			j, ok := q.Get(f.ctx, id)
			require.True(f, ok)
			require.True(f, amboy.WaitJob(f.ctx, j, q))
		}
		assert.Equal(f, []string{"c"}, f.found(q, amboy.JobQuery{States: []amboy.JobState{amboy.StateFailed}}))
		assert.Equal(f, []string{"a"}, f.found(q, amboy.JobQuery{Tag: "red", States: []amboy.JobState{amboy.StateSucceeded}}))
		assert.Equal(f, []string{"red", "green"}, f.info(q, "a").Tags)
	})
}

func TestTheLatestAttemptIsFound(t *testing.T) {
	onEach(t, func(f *fixture) {
		q := f.start(options{})
		j := retryable(f.job("flaky", func(_ context.Context, j *funcJob) {
			if j.RetryInfo().CurrentAttempt == 0 {
				j.AddRetryableError(errors.New("once more"))
			}
		}), 3)
		j.SetTags([]string{"red"})
		f.put(q, j)
		f.drain(q)
		assert.Equal(f, []string{"flaky"}, f.found(q, amboy.JobQuery{Tag: "red"}))
		assert.Equal(f, []string{"flaky"}, f.found(q, amboy.JobQuery{States: []amboy.JobState{amboy.StateSucceeded}}))
		assert.Empty(f, f.found(q, amboy.JobQuery{States: []amboy.JobState{amboy.StateFailed}}))
	})
}

func TestFindingEndsWithItsContext(t *testing.T) {
	onEach(t, func(f *fixture) {
		q := f.open(options{})
		f.put(q, f.job("a", func(context.Context, *funcJob) {}))
		ctx, cancel := context.WithCancel(f.ctx)
		cancel()
		finder := q.(amboy.JobFinder)
		_, err := finder.CountJobs(ctx, amboy.JobQuery{})
		require.ErrorIs(f, err, context.Canceled)
		for _, err = range finder.FindJobs(ctx, amboy.JobQuery{}) {
			require.ErrorIs(f, err, context.Canceled)
		}
		require.Error(f, err)
	})
}
