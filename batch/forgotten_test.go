package batch_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/amboytest"
	"github.com/mongodb/amboy/batch"
	"github.com/mongodb/amboy/job"
	"github.com/mongodb/amboy/queue"
)

// loads counts the runs of jobs by their argument.
type loadsKey struct{}

var countLoad = job.Define("batch-count", 1, func(ctx context.Context, what string) error {
	ctx.Value(loadsKey{}).(map[string]int)[what]++
	if what == "fails" {
		return errors.New("no")
	}
	return nil
})

// startCounting starts a queue whose jobs count their runs.
func startCounting(t *testing.T, mw ...amboy.Middleware) (*amboytest.Queue, map[string]int) {
	t.Helper()
	loads := map[string]int{}
	q := amboytest.NewWithOptions(t, queue.InlineOptions{Middleware: mw})
	require.NoError(t, q.Start(context.WithValue(t.Context(), loadsKey{}, loads)))
	return q, loads
}

func newCounted(t *testing.T, id string, keep time.Duration) amboy.Job {
	t.Helper()
	j, err := countLoad.New(id, job.ID(id), job.Retention(amboy.Retention{Succeeded: keep}))
	require.NoError(t, err)
	return j
}

func TestABatchThatWasPutAgainRanJobsAgainThatWereForgotten(t *testing.T) {
	q, loads := startCounting(t)
	put := func() *batch.Handle {
		b := newBatch(t, "import")
		require.NoError(t, b.Add(newCounted(t, "short", time.Minute), newCounted(t, "long", 0)))
		h, err := b.Put(t.Context(), q)
		require.NoError(t, err)
		return h
	}
	put()
	require.True(t, amboy.Wait(t.Context(), q))
	q.Advance(time.Hour)
	progress, err := put().Wait(t.Context())
	require.NoError(t, err)
	assert.Equal(t, batch.Progress{Total: 2, Forgotten: 1, States: map[amboy.JobState]int{amboy.StateSucceeded: 1}}, progress)
	assert.Equal(t, map[string]int{"short": 1, "long": 1}, loads)
}

// Workers may run jobs, and a store may remove them, as soon as they are put.
func TestABatchWhoseJobsWereForgottenAtOnceHadNoEnd(t *testing.T) {
	var q *amboytest.Queue
	q, loads := startCounting(t, amboy.Middleware{Put: func(next amboy.PutFunc) amboy.PutFunc {
		return func(ctx context.Context, jobs []amboy.Job) error {
			err := next(ctx, jobs)
			q.RunFor(ctx, time.Minute)
			return err
		}
	}})
	b := newBatch(t, "import")
	require.NoError(t, b.Add(newCounted(t, "a", time.Second)))
	require.NoError(t, b.OnSuccess(newCounted(t, "success", 0)))
	require.NoError(t, b.OnEnd(newCounted(t, "end", 0)))
	_, err := b.Put(t.Context(), q)
	require.NoError(t, err)
	assert.Equal(t, map[string]int{"a": 1, "success": 1, "end": 1}, loads)
}

func TestWaitingForABatchWhoseEndIsForgottenSaidThatTheQueueIsClosed(t *testing.T) {
	q, _ := startCounting(t)
	b := newBatch(t, "import")
	require.NoError(t, b.Add(newCounted(t, "a", 0)))
	h, err := b.Put(t.Context(), q)
	require.NoError(t, err)
	require.True(t, amboy.Wait(t.Context(), q))
	q.Advance(amboy.DefaultKeepSucceeded)
	progress, err := h.Wait(t.Context())
	require.NoError(t, err)
	assert.True(t, progress.Done())
}

// Failed jobs are kept for longer than the marker of their batch.
func TestABatchCountedTheJobsOfAnEarlierBatchWithItsID(t *testing.T) {
	q, _ := startCounting(t)
	put := func(jobs ...amboy.Job) *batch.Handle {
		b := newBatch(t, "nightly")
		require.NoError(t, b.Add(jobs...))
		h, err := b.Put(t.Context(), q)
		require.NoError(t, err)
		return h
	}
	put(newCounted(t, "fails", 0))
	require.True(t, amboy.Wait(t.Context(), q))
	q.Advance(amboy.DefaultKeepSucceeded)
	amboytest.RequireState(t, q, "fails", amboy.StateFailed)

	progress, err := put(newCounted(t, "a", 0)).Progress(t.Context())
	require.NoError(t, err)
	assert.Equal(t, batch.Progress{Total: 1, States: map[amboy.JobState]int{amboy.StatePending: 1}}, progress)
	assert.False(t, progress.Done())
}
