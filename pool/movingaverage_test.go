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

// startMovingAverage starts a pool with a target of 10 jobs a second.
func startMovingAverage(t *testing.T, size int, q amboy.Queue) amboy.AbortableRunner {
	t.Helper()
	r, err := pool.NewMovingAverageRateLimitedWorkers(size, 10, time.Second, q)
	require.NoError(t, err)
	start(t, r)
	return r
}

func TestMovingAverageRefusesBadValues(t *testing.T) {
	for name, test := range map[string]struct {
		size, targetNum int
		period          time.Duration
		errors          []string
	}{
		"size":      {0, 1, time.Second, []string{"number of workers must be at least 1 (is 0)"}},
		"targetNum": {1, 0, time.Second, []string{"targetNum must be at least 1 (is 0)"}},
		"period":    {1, 1, -time.Second, []string{"period must be at least 1ms (is -1s)"}},
		"all":       {0, 0, 0, []string{"workers", "targetNum", "period"}},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := pool.NewMovingAverageRateLimitedWorkers(test.size, test.targetNum, test.period, newFakeQueue())
			assert.Nil(t, r)
			for _, message := range test.errors {
				require.ErrorContains(t, err, message)
			}
		})
	}
}

func TestMovingAverageReachesTheTarget(t *testing.T) {
	for name, size := range map[string]int{"one worker": 1, "many workers": 8} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := newFakeQueue()
				q.put(1000, doNothing)
				startMovingAverage(t, size, q)
				assert.Equal(t, 1, q.startsIn(0))
				assert.Equal(t, 600, q.startsIn(time.Minute))
			})
		})
	}
}

func TestMovingAverageAllowsAShortBurstAfterIdleTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newFakeQueue()
		startMovingAverage(t, 8, q)
		q.put(1, doNothing)
		assert.Equal(t, 1, q.startsIn(time.Hour))

		q.put(1000, doNothing)
		assert.Equal(t, 5, q.startsIn(0))
		assert.InDelta(t, 600, q.startsIn(time.Minute), 1, "after the burst, the rate is the target")
	})
}

func TestMovingAverageNeverExceedsTheTargetOverItsLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newFakeQueue()
		startMovingAverage(t, 8, q)
		begin, starts := time.Now(), 0
		// Jobs arrive in bursts, after growing idle times.
		for idle := time.Millisecond; idle < time.Minute; idle = idle * 3 / 2 {
			q.put(15, doNothing)
			for range 15 {
				starts += q.startsIn(50 * time.Millisecond)
				assert.LessOrEqual(t, starts, 1+int(time.Since(begin)/(100*time.Millisecond)))
			}
			starts += q.startsIn(idle)
			assert.LessOrEqual(t, starts, 1+int(time.Since(begin)/(100*time.Millisecond)))
		}
		assert.Greater(t, starts, 300)
	})
}

func TestMovingAverageMakesUpForSlowJobs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newFakeQueue()
		slow := false
		q.put(1000, func(context.Context, *funcJob) {
			if slow = !slow; slow {
				time.Sleep(150 * time.Millisecond)
			}
		})
		startMovingAverage(t, 1, q)
		// Fixed intervals would give 480: intervals of 150ms and 100ms alternate.
		assert.InDelta(t, 575, q.startsIn(time.Minute), 15)
	})
}
