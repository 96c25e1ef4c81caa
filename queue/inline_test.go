package queue_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/dependency"
	"github.com/mongodb/amboy/pool"
	"github.com/mongodb/amboy/queue"
)

func newInlineQueue(t *testing.T, opts queue.InlineOptions) *queue.Inline {
	t.Helper()
	q, err := queue.NewInline(opts)
	require.NoError(t, err)
	t.Cleanup(func() { q.Close(context.Background()) })
	return q
}

func TestInlineQueueRefusesInvalidOptions(t *testing.T) {
	for name, opts := range map[string]queue.InlineOptions{
		"Failed":       {Retention: queue.Retention{Failed: -2}},
		"Format":       {Format: -1},
		"RetryBackoff": {Retryable: queue.RetryableQueueOptions{RetryHandler: amboy.RetryHandlerOptions{RetryBackoff: -1}}},
	} {
		_, err := queue.NewInline(opts)
		require.ErrorContains(t, err, name)
	}
}

func TestInlineQueueKeepsItsParts(t *testing.T) {
	q := newInlineQueue(t, queue.InlineOptions{})
	require.Error(t, q.SetRunner(pool.NewNoop()))
	require.Error(t, q.SetRetryHandler(q.RetryHandler()))
	put(t, q, noop(t, "a"))
	assert.True(t, q.RunNext(t.Context()))
}

func TestInlineQueueIsStartedByItsFirstRun(t *testing.T) {
	q := newInlineQueue(t, queue.InlineOptions{})
	assert.False(t, q.Info().Started)
	assert.False(t, q.RunNext(t.Context()))
	assert.True(t, q.Info().Started)
	require.ErrorIs(t, q.Start(t.Context()), amboy.ErrAlreadyStarted)
}

func TestQueueFromContextIsTheInlineQueue(t *testing.T) {
	q := newInlineQueue(t, queue.InlineOptions{})
	var seen amboy.Queue
	put(t, q, newJob(t, "a", func(ctx context.Context, _ *funcJob) { seen = amboy.QueueFromContext(ctx) }))
	require.True(t, q.RunNext(t.Context()))
	assert.Same(t, q, seen)
}

func TestInlineQueueIsClosed(t *testing.T) {
	q := newInlineQueue(t, queue.InlineOptions{})
	put(t, q, noop(t, "a"))
	q.Close(t.Context())
	assert.False(t, q.RunNext(t.Context()))
	assert.False(t, q.WaitComplete(t.Context()))
	require.ErrorIs(t, q.Put(t.Context(), noop(t, "b")), amboy.ErrQueueClosed)
}

func TestInlineQueueEndsExpiredJobs(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	q := newInlineQueue(t, queue.InlineOptions{Time: now})
	j := newJob(t, "a", func(context.Context, *funcJob) { assert.Fail(t, "an expired job must not run") })
	j.UpdateTimeInfo(amboy.JobTimeInfo{DispatchBy: now.Add(time.Minute)})
	put(t, q, j)
	assert.Equal(t, amboy.StatePending, infoOf(t, q, "a").State)
	q.AdvanceTo(now.Add(time.Minute + 1))
	assert.Zero(t, q.RunAll(t.Context()))
	assert.Equal(t, amboy.StateExpired, infoOf(t, q, "a").State)
}

func TestInlineQueueIsSafeForConcurrentUse(t *testing.T) {
	const jobs, callers = 200, 8
	q := newInlineQueue(t, queue.InlineOptions{})
	var ran atomic.Int64
	var wg sync.WaitGroup
	for caller := range callers {
		wg.Go(func() {
			for i := range jobs / callers {
				put(t, q, newJob(t, fmt.Sprint(caller, "-", i), func(context.Context, *funcJob) { ran.Add(1) }))
				q.RunNext(t.Context())
				q.AdvanceTo(q.Now().Add(time.Millisecond))
			}
		})
	}
	wg.Wait()
	assert.True(t, amboy.Wait(t.Context(), q))
	assert.EqualValues(t, jobs, ran.Load())
}

// TestInlineQueueStartsJobsAtItsRate advances only the queue's clock.
func TestInlineQueueStartsJobsAtItsRate(t *testing.T) {
	q := newInlineQueue(t, queue.InlineOptions{})
	setRate(t, q, 0.1, 1)
	var r journal
	put(t, q, recorded(t, &r, "one"), recorded(t, &r, "two"), recorded(t, &r, "three"))
	assert.Equal(t, 1, q.RunAll(t.Context()))
	next, ok := q.NextTime()
	require.True(t, ok)
	assert.Equal(t, 10*time.Second, next.Sub(q.Now()).Round(time.Second))
	assert.Zero(t, q.RunUntil(t.Context(), q.Now().Add(9*time.Second)))
	assert.Equal(t, 1, q.RunUntil(t.Context(), q.Now().Add(2*time.Second)))
	assert.True(t, q.WaitComplete(t.Context()))
	assert.Equal(t, []string{"one", "two", "three"}, r.all())
	_, ok = q.NextTime()
	assert.False(t, ok, "there is nothing to wait for")
}

func TestInlineQueueWaitedForEverForABlockedDependency(t *testing.T) {
	const never = "queue_test-inline-never"
	dependency.RegisterCheck(never, func() dependency.CheckFunc {
		return func([]string) dependency.State { return dependency.Blocked }
	})
	ctx := within(t)
	q := newInlineQueue(t, queue.InlineOptions{})
	blocked, later := noop(t, "blocked"), noop(t, "later")
	blocked.SetDependency(dependency.NewCheckManager(never))
	later.UpdateTimeInfo(amboy.JobTimeInfo{WaitUntil: q.Now().Add(3 * time.Hour)})
	put(t, q, blocked, later)
	assert.False(t, q.WaitComplete(ctx))
	assert.Equal(t, amboy.StateSucceeded, infoOf(t, q, "later").State)
	assert.False(t, q.WaitJobComplete(ctx, "blocked"))
	assert.Equal(t, amboy.StateBlocked, infoOf(t, q, "blocked").State)
	require.NoError(t, ctx.Err())
}
