package amboy_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
)

func TestReport(t *testing.T) {
	pending := amboy.JobStatusInfo{}
	running := amboy.JobStatusInfo{InProgress: true}
	marked := amboy.JobStatusInfo{InProgress: true, Completed: true}
	completed := amboy.JobStatusInfo{Completed: true}
	retry := amboy.JobRetryInfo{Retryable: true, NeedsRetry: true}
	q := &fakeQueue{infos: []amboy.JobInfo{
		{ID: "p1", Status: pending},
		{ID: "p2", Status: pending, Time: amboy.JobTimeInfo{WaitUntil: someTime.AddDate(100, 0, 0)}},
		{ID: "p3", Status: amboy.JobStatusInfo{Hold: amboy.HoldParked}},
		{ID: "r1", Status: running},
		{ID: "r2", Status: marked, Retry: retry},
		{ID: "c1", Status: completed},
		{ID: "c2", Status: completed, Retry: amboy.JobRetryInfo{Retryable: true}},
		{ID: "t1", Status: completed, Retry: retry},
	}}
	all := amboy.QueueReport{
		Completed: []string{"c1", "c2"}, InProgress: []string{"r1", "r2"}, Pending: []string{"p1", "p2", "p3"}, Retrying: []string{"t1"},
	}
	for _, test := range []struct {
		limit int
		want  amboy.QueueReport
	}{
		{-1, all},
		{0, all},
		{1, amboy.QueueReport{Completed: []string{"c1"}, InProgress: []string{"r1"}, Pending: []string{"p1"}, Retrying: []string{"t1"}}},
		{2, amboy.QueueReport{Completed: []string{"c1", "c2"}, InProgress: []string{"r1", "r2"}, Pending: []string{"p1", "p2"}, Retrying: []string{"t1"}}},
		{100, all},
	} {
		assert.Equal(t, test.want, amboy.Report(t.Context(), q, test.limit), "limit %d", test.limit)
	}
}

func TestReportOfAnEmptyQueueAsJSON(t *testing.T) {
	stored, err := json.Marshal(amboy.Report(t.Context(), &fakeQueue{}, 0))
	require.NoError(t, err)
	assert.JSONEq(t, `{"completed":[],"in_progress":[],"pending":[],"retrying":[]}`, string(stored))
}

// endlessResults is a queue whose stream of results ends only with its context.
type endlessResults struct {
	amboy.Queue
	given chan amboy.Job
}

func (q *endlessResults) ID() string { return "q" }

func (q *endlessResults) Results(ctx context.Context) <-chan amboy.Job {
	context.AfterFunc(ctx, func() { close(q.given) })
	return q.given
}

func TestResolveErrors(t *testing.T) {
	failed := func(id string, errs ...error) amboy.Job {
		j := newJob(id)
		for _, err := range errs {
			j.AddError(err)
		}
		return j
	}

	t.Run("no jobs", func(t *testing.T) {
		assert.NoError(t, amboy.ResolveErrors(t.Context(), &fakeQueue{}))
	})
	t.Run("no errors", func(t *testing.T) {
		q := &fakeQueue{results: []amboy.Job{failed("a"), failed("b")}}
		assert.NoError(t, amboy.ResolveErrors(t.Context(), q))
	})
	t.Run("errors", func(t *testing.T) {
		q := &fakeQueue{results: []amboy.Job{
			failed("a", errors.New("no"), errors.New("no way")), failed("b"), failed("c", errPlain),
		}}
		assert.EqualError(t, amboy.ResolveErrors(t.Context(), q), "job \"a\": no\nno way\njob \"c\": disk is full")
	})
	t.Run("the context ends first", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		q := &endlessResults{given: make(chan amboy.Job, 1)}
		q.given <- failed("a", errPlain)
		cancel()
		err := amboy.ResolveErrors(ctx, q)
		require.ErrorContains(t, err, `job "a": disk is full`)
		require.ErrorContains(t, err, `results of queue "q"`)
		assert.ErrorIs(t, err, context.Canceled)
	})
	t.Run("the stream ends with the call", func(t *testing.T) {
		q := &endlessResults{given: make(chan amboy.Job, 1)}
		q.given <- struct{ amboy.Job }{}
		assert.Panics(t, func() { _ = amboy.ResolveErrors(t.Context(), q) }, "the job has no Error")
		_, open := <-q.given
		assert.False(t, open)
	})
}

func TestWithRetryableQueue(t *testing.T) {
	type retryableQueue struct{ amboy.RetryableQueue }
	q := retryableQueue{}
	var used []amboy.RetryableQueue
	use := func(q amboy.RetryableQueue) { used = append(used, q) }

	assert.False(t, amboy.WithRetryableQueue(nil, use))
	assert.False(t, amboy.WithRetryableQueue(&fakeQueue{}, use))
	assert.Empty(t, used)
	assert.True(t, amboy.WithRetryableQueue(q, use))
	assert.Equal(t, []amboy.RetryableQueue{q}, used)
}
