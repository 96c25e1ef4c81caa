package pool_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/pool"
)

func TestRateLimitedPoolRefusesBadValues(t *testing.T) {
	for name, test := range map[string]struct {
		size, jobs int
		period     time.Duration
		burst      int
		errors     []string
	}{
		"size":   {0, 1, time.Second, 1, []string{"number of workers must be at least 1 (is 0)"}},
		"jobs":   {1, -1, time.Second, 1, []string{"jobs must be at least 1 (is -1)"}},
		"period": {1, 1, time.Microsecond, 1, []string{"period must be at least 1ms (is 1µs)"}},
		"burst":  {1, 1, time.Second, 0, []string{"burst must be at least 1 (is 0)"}},
		"all":    {0, 0, 0, 0, []string{"workers", "jobs", "period", "burst"}},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := pool.NewRateLimitedWorkers(test.size, test.jobs, test.period, test.burst, newFakeQueue())
			assert.Nil(t, r)
			for _, message := range test.errors {
				require.ErrorContains(t, err, message)
			}
		})
	}
}

func TestTokenBucketBoundsTheRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newFakeQueue()
		q.put(1000, doNothing)
		r, err := pool.NewRateLimitedWorkers(8, 5, time.Second, 3, q)
		require.NoError(t, err)
		start(t, r)

		assert.Equal(t, 3, q.startsIn(0), "the bucket is full at first")
		assert.Equal(t, 300, q.startsIn(time.Minute))
	})
}

func TestTokenBucketBoundsTheBurst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newFakeQueue()
		r, err := pool.NewRateLimitedWorkers(8, 5, time.Second, 3, q)
		require.NoError(t, err)
		start(t, r)
		time.Sleep(time.Hour)

		q.put(1000, doNothing)
		assert.Equal(t, 3+1, q.startsIn(0), "idle workers hold one token together")
		assert.Equal(t, 300, q.startsIn(time.Minute))
	})
}

func TestRateIsSharedByAllWorkers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newFakeQueue()
		q.put(1000, func(ctx context.Context, _ *funcJob) { _ = waitFor(ctx, 2*time.Second) })
		r, err := pool.NewRateLimitedWorkers(16, 5, time.Second, 1, q)
		require.NoError(t, err)
		start(t, r)
		assert.Equal(t, 1, q.startsIn(0))
		assert.Equal(t, 300, q.startsIn(time.Minute), "ten workers are enough for that")

		require.NoError(t, resizable(t, r).SetWorkers(4))
		q.startsIn(time.Minute)
		assert.Equal(t, 120, q.startsIn(time.Minute), "four are not")
	})
}

func TestRateLimitedPoolStopsWhileItWaits(t *testing.T) {
	makers := map[string]func(q amboy.Queue) (amboy.AbortableRunner, error){
		"token bucket": func(q amboy.Queue) (amboy.AbortableRunner, error) {
			return pool.NewRateLimitedWorkers(4, 1, time.Hour, 1, q)
		},
		"moving average": func(q amboy.Queue) (amboy.AbortableRunner, error) {
			return pool.NewMovingAverageRateLimitedWorkers(4, 1, time.Hour, q)
		},
	}
	for name, makePool := range makers {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := newFakeQueue()
				q.put(10, doNothing)
				r, err := makePool(q)
				require.NoError(t, err)
				require.NoError(t, r.Start(t.Context()))
				require.Equal(t, 1, q.startsIn(time.Minute))

				begin := time.Now()
				r.Close(t.Context())
				assert.Zero(t, time.Since(begin))
				assert.Len(t, q.jobs, 9)
			})
		})
	}
}

func TestRateLimitedJobIsAborted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newFakeQueue()
		q.put(1, untilCanceled)
		r, err := pool.NewRateLimitedWorkers(2, 1, time.Second, 1, q)
		require.NoError(t, err)
		start(t, r)
		synctest.Wait()
		require.NoError(t, r.Abort(t.Context(), "0"))
		assert.Equal(t, amboy.StateCanceled, (<-q.ended).state)
	})
}
