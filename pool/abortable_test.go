package pool_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/pool"
)

func TestRunningJobsAreListed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newFakeQueue()
		release := make(chan struct{})
		for _, id := range []string{"b", "c", "a"} {
			q.jobs <- newJob(id, ignoring(release))
		}
		r := pool.NewAbortablePool(3, q)
		assert.Empty(t, r.RunningJobs())
		start(t, r)
		synctest.Wait()
		assert.Equal(t, []string{"a", "b", "c"}, r.RunningJobs())
		assert.True(t, r.IsRunning("a"))
		assert.False(t, r.IsRunning("d"))

		close(release)
		synctest.Wait()
		assert.Empty(t, r.RunningJobs())
		assert.False(t, r.IsRunning("a"))
	})
}

func TestAbortedJobEndsAsCanceled(t *testing.T) {
	for name, test := range map[string]struct {
		run   func(context.Context, *funcJob)
		error string
	}{
		"without a word": {
			run:   untilCanceled,
			error: `job "aborted": the job was aborted`,
		},
		"with an error that asks for a retry": {
			run: func(ctx context.Context, j *funcJob) {
				<-ctx.Done()
				j.AddRetryableError(fmt.Errorf("giving up: %w", context.Cause(ctx)))
			},
			error: "giving up: the job was aborted",
		},
		"although it was done": {
			run: func(ctx context.Context, j *funcJob) {
				<-ctx.Done()
				j.MarkComplete()
			},
			error: `job "aborted": the job was aborted`,
		},
		"with a panic": {
			run: func(ctx context.Context, _ *funcJob) {
				<-ctx.Done()
				panic("interrupted")
			},
			error: "panic: interrupted",
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				// A canceled job is not handed back either.
				q := releasingQueue{newFakeQueue()}
				retryable := true
				j := newJob("aborted", test.run)
				j.UpdateRetryInfo(amboy.JobRetryOptions{Retryable: &retryable})
				q.jobs <- j
				q.jobs <- newJob("other", untilCanceled)
				r := pool.NewAbortablePool(2, q)
				start(t, r)
				synctest.Wait()

				require.NoError(t, r.Abort(t.Context(), "aborted"))
				assert.Equal(t, []string{"other"}, r.RunningJobs())
				require.Len(t, q.ended, 1)
				end := <-q.ended
				assert.False(t, end.released)
				assert.Equal(t, amboy.StateCanceled, end.state)
				assert.Equal(t, amboy.OutcomeCanceled, end.job.Status().Outcome)
				require.EqualError(t, end.job.Error(), test.error)
				assert.False(t, end.job.RetryInfo().NeedsRetry)
			})
		})
	}
}

func TestContextOfAJobEndsWithItsRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newFakeQueue()
		var given context.Context
		q.put(1, func(ctx context.Context, _ *funcJob) { given = ctx })
		start(t, pool.NewAbortablePool(1, q))
		<-q.ended
		require.ErrorIs(t, context.Cause(given), context.Canceled)
	})
}

func TestAbortOfUnknownJob(t *testing.T) {
	r := pool.NewAbortablePool(1, newFakeQueue())
	err := r.Abort(t.Context(), "unknown")
	require.ErrorContains(t, err, `"unknown"`)
	assert.True(t, amboy.IsJobNotFoundError(err))
}

func TestAbortWaitsNoLongerThanItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newFakeQueue()
		release := make(chan struct{})
		q.jobs <- newJob("stubborn", ignoring(release))
		r := pool.NewAbortablePool(1, q)
		start(t, r)
		synctest.Wait()

		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		err := r.Abort(ctx, "stubborn")
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorContains(t, err, `"stubborn"`)
		require.ErrorIs(t, r.AbortAll(ctx), context.DeadlineExceeded)
		assert.True(t, r.IsRunning("stubborn"))

		close(release)
		assert.Equal(t, amboy.StateCanceled, (<-q.ended).state, "it is aborted nevertheless")
	})
}

func TestAbortByManyAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newFakeQueue()
		completing := make(chan struct{})
		q.onComplete = func(context.Context, amboy.Job) error { <-completing; return nil }
		q.jobs <- newJob("aborted", untilCanceled)
		r := pool.NewAbortablePool(1, q)
		start(t, r)
		synctest.Wait()

		var aborts sync.WaitGroup
		for range 3 {
			aborts.Go(func() { assert.NoError(t, r.Abort(t.Context(), "aborted")) })
			// In all but the first call, the job has returned and is being completed.
			synctest.Wait()
		}
		close(completing)
		aborts.Wait()
	})
}

func TestAbortOfAJobThatHasReturned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newFakeQueue()
		completing := make(chan struct{})
		q.onComplete = func(context.Context, amboy.Job) error { <-completing; return nil }
		q.jobs <- newJob("finishing", doNothing)
		r := pool.NewAbortablePool(1, q)
		start(t, r)
		synctest.Wait()
		assert.True(t, r.IsRunning("finishing"))

		var aborts sync.WaitGroup
		aborts.Go(func() {
			err := r.Abort(t.Context(), "finishing")
			assert.True(t, amboy.IsJobNotFoundError(err), "%v", err)
			assert.False(t, r.IsRunning("finishing"), "Abort waits for the end")
		})
		aborts.Go(func() {
			require.NoError(t, r.AbortAll(t.Context()))
			assert.False(t, r.IsRunning("finishing"), "AbortAll waits for the end")
		})
		synctest.Wait()
		close(completing)
		aborts.Wait()
		assert.Equal(t, amboy.StateSucceeded, (<-q.ended).state)
	})
}

func TestAbortReturnsTheErrorOfTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newFakeQueue()
		q.onComplete = func(context.Context, amboy.Job) error { return amboy.ErrQueueClosed }
		q.put(2, untilCanceled)
		r := pool.NewAbortablePool(2, q)
		start(t, r)
		synctest.Wait()
		require.ErrorIs(t, r.Abort(t.Context(), "0"), amboy.ErrQueueClosed)
		require.ErrorIs(t, r.AbortAll(t.Context()), amboy.ErrQueueClosed)
	})
}

func TestAbortAllCancelsBeforeItWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newFakeQueue()
		q.put(5, func(ctx context.Context, _ *funcJob) {
			<-ctx.Done()
			time.Sleep(time.Minute) // simulates cleaning up
		})
		r := pool.NewAbortablePool(4, q)
		start(t, r)
		synctest.Wait()

		begin := time.Now()
		require.NoError(t, r.AbortAll(t.Context()))
		assert.Equal(t, time.Minute, time.Since(begin))
		require.Len(t, q.ended, 4)
		for range 4 {
			assert.Equal(t, amboy.StateCanceled, (<-q.ended).state)
		}
		synctest.Wait()
		assert.Equal(t, []string{"4"}, r.RunningJobs(), "a job that started since is not aborted")
		require.NoError(t, r.AbortAll(t.Context()), "Close would leave it behind")
	})
}

func TestAbortOfALostJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newLeasingQueue()
		release := make(chan struct{})
		q.jobs <- newJob("lost", ignoring(release))
		r := pool.NewAbortablePool(1, q)
		start(t, r)
		synctest.Wait()
		q.lose("lost")

		var abort sync.WaitGroup
		abort.Go(func() { assert.ErrorIs(t, r.Abort(t.Context(), "lost"), amboy.ErrLeaseLost) })
		synctest.Wait()
		close(release)
		abort.Wait()
		assert.Empty(t, q.ended)
	})
}

func TestJobThatWasLostAndTakenAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newLeasingQueue()
		release := make(chan struct{})
		q.jobs <- newJob("twice", ignoring(release))
		r := pool.NewAbortablePool(2, q)
		start(t, r)
		synctest.Wait()
		q.lose("twice")
		q.jobs <- newJob("twice", untilCanceled)
		synctest.Wait()

		close(release)
		synctest.Wait()
		assert.True(t, r.IsRunning("twice"), "the first run does not take the second one's place")
		require.NoError(t, r.Abort(t.Context(), "twice"))
		assert.Equal(t, amboy.StateCanceled, (<-q.ended).state)
	})
}

// TestStress detects data races and calls that never return.
func TestStress(t *testing.T) {
	const jobs = 600
	q := releasingQueue{newFakeQueue()}
	q.put(jobs, func(ctx context.Context, _ *funcJob) {
		if rand.IntN(2) == 0 {
			<-ctx.Done()
		}
	})
	r := pool.NewAbortablePool(8, q)
	require.NoError(t, r.Start(t.Context()))

	var callers sync.WaitGroup
	call := func(f func()) {
		callers.Go(func() {
			for r.Started() {
				f()
			}
		})
	}
	call(func() { assert.NoError(t, r.AbortAll(t.Context())) })
	call(func() {
		for _, id := range r.RunningJobs() {
			r.IsRunning(id)
			if err := r.Abort(t.Context(), id); err != nil {
				assert.True(t, amboy.IsJobNotFoundError(err), "%v", err)
			}
		}
	})
	resizer := resizable(t, r)
	call(func() {
		if err := resizer.SetWorkers(1 + rand.IntN(16)); err != nil {
			assert.ErrorIs(t, err, pool.ErrClosed)
		}
	})

	for range jobs / 2 {
		<-q.ended
	}
	for range 3 {
		callers.Go(func() { r.Close(canceledContext()) })
	}
	callers.Wait()
	assert.Empty(t, r.RunningJobs())
	assert.Equal(t, jobs/2, len(q.ended)+len(q.jobs), "every job ended, or was never taken")
}
