package pool_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/pool"
)

// pools are the constructors of all pools that run jobs.
func pools(t *testing.T) map[string]func(size int, q amboy.Queue) amboy.Runner {
	return map[string]func(int, amboy.Queue) amboy.Runner{
		"local":     pool.NewLocalWorkers,
		"abortable": func(n int, q amboy.Queue) amboy.Runner { return pool.NewAbortablePool(n, q) },
		"rate limited": func(n int, q amboy.Queue) amboy.Runner {
			r, err := pool.NewRateLimitedWorkers(n, 1000, time.Millisecond, 1000, q)
			require.NoError(t, err)
			return r
		},
		"moving average": func(n int, q amboy.Queue) amboy.Runner {
			r, err := pool.NewMovingAverageRateLimitedWorkers(n, 1000, time.Millisecond, q)
			require.NoError(t, err)
			return r
		},
	}
}

// forEachRunner runs a test with every runner, including NewNoop.
func forEachRunner(t *testing.T, test func(t *testing.T, makeRunner func(amboy.Queue) amboy.Runner)) {
	for name, makePool := range pools(t) {
		t.Run(name, func(t *testing.T) {
			test(t, func(q amboy.Queue) amboy.Runner { return makePool(2, q) })
		})
	}
	t.Run("noop", func(t *testing.T) {
		test(t, func(q amboy.Queue) amboy.Runner {
			r := pool.NewNoop()
			if q != nil {
				require.NoError(t, r.SetQueue(q))
			}
			return r
		})
	})
}

func TestStartedIsTrueBetweenStartAndClose(t *testing.T) {
	forEachRunner(t, func(t *testing.T, makeRunner func(amboy.Queue) amboy.Runner) {
		r := makeRunner(newFakeQueue())
		assert.False(t, r.Started())
		require.NoError(t, r.Start(t.Context()))
		assert.True(t, r.Started())
		r.Close(t.Context())
		assert.False(t, r.Started())
	})
}

func TestStartNeedsAQueue(t *testing.T) {
	forEachRunner(t, func(t *testing.T, makeRunner func(amboy.Queue) amboy.Runner) {
		r := makeRunner(nil)
		require.ErrorContains(t, r.Start(t.Context()), "queue must be set")
		assert.False(t, r.Started())
		require.ErrorContains(t, r.SetQueue(nil), "queue must not be nil")

		require.NoError(t, r.SetQueue(newFakeQueue()))
		require.NoError(t, r.Start(t.Context()))
		r.Close(t.Context())
	})
}

func TestSecondStartOfARunnerHasNoEffect(t *testing.T) {
	forEachRunner(t, func(t *testing.T, makeRunner func(amboy.Queue) amboy.Runner) {
		q := newFakeQueue()
		r := makeRunner(q)
		require.NoError(t, r.Start(t.Context()))
		defer r.Close(context.Background())

		second, cancel := context.WithCancel(t.Context())
		require.NoError(t, r.Start(second))
		cancel() // this would be a hard stop if the second Start had an effect
		require.NoError(t, r.Start(second))
		if resizable, ok := r.(amboy.ResizableRunner); ok {
			assert.Equal(t, 2, resizable.Workers())
			q.put(1, func(ctx context.Context, j *funcJob) { j.AddError(ctx.Err()) })
			require.NoError(t, (<-q.ended).job.Error())
		}

		require.ErrorIs(t, r.SetQueue(newFakeQueue()), amboy.ErrAlreadyStarted)
		assert.True(t, r.Started())
	})
}

func TestSecondStartOfARunnerWhoseContextHasEnded(t *testing.T) {
	forEachRunner(t, func(t *testing.T, makeRunner func(amboy.Queue) amboy.Runner) {
		r := makeRunner(newFakeQueue())
		ctx, cancel := context.WithCancel(t.Context())
		require.NoError(t, r.Start(ctx))
		cancel()
		require.NoError(t, r.Start(t.Context()))
		r.Close(t.Context())
	})
}

func TestClosedRunnerIsNotStartedAgain(t *testing.T) {
	forEachRunner(t, func(t *testing.T, makeRunner func(amboy.Queue) amboy.Runner) {
		r := makeRunner(newFakeQueue())
		require.NoError(t, r.Start(t.Context()))
		r.Close(t.Context())
		r.Close(t.Context())
		require.ErrorIs(t, r.Start(t.Context()), pool.ErrClosed)
	})
}

func TestCloseBeforeStart(t *testing.T) {
	forEachRunner(t, func(t *testing.T, makeRunner func(amboy.Queue) amboy.Runner) {
		r := makeRunner(newFakeQueue())
		r.Close(t.Context())
		require.ErrorIs(t, r.Start(t.Context()), pool.ErrClosed)
		require.ErrorIs(t, r.SetQueue(newFakeQueue()), pool.ErrClosed)
		assert.False(t, r.Started())
	})
}
