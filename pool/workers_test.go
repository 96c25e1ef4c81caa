package pool_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/pool"
)

// forEachPool runs a test in a bubble with every pool that runs jobs.
func forEachPool(t *testing.T, test func(t *testing.T, makePool func(size int, q amboy.Queue) amboy.Runner)) {
	for name, makePool := range pools(t) {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { test(t, makePool) })
		})
	}
}

// resizable returns a pool as the amboy.ResizableRunner that every pool is.
func resizable(t *testing.T, r amboy.Runner) amboy.ResizableRunner {
	t.Helper()
	resizer, ok := r.(amboy.ResizableRunner)
	require.True(t, ok)
	return resizer
}

func TestPoolRunsEveryJob(t *testing.T) {
	forEachPool(t, func(t *testing.T, makePool func(int, amboy.Queue) amboy.Runner) {
		q := newFakeQueue()
		q.put(100, doNothing)
		start(t, makePool(4, q))

		seen := map[string]bool{}
		for range 100 {
			end := <-q.ended
			seen[end.job.ID()] = true
			assert.Equal(t, amboy.StateSucceeded, end.state)
		}
		assert.Len(t, seen, 100)
	})
}

func TestPoolRunsAsManyJobsAtOnceAsItHasWorkers(t *testing.T) {
	forEachPool(t, func(t *testing.T, makePool func(int, amboy.Queue) amboy.Runner) {
		q := newFakeQueue()
		q.put(10, untilCanceled)
		start(t, makePool(3, q))
		time.Sleep(time.Second)
		assert.Len(t, q.jobs, 7)
	})
}

func TestTooFewWorkersAreRefused(t *testing.T) {
	for _, n := range []int{0, -1} {
		for name, r := range map[string]amboy.Runner{
			"local":     pool.NewLocalWorkers(n, newFakeQueue()),
			"abortable": pool.NewAbortablePool(n, newFakeQueue()),
		} {
			t.Run(fmt.Sprint(name, n), func(t *testing.T) {
				message := fmt.Sprintf("number of workers must be at least 1 (is %d)", n)
				require.ErrorContains(t, r.Start(t.Context()), message)
				assert.False(t, r.Started())

				require.ErrorContains(t, resizable(t, r).SetWorkers(n), message)
				require.NoError(t, resizable(t, r).SetWorkers(1))
				require.NoError(t, r.Start(t.Context()))
				r.Close(t.Context())
			})
		}
	}
}

func TestMoreWorkersStartAtOnce(t *testing.T) {
	forEachPool(t, func(t *testing.T, makePool func(int, amboy.Queue) amboy.Runner) {
		q := newFakeQueue()
		q.put(10, untilCanceled)
		r := resizable(t, makePool(1, q))
		start(t, r)
		time.Sleep(time.Second)
		require.Len(t, q.jobs, 9)

		require.NoError(t, r.SetWorkers(5))
		assert.Equal(t, 5, r.Workers())
		time.Sleep(time.Second)
		assert.Len(t, q.jobs, 5)
	})
}

func TestSurplusWorkersEndAfterTheirJob(t *testing.T) {
	forEachPool(t, func(t *testing.T, makePool func(int, amboy.Queue) amboy.Runner) {
		q := newFakeQueue()
		var running, most atomic.Int64
		q.put(20, func(context.Context, *funcJob) {
			most.Store(max(most.Load(), running.Add(1)))
			time.Sleep(time.Minute)
			running.Add(-1)
		})
		r := resizable(t, makePool(6, q))
		start(t, r)
		time.Sleep(time.Second)
		require.EqualValues(t, 6, running.Load())

		require.NoError(t, r.SetWorkers(2))
		assert.Equal(t, 2, r.Workers())
		assert.EqualValues(t, 6, running.Load(), "running jobs go on")
		for range 6 {
			assert.Equal(t, amboy.StateSucceeded, (<-q.ended).state)
		}
		most.Store(0)
		for range 14 {
			<-q.ended
		}
		assert.EqualValues(t, 2, most.Load())
	})
}

func TestSurplusIdleWorkersEnd(t *testing.T) {
	forEachPool(t, func(t *testing.T, makePool func(int, amboy.Queue) amboy.Runner) {
		q := newFakeQueue()
		r := resizable(t, makePool(6, q))
		start(t, r)
		synctest.Wait()
		require.NoError(t, r.SetWorkers(2))
		synctest.Wait()

		q.put(10, untilCanceled)
		time.Sleep(time.Second)
		assert.Len(t, q.jobs, 8)
	})
}

func TestSizeIsSetBeforeStartAndNotAfterClose(t *testing.T) {
	forEachPool(t, func(t *testing.T, makePool func(int, amboy.Queue) amboy.Runner) {
		q := newFakeQueue()
		q.put(10, untilCanceled)
		r := resizable(t, makePool(1, q))
		require.NoError(t, r.SetWorkers(3))
		require.NoError(t, r.Start(t.Context()))
		time.Sleep(time.Second)
		assert.Len(t, q.jobs, 7)

		require.Error(t, r.SetWorkers(0))
		assert.Equal(t, 3, r.Workers())

		r.Close(canceledContext())
		require.ErrorIs(t, r.SetWorkers(5), pool.ErrClosed)
		assert.Equal(t, 3, r.Workers())
	})
}

func TestSizeIsSetAfterTheContextOfStartEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		r := resizable(t, pool.NewLocalWorkers(1, newFakeQueue()))
		require.NoError(t, r.Start(ctx))
		cancel()
		synctest.Wait()
		require.NoError(t, r.SetWorkers(3))
		r.Close(t.Context())
	})
}

func TestSoftCloseLetsJobsEnd(t *testing.T) {
	forEachPool(t, func(t *testing.T, makePool func(int, amboy.Queue) amboy.Runner) {
		q := newFakeQueue()
		q.put(5, func(ctx context.Context, j *funcJob) {
			time.Sleep(time.Minute)
			j.AddError(ctx.Err())
		})
		r := makePool(2, q)
		require.NoError(t, r.Start(t.Context()))
		time.Sleep(time.Second)

		r.Close(t.Context())
		require.Len(t, q.ended, 2)
		assert.Equal(t, amboy.StateSucceeded, (<-q.ended).state)
		assert.Equal(t, amboy.StateSucceeded, (<-q.ended).state)
		assert.Len(t, q.jobs, 3, "no more jobs are taken")
	})
}

func TestCloseFromManyGoroutines(t *testing.T) {
	forEachPool(t, func(t *testing.T, makePool func(int, amboy.Queue) amboy.Runner) {
		q := newFakeQueue()
		q.put(2, untilCanceled)
		r := makePool(2, q)
		require.NoError(t, r.Start(t.Context()))
		time.Sleep(time.Second)

		begin := time.Now()
		var closers sync.WaitGroup
		for i := range 5 {
			closers.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i+1)*time.Minute)
				defer cancel()
				r.Close(ctx)
				assert.Len(t, q.ended, 2)
			})
		}
		closers.Wait()
		assert.Equal(t, time.Minute, time.Since(begin), "the earliest deadline decides")
	})
}

// emptyQueue never has a job, and its Next never blocks.
type emptyQueue struct {
	*fakeQueue
	calls atomic.Int64
}

func (q *emptyQueue) Next(context.Context) amboy.Job {
	q.calls.Add(1)
	return nil
}

func TestAnEmptyQueueIsPolledWithBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &emptyQueue{fakeQueue: newFakeQueue()}
		r := pool.NewLocalWorkers(1, q)
		require.NoError(t, r.Start(t.Context()))
		synctest.Wait()
		assert.EqualValues(t, 1, q.calls.Load())
		time.Sleep(time.Minute)
		assert.InDelta(t, 66, q.calls.Load(), 2, "7 short waits and then one a second")

		begin := time.Now()
		r.Close(t.Context())
		assert.Zero(t, time.Since(begin), "Close ends the wait")
	})
}

// panickingQueue panics in its first Next.
type panickingQueue struct {
	*fakeQueue
	asked atomic.Bool
}

func (q *panickingQueue) Next(ctx context.Context) amboy.Job {
	if !q.asked.Swap(true) {
		panic("no queue today")
	}
	return q.fakeQueue.Next(ctx)
}

func TestWorkerOutlivesPanicOfItsQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &panickingQueue{fakeQueue: newFakeQueue()}
		q.put(1, doNothing)
		start(t, pool.NewLocalWorkers(1, q))
		assert.Equal(t, amboy.StateSucceeded, (<-q.ended).state)
	})
}
