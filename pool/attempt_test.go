package pool_test

import (
	"cmp"
	"context"
	"errors"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mongodb/grip"
	"github.com/mongodb/grip/level"
	"github.com/mongodb/grip/send"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/pool"
)

func TestPanicIsAnErrorOfTheJob(t *testing.T) {
	forEachPool(t, func(t *testing.T, makePool func(int, amboy.Queue) amboy.Runner) {
		q := newFakeQueue()
		q.jobs <- newJob("panics", func(context.Context, *funcJob) { panic("at the disco") })
		q.jobs <- newJob("next", doNothing)
		start(t, makePool(1, q))

		end := <-q.ended
		assert.Equal(t, amboy.StateFailed, end.state)
		require.EqualError(t, end.job.Error(), "panic: at the disco")
		attempts := end.job.Status().Attempts
		require.Len(t, attempts, 1)
		assert.Contains(t, attempts[0].Stack, "TestPanicIsAnErrorOfTheJob")

		assert.Equal(t, amboy.StateSucceeded, (<-q.ended).state, "the worker is still alive")
	})
}

func TestGoexitIsAnErrorOfTheJob(t *testing.T) {
	forEachPool(t, func(t *testing.T, makePool func(int, amboy.Queue) amboy.Runner) {
		q := newFakeQueue()
		q.put(3, func(context.Context, *funcJob) { runtime.Goexit() })
		q.jobs <- newJob("next", doNothing)
		start(t, makePool(1, q))

		for range 3 {
			end := <-q.ended
			assert.Equal(t, amboy.StateFailed, end.state)
			require.EqualError(t, end.job.Error(), "the job's goroutine ended before Run returned")
		}
		assert.Equal(t, amboy.StateSucceeded, (<-q.ended).state, "the worker was replaced")
	})
}

func TestMaxTimeIsNoInterruption(t *testing.T) {
	forEachPool(t, func(t *testing.T, makePool func(int, amboy.Queue) amboy.Runner) {
		q := releasingQueue{newFakeQueue()}
		j := newJob("slow", untilCanceled)
		j.UpdateTimeInfo(amboy.JobTimeInfo{MaxTime: time.Minute})
		q.jobs <- j
		start(t, makePool(1, q))

		end := <-q.ended
		assert.False(t, end.released)
		assert.Equal(t, amboy.StateFailed, end.state)
		require.ErrorContains(t, end.job.Error(), "longer than its maximum time of 1m0s")
		assert.Equal(t, time.Minute, end.job.TimeInfo().Duration())
	})
}

// stops are the two ways to stop a pool hard. Each returns when the pool has ended.
var stops = map[string]func(r amboy.Runner, cancelStart context.CancelFunc){
	"Close out of patience": func(r amboy.Runner, _ context.CancelFunc) {
		r.Close(canceledContext())
	},
	"context of Start ended": func(r amboy.Runner, cancelStart context.CancelFunc) {
		cancelStart()
		r.Close(context.Background())
	},
}

// hardStop runs one job in a pool, and stops the pool hard while the job runs.
func hardStop(t *testing.T, q amboy.Queue, stop func(amboy.Runner, context.CancelFunc), makePool func(int, amboy.Queue) amboy.Runner) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r := makePool(1, q)
	require.NoError(t, r.Start(ctx))
	time.Sleep(time.Second)
	stop(r, cancel)
}

func TestHardStop(t *testing.T) {
	for name, test := range map[string]struct {
		run     func(context.Context, *funcJob)
		state   amboy.JobState // in a queue that can't take jobs back
		message string         // of the error in such a queue
	}{
		"a job without an error may have been interrupted": {
			run:     untilCanceled,
			state:   amboy.StateFailed,
			message: "job was interrupted: ",
		},
		"a job that reports an error may have been interrupted": {
			run: func(ctx context.Context, j *funcJob) {
				<-ctx.Done()
				j.AddError(errors.New("can't work like this"))
				j.MarkComplete()
			},
			state:   amboy.StateFailed,
			message: "can't work like this",
		},
		"a job that panics may have been interrupted": {
			run: func(ctx context.Context, _ *funcJob) {
				<-ctx.Done()
				panic("interrupted")
			},
			state:   amboy.StateFailed,
			message: "panic: interrupted",
		},
		"a job that marked itself complete may have done so at the start": {
			run: func(ctx context.Context, j *funcJob) {
				<-ctx.Done()
				j.MarkComplete()
			},
			state: amboy.StateSucceeded,
		},
	} {
		for stopName, stop := range stops {
			t.Run(name+"/"+stopName, func(t *testing.T) {
				forEachPool(t, func(t *testing.T, makePool func(int, amboy.Queue) amboy.Runner) {
					releasing := releasingQueue{newFakeQueue()}
					releasing.put(1, test.run)
					hardStop(t, releasing, stop, makePool)
					end := <-releasing.ended
					assert.True(t, end.released, "a queue that takes jobs back gets it")

					plain := newFakeQueue()
					plain.put(1, test.run)
					hardStop(t, plain, stop, makePool)
					end = <-plain.ended
					assert.Equal(t, test.state, end.state)
					if test.message != "" {
						require.ErrorContains(t, end.job.Error(), test.message)
					}
				})
			})
		}
	}
}

func TestCauseOfHardStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var cause error
		q := newFakeQueue()
		q.put(1, func(ctx context.Context, _ *funcJob) {
			<-ctx.Done()
			cause = context.Cause(ctx)
		})
		hardStop(t, q, stops["Close out of patience"], pool.NewLocalWorkers)
		require.ErrorIs(t, cause, pool.ErrClosed)
	})
}

func TestInterruptedJobIsRetriedByAQueueThatDoesNotTakeItBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newFakeQueue()
		j := newJob("retryable", untilCanceled)
		retryable := true
		j.UpdateRetryInfo(amboy.JobRetryOptions{Retryable: &retryable})
		q.jobs <- j
		hardStop(t, q, stops["Close out of patience"], pool.NewLocalWorkers)
		assert.Equal(t, amboy.StateRetrying, (<-q.ended).state)
	})
}

// lateQueue returns a job even though its context has ended.
type lateQueue struct{ releasingQueue }

func (q lateQueue) Next(ctx context.Context) amboy.Job {
	<-ctx.Done()
	return <-q.jobs
}

func TestJobTakenDuringHardStopIsHandedBackUnrun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := lateQueue{releasingQueue{newFakeQueue()}}
		q.put(1, func(_ context.Context, j *funcJob) { j.MarkComplete() })
		hardStop(t, q, stops["context of Start ended"], pool.NewLocalWorkers)
		end := <-q.ended
		assert.True(t, end.released)
		assert.False(t, end.job.Status().Completed)
	})
}

func TestCompletionUnderWayOutlastsHardStop(t *testing.T) {
	for name, test := range map[string]struct {
		takes     time.Duration
		completes int
	}{
		"as long as it takes less than 600 ms": {takes: 599 * time.Millisecond, completes: 1},
		"but no longer":                        {takes: 601 * time.Millisecond, completes: 0},
	} {
		for stopName, stop := range stops {
			t.Run(name+"/"+stopName, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					q := newFakeQueue()
					stopped := make(chan struct{})
					q.onComplete = func(ctx context.Context, _ amboy.Job) error {
						<-stopped
						return waitFor(ctx, test.takes)
					}
					q.put(1, doNothing)
					hardStop(t, q, func(r amboy.Runner, cancelStart context.CancelFunc) {
						close(stopped)
						stop(r, cancelStart)
					}, pool.NewLocalWorkers)
					assert.Len(t, q.ended, test.completes)
				})
			})
		}
	}
}

// waitFor waits for d. It returns an error if ctx ends first.
func waitFor(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// TestCompletionAfterHardStopIsBounded uses a job that takes some time to clean up, and a
// queue that does not complete it.
func TestCompletionAfterHardStopIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newFakeQueue()
		var bound time.Duration
		q.onComplete = func(ctx context.Context, _ amboy.Job) error {
			begin := time.Now()
			defer func() { bound = time.Since(begin) }()
			return waitFor(ctx, time.Hour)
		}
		q.put(1, func(ctx context.Context, j *funcJob) {
			<-ctx.Done()
			time.Sleep(500 * time.Millisecond)
			j.MarkComplete()
		})
		r := pool.NewLocalWorkers(1, q)
		require.NoError(t, r.Start(t.Context()))
		synctest.Wait()

		begin := time.Now()
		r.Close(canceledContext())
		assert.Equal(t, 600*time.Millisecond, time.Since(begin))
		assert.Equal(t, 100*time.Millisecond, bound)
	})
}

// TestCompletionAfterCloseIsBounded uses a job that returns after Close has left it behind.
func TestCompletionAfterCloseIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newFakeQueue()
		end := make(chan struct{})
		bound := make(chan time.Duration)
		q.onComplete = func(ctx context.Context, _ amboy.Job) error {
			begin := time.Now()
			defer func() { bound <- time.Since(begin) }()
			return waitFor(ctx, time.Hour)
		}
		q.put(1, ignoring(end))
		r := pool.NewLocalWorkers(1, q)
		require.NoError(t, r.Start(t.Context()))
		synctest.Wait()
		r.Close(canceledContext())
		close(end)
		assert.Equal(t, 10*time.Second, <-bound)
	})
}

func TestLostJobIsDropped(t *testing.T) {
	forEachPool(t, func(t *testing.T, makePool func(int, amboy.Queue) amboy.Runner) {
		q := newLeasingQueue()
		q.jobs <- newJob("lost", untilCanceled)
		start(t, makePool(1, q))
		time.Sleep(time.Second)
		q.lose("lost")
		q.jobs <- newJob("next", doNothing)

		end := <-q.ended
		assert.Equal(t, "next", end.job.ID())
		assert.Equal(t, amboy.StateSucceeded, end.state)
		assert.Empty(t, q.ended)
	})
}

func TestJobContextIsFreed(t *testing.T) {
	forEachPool(t, func(t *testing.T, makePool func(int, amboy.Queue) amboy.Runner) {
		q := newLeasingQueue()
		q.jobs <- newJob("succeeds", doNothing)
		q.jobs <- newJob("panics", func(context.Context, *funcJob) { panic("oops") })
		q.jobs <- newJob("exits", func(context.Context, *funcJob) { runtime.Goexit() })
		q.jobs <- newJob("interrupted", untilCanceled)
		r := makePool(1, q)
		require.NoError(t, r.Start(t.Context()))
		time.Sleep(time.Second)
		assert.Equal(t, 3, q.freedLeases())
		r.Close(canceledContext())
		assert.Equal(t, 4, q.freedLeases())
	})
}

func TestWorkerOutlivesPanicOfComplete(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newFakeQueue()
		q.onComplete = func(_ context.Context, j amboy.Job) error {
			if j.ID() == "0" {
				panic("can't encode the job")
			}
			return nil
		}
		q.put(2, doNothing)
		r := pool.NewAbortablePool(1, q)
		start(t, r)
		assert.Equal(t, "1", (<-q.ended).job.ID())
		assert.False(t, r.IsRunning("0"))
	})
}

// logged returns the messages of at least the level threshold that are logged while run
// runs.
func logged(t *testing.T, threshold level.Priority, run func()) []*send.InternalMessage {
	t.Helper()
	before := grip.GetSender()
	levels := before.Level()
	defer func() {
		require.NoError(t, grip.SetSender(before))
		require.NoError(t, before.SetLevel(levels))
	}()
	sender := send.MakeInternalLogger()
	require.NoError(t, grip.SetSender(sender))
	require.NoError(t, sender.SetLevel(send.LevelInfo{Default: level.Info, Threshold: threshold}))

	run()
	var messages []*send.InternalMessage
	for sender.HasMessage() {
		messages = append(messages, sender.GetMessage())
	}
	return messages
}

// A canceled job was logged as an error, and alarmed its operators.
func TestCanceledJobIsLoggedAsAnError(t *testing.T) {
	forEachPool(t, func(t *testing.T, makePool func(int, amboy.Queue) amboy.Runner) {
		messages := logged(t, level.Info, func() {
			q := newFakeQueue()
			q.jobs <- newJob("canceled", func(_ context.Context, j *funcJob) { j.AddError(&amboy.CancelError{Err: errors.New("expired")}) })
			start(t, makePool(1, q))
			<-q.ended
		})
		require.Len(t, messages, 1)
		assert.Equal(t, level.Warning, messages[0].Priority)
		assert.Contains(t, messages[0].Rendered, "job canceled")
	})
}

func TestLog(t *testing.T) {
	fails := func(_ context.Context, j *funcJob) { j.AddError(errors.New("out of cheese")) }
	for name, test := range map[string]struct {
		run        func(context.Context, *funcJob)
		onComplete func(context.Context, amboy.Job) error
		threshold  level.Priority // default: info
		priorities []level.Priority
		contains   string
	}{
		"a success is not logged": {run: doNothing},
		"but start and end are for debugging": {
			run:        doNothing,
			threshold:  level.Debug,
			priorities: []level.Priority{level.Debug, level.Debug},
			contains:   "message='job ",
		},
		"a failure is logged once, as an error": {
			run:        fails,
			priorities: []level.Priority{level.Error},
			contains:   "out of cheese",
		},
		"an error of the queue is logged as an error": {
			run:        doNothing,
			onComplete: func(context.Context, amboy.Job) error { return errors.New("disk full") },
			priorities: []level.Priority{level.Error},
			contains:   "disk full",
		},
		"a lost lease is logged as a warning": {
			run:        doNothing,
			onComplete: func(context.Context, amboy.Job) error { return amboy.ErrLeaseLost },
			priorities: []level.Priority{level.Warning},
			contains:   "lease was lost",
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := newFakeQueue()
				if test.onComplete != nil {
					q.onComplete = test.onComplete
				}
				q.jobs <- newJob("the-job", test.run)
				messages := logged(t, cmp.Or(test.threshold, level.Info), func() {
					r := pool.NewLocalWorkers(1, q)
					require.NoError(t, r.Start(t.Context()))
					synctest.Wait()
					r.Close(t.Context())
				})
				require.Len(t, messages, len(test.priorities))
				for i, m := range messages {
					assert.Equal(t, test.priorities[i], m.Priority)
					assert.Contains(t, m.Rendered, test.contains)
					assert.Contains(t, m.Rendered, "the-job")
				}
			})
		})
	}
}

// keptQueue fails to take its jobs back.
type keptQueue struct{ *fakeQueue }

func (keptQueue) Release(context.Context, amboy.Job) error { return errors.New("disk full") }

func TestFailureToHandBackIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := keptQueue{newFakeQueue()}
		q.put(1, untilCanceled)
		messages := logged(t, level.Info, func() {
			hardStop(t, q, stops["Close out of patience"], pool.NewLocalWorkers)
		})
		require.Len(t, messages, 1)
		assert.Equal(t, level.Error, messages[0].Priority)
		assert.Contains(t, messages[0].Rendered, `handing back job "0": disk full`)
		assert.Empty(t, q.ended)
	})
}
