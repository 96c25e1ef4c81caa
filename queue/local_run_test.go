package queue_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/pool"
	"github.com/mongodb/amboy/queue"
	"github.com/mongodb/amboy/queue/driver"
)

// inLocalBubble runs a test in a bubble, with a local queue of one worker.
func inLocalBubble(t *testing.T, test func(t *testing.T, a administered)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		q, err := queue.NewLocal(queue.LocalOptions{NumWorkers: 1})
		require.NoError(t, err)
		defer q.Close(context.Background())
		test(t, administer(t, q))
	})
}

// TestCanceledLocalRun cancels running jobs that use their context in different ways.
func TestCanceledLocalRun(t *testing.T) {
	type contextKey struct{}
	for name, run := range map[string]func(ctx context.Context, j *funcJob){
		"waits for Done": func(ctx context.Context, _ *funcJob) { <-ctx.Done() },
		"waits on a derived context": func(ctx context.Context, _ *funcJob) {
			own, cancel := context.WithTimeout(context.WithValue(ctx, contextKey{}, 1), time.Hour)
			defer cancel()
			<-own.Done()
			assert.ErrorIs(t, context.Cause(own), amboy.ErrAborted)
		},
		"polls Err": func(ctx context.Context, _ *funcJob) {
			for ctx.Err() == nil {
				time.Sleep(time.Second)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			inLocalBubble(t, func(t *testing.T, a administered) {
				events, cancel := a.queue.(amboy.EventSource).SubscribeEvents(10)
				defer cancel()
				var before, cause, failure error
				put(t, a.queue, retryable(newJob(t, "job", func(ctx context.Context, j *funcJob) {
					before = errors.Join(ctx.Err(), context.Cause(ctx))
					run(ctx, j)
					cause, failure = context.Cause(ctx), ctx.Err()
					j.AddRetryableError(context.Cause(ctx))
				}), 5))
				next := noop(t, "next")
				require.NoError(t, next.Dependency().AddEdge("job"))
				put(t, a.queue, next)
				synctest.Wait()
				a.act(a.jobs("job"), driver.Action{Kind: driver.Cancel, Reason: "wrong one"})
				require.True(t, amboy.WaitJob(day(t), next, a.queue))
				require.NoError(t, before)
				require.ErrorIs(t, cause, amboy.ErrAborted)
				require.ErrorIs(t, failure, context.Canceled)

				r, err := a.admin.Get(t.Context(), a.name, "job")
				require.NoError(t, err)
				assert.Equal(t, amboy.StateCanceled, driver.StateOf(r, time.Now()))
				assert.Equal(t, "wrong one", r.Status.Reason)
				assert.Equal(t, 0, r.RetryInfo.CurrentAttempt)
				assert.False(t, r.CancelRequested)
				assert.Equal(t, amboy.StateFailed, infoOf(t, a.queue, "next").State)
				kinds := map[amboy.EventKind]int{}
				for len(events) > 0 {
					kinds[(<-events).Kind]++
				}
				assert.Equal(t, 1, kinds[amboy.EventKind(amboy.StateCanceled)])
			})
		})
	}
}

// A job that completes its work all the same has succeeded, as in a stored queue.
func TestCanceledLocalRunThatSucceeds(t *testing.T) {
	inLocalBubble(t, func(t *testing.T, a administered) {
		put(t, a.queue, newJob(t, "job", func(context.Context, *funcJob) { time.Sleep(time.Hour) }))
		synctest.Wait()
		a.act(a.jobs("job"), driver.Action{Kind: driver.Cancel, Reason: "wrong one"})
		r, err := a.admin.Get(t.Context(), a.name, "job")
		require.NoError(t, err)
		assert.True(t, r.CancelRequested)
		assert.Equal(t, "wrong one", r.Status.Reason)
		require.True(t, amboy.Wait(day(t), a.queue))
		assert.Equal(t, amboy.StateSucceeded, infoOf(t, a.queue, "job").State)
		assert.Empty(t, infoOf(t, a.queue, "job").Status.Reason)
	})
}

// A canceled job that asks to run again later does not run again.
func TestCanceledLocalRunIsNotHandedBack(t *testing.T) {
	inLocalBubble(t, func(t *testing.T, a administered) {
		put(t, a.queue, newJob(t, "job", func(ctx context.Context, j *funcJob) {
			<-ctx.Done()
			j.Snooze(time.Now().Add(time.Hour))
		}))
		synctest.Wait()
		a.act(a.jobs("job"), driver.Action{Kind: driver.Cancel})
		synctest.Wait()
		assert.Equal(t, amboy.StateCanceled, infoOf(t, a.queue, "job").State)
	})
}

// TestLocalRunOfACompletedJob completes a running job. Until its run is over, the job
// must be neither read nor run again.
func TestLocalRunOfACompletedJob(t *testing.T) {
	inLocalBubble(t, func(t *testing.T, a administered) {
		var cause error
		j := newJob(t, "job", func(ctx context.Context, j *funcJob) {
			<-ctx.Done()
			cause = context.Cause(ctx)
			time.Sleep(time.Hour)
			j.Note = "late"
		})
		put(t, a.queue, j)
		synctest.Wait()
		j.AddError(errors.New("it hangs"))
		require.NoError(t, a.queue.Complete(t.Context(), j))
		synctest.Wait()
		require.ErrorIs(t, cause, amboy.ErrLeaseLost)
		get := func() *driver.Record {
			r, err := a.admin.Get(t.Context(), a.name, "job")
			require.NoError(t, err)
			return r
		}
		assert.Equal(t, amboy.StateFailed, driver.StateOf(get(), time.Now()))
		assert.True(t, get().Job.IsZero())
		assert.Equal(t, driver.Acted{Skipped: 1}, a.act(a.all(), driver.Action{Kind: driver.Restart}))
		pass(2 * time.Hour)
		assert.False(t, get().Job.IsZero())
		assert.Equal(t, driver.Acted{Done: 1}, a.act(a.all(), driver.Action{Kind: driver.Restart}))
		synctest.Wait()
		assert.Equal(t, driver.Acted{Done: 1}, a.act(a.all(), driver.Action{Kind: driver.Cancel}), "the job runs again")
	})
}

// The context of a run ends with the run, so that what the job has left running ends too.
func TestContextOfALocalRunEndsWithIt(t *testing.T) {
	inLocalBubble(t, func(t *testing.T, a administered) {
		var given context.Context
		put(t, a.queue, newJob(t, "job", func(ctx context.Context, _ *funcJob) { given = ctx }))
		drain(t, a.queue)
		<-given.Done()
		require.ErrorIs(t, given.Err(), context.Canceled)
		require.ErrorIs(t, context.Cause(given), context.Canceled)
		_, hasDeadline := given.Deadline()
		assert.False(t, hasDeadline)
		assert.Equal(t, a.queue.ID(), amboy.QueueFromContext(given).ID())
	})
}

// TestLocalRunThatWasCanceledBeforeItBegan takes jobs as a runner does, and cancels them
// before it asks for their contexts.
func TestLocalRunThatWasCanceledBeforeItBegan(t *testing.T) {
	q, err := queue.NewLocal(queue.LocalOptions{NumWorkers: 1, PutBeforeStart: true})
	require.NoError(t, err)
	defer q.Close(t.Context())
	put(t, q, noop(t, "job"))
	j := q.Next(t.Context())
	store, _ := queue.StoreOf(q)
	a := administered{t, q, store.Admin(), q.ID()}
	assert.Equal(t, driver.Acted{Done: 1}, a.act(a.all(), driver.Action{Kind: driver.Cancel}))
	ctx, end := q.(amboy.JobContexter).JobContext(t.Context(), j)
	require.ErrorIs(t, context.Cause(ctx), amboy.ErrAborted)
	end()
	require.NoError(t, q.(amboy.JobReleaser).Release(t.Context(), j))
	assert.Equal(t, amboy.StateCanceled, infoOf(t, q, "job").State)

	ctx, end = q.(amboy.JobContexter).JobContext(t.Context(), j)
	defer end()
	require.ErrorIs(t, context.Cause(ctx), amboy.ErrLeaseLost, "the job does not run")
}

// asked is a retry policy that calls a function when its delay is asked for.
type asked func()

func (a asked) Delay(int) time.Duration {
	a()
	return 0
}

func TestCompletingAJobByHandWhileItsRetryPolicyWasAskedRetriedItTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asking, answer := make(chan struct{}), make(chan struct{})
		var first atomic.Bool
		first.Store(true)
		q, err := queue.NewLocal(queue.LocalOptions{NumWorkers: 3, RetryPolicy: asked(func() {
			if first.CompareAndSwap(true, false) {
				close(asking)
				<-answer
			}
		})})
		require.NoError(t, err)
		require.NoError(t, q.Start(t.Context()))
		defer q.Close(context.Background())
		var running, most, runs atomic.Int64
		j := retryable(newJob(t, "twice", func(_ context.Context, j *funcJob) {
			runs.Add(1)
			most.Store(max(most.Load(), running.Add(1)))
			time.Sleep(time.Second)
			running.Add(-1)
			if runs.Load() == 1 {
				j.AddRetryableError(errors.New("once more"))
			}
		}), 5)
		put(t, q, j)
		<-asking

		err = q.Complete(t.Context(), j)
		synctest.Wait()
		close(answer)
		drain(t, q)

		require.ErrorIs(t, err, amboy.ErrLeaseLost, "the attempt has ended")
		assert.EqualValues(t, 1, most.Load(), "runs at once")
		assert.EqualValues(t, 2, runs.Load())
		assert.Equal(t, 1, infoOf(t, q, "twice").Retry.CurrentAttempt)
		assert.Equal(t, amboy.StateSucceeded, infoOf(t, q, "twice").State)
	})
}

// meeting is a job that calls a function while the queue decides how it ends.
type meeting struct {
	*funcJob
	ending func()
}

func (j *meeting) RetryInfo() amboy.JobRetryInfo {
	if ending := j.ending; ending != nil {
		j.ending = nil
		ending()
	}
	return j.funcJob.RetryInfo()
}

// TestAJobThatIsCompletedWhileItsRunBeginsKeepsItsContext lets a worker take the job, and
// ask for its context after another call has begun to end the job.
func TestAJobThatIsCompletedWhileItsRunBeginsKeepsItsContext(t *testing.T) {
	q := queue.NewLocalLimitedSize(1, 10)
	require.NoError(t, q.SetRunner(pool.NewNoop()))
	require.NoError(t, q.Start(t.Context()))
	defer q.Close(t.Context())
	j := &meeting{funcJob: noop(t, "job")}
	put(t, q, j)
	taken := q.Next(t.Context())
	require.NotNil(t, taken)
	var run context.Context
	j.ending = func() {
		var cancel context.CancelFunc
		run, cancel = q.(amboy.JobContexter).JobContext(t.Context(), taken)
		t.Cleanup(cancel)
	}
	require.NoError(t, q.Complete(t.Context(), j))
	require.NotNil(t, run)
	assert.ErrorIs(t, context.Cause(run), amboy.ErrLeaseLost)
}

// A batch that had such a job was waited for without a pause, and without an end.
func TestAJobThatFailedAfterItWasCompletedWasRetryingForEver(t *testing.T) {
	inLocalBubble(t, func(t *testing.T, a administered) {
		begun := make(chan struct{})
		j := retryable(newJob(t, "job", func(ctx context.Context, j *funcJob) {
			close(begun)
			<-ctx.Done()
			j.AddRetryableError(context.Cause(ctx))
		}), 5)
		put(t, a.queue, j)
		<-begun
		require.NoError(t, a.queue.Complete(t.Context(), j))
		synctest.Wait()
		drain(t, a.queue)

		assert.True(t, infoOf(t, a.queue, "job").State.IsFinal())
		assert.Empty(t, amboy.Report(t.Context(), a.queue, 0).Retrying)
		r, err := a.admin.Get(t.Context(), a.name, "job")
		require.NoError(t, err)
		assert.True(t, driver.StateOf(r, time.Now()).IsFinal())
	})
}
