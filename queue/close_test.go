package queue_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mongodb/grip"
	"github.com/mongodb/grip/level"
	"github.com/mongodb/grip/send"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/mongotest"
	"github.com/mongodb/amboy/pool"
	"github.com/mongodb/amboy/queue"
	"github.com/mongodb/amboy/queue/driver"
)

// closeLimit is how long Close may take after the end of its context.
const closeLimit = time.Second

// closeWithin calls shut with a context that ends after patience. It returns how long the
// call took after that.
func closeWithin(t *testing.T, patience time.Duration, shut func(context.Context)) time.Duration {
	t.Helper()
	begin := time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	shut(ctx)
	return time.Since(begin) - patience
}

// leftBehind returns the jobs that a queue reports as left behind.
func leftBehind(t *testing.T, q amboy.Queue) []string {
	t.Helper()
	require.Implements(t, (*amboy.CloseReporter)(nil), q)
	return q.(amboy.CloseReporter).LeftBehind()
}

// deaf returns a constructor of jobs that ignore their context and return only when
// release is called.
func deaf(t *testing.T) (never func(id string) *funcJob, release func()) {
	t.Helper()
	end := make(chan struct{})
	return func(id string) *funcJob {
		return newJob(t, id, func(context.Context, *funcJob) { <-end })
	}, sync.OnceFunc(func() { close(end) })
}

// driverQueueOn returns a started queue on a store.
func driverQueueOn(t *testing.T, store driver.Driver, amend func(*queue.DriverQueueOptions)) amboy.RetryableQueue {
	t.Helper()
	opts := queue.DriverQueueOptions{Driver: store, Format: amboy.JSON, NumWorkers: 3, LockTimeout: time.Minute}
	if amend != nil {
		amend(&opts)
	}
	q, err := queue.NewDriverQueue(opts)
	require.NoError(t, err)
	require.NoError(t, q.Start(context.Background()))
	return q
}

// queuesToClose returns started queues of each kind that has workers.
var queuesToClose = map[string]func(t *testing.T) amboy.Queue{
	"by reference": func(t *testing.T) amboy.Queue {
		q := queue.NewLocalLimitedSize(3, 100)
		require.NoError(t, q.Start(context.Background()))
		return q
	},
	"memory driver": func(t *testing.T) amboy.Queue { return driverQueueOn(t, newStore(t), nil) },
	"durable driver": func(t *testing.T) amboy.Queue {
		store := newSpy(newStore(t))
		store.durable = true
		return driverQueueOn(t, store, nil)
	},
	"abortable": func(t *testing.T) amboy.Queue {
		return driverQueueOn(t, newStore(t), func(o *queue.DriverQueueOptions) {
			o.NewRunner = func(q amboy.Queue) (amboy.Runner, error) { return pool.NewAbortablePool(3, q), nil }
		})
	},
}

// A store that fails uses up the time of Close. A queue that has closed, and a subscription that ends
// at once, are not left behind because of that.
func TestCloseReportedAQueueAndASubscriptionThatHadEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newSpy(newStore(t))
		group, err := queue.NewDriverGroup(context.Background(), queue.DriverGroupOptions{DefaultQueue: queue.DriverQueueOptions{
			Driver: store, Format: amboy.JSON, NumWorkers: 1, LockTimeout: time.Minute,
		}})
		require.NoError(t, err)
		r := &starts{t: t}
		put(t, open(t, group, "one"), r.lasting("runs", time.Hour))
		synctest.Wait()
		store.fail()
		pass(2 * time.Minute)
		took := closeWithin(t, 0, func(ctx context.Context) { err = group.Close(ctx) })
		require.NoError(t, err)
		assert.Less(t, took, closeLimit)
	})
}

func TestCloseWaitedForAJobThatNeverReturns(t *testing.T) {
	for name, open := range queuesToClose {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := open(t)
				never, release := deaf(t)
				s := &starts{t: t}
				put(t, q, never("b"), never("a"), s.lasting("heeds its context", time.Hour))
				synctest.Wait()
				require.Empty(t, leftBehind(t, q), "it is not closed")

				assert.Less(t, closeWithin(t, 2*time.Second, q.Close), closeLimit)
				assert.Equal(t, []string{"a", "b"}, leftBehind(t, q))
				assert.Equal(t, amboy.QueueStats{Pending: 1, Running: 2, Total: 3}, q.Stats(t.Context()))

				release()
				pass(time.Second)
				assert.Equal(t, amboy.QueueStats{Pending: 3, Total: 3}, q.Stats(t.Context()), "the jobs are handed back")
			})
		})
	}
}

// TestCloseWaitedForAJobWhoseQueueIsClosedTwice makes a second call whose context ends
// earlier.
func TestCloseWaitedForAJobWhoseQueueIsClosedTwice(t *testing.T) {
	for name, open := range queuesToClose {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := open(t)
				never, release := deaf(t)
				put(t, q, never("a"))
				synctest.Wait()
				var closes sync.WaitGroup
				begin := time.Now()
				for _, patience := range []time.Duration{time.Hour, time.Minute} {
					closes.Go(func() { closeWithin(t, patience, q.Close) })
				}
				closes.Wait()
				assert.Less(t, time.Since(begin), time.Minute+closeLimit, "the context that ends first counts")
				release()
			})
		})
	}
}

func TestContextOfStartEndedAndCloseWaitedForAJobThatNeverReturns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newTestEngine(t, newStore(t), 1)
		ctx, cancel := context.WithCancel(t.Context())
		require.NoError(t, q.Start(ctx))
		never, release := deaf(t)
		put(t, q, never("a"))
		synctest.Wait()
		cancel()
		assert.Less(t, closeWithin(t, 0, q.Close), closeLimit)
		assert.Equal(t, []string{"a"}, leftBehind(t, q))
		release()
	})
}

// TestLeaseOfAJobThatCloseLeftBehind checks that the lease is neither renewed nor released
// after Close. Another process runs the job once the lease has expired.
func TestLeaseOfAJobThatCloseLeftBehind(t *testing.T) {
	for name, durable := range map[string]bool{"memory driver": false, "durable driver": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newSpy(newStore(t))
				store.durable = durable
				q := driverQueueOn(t, store, nil)
				end := make(chan struct{})
				var runs journal
				never := func(id string) *funcJob {
					return newJob(t, id, func(context.Context, *funcJob) {
						runs.add(id)
						<-end
					})
				}
				put(t, q, never("first"), never("second"))
				pass(time.Minute) // the leases are renewed
				closeWithin(t, time.Second, q.Close)
				store.reset()
				pass(50 * time.Second)
				assert.Zero(t, store.count("Extend", "Release"), "the lease is neither renewed nor released")

				other := driverQueueOn(t, store.Driver, nil)
				assert.Len(t, runs.all(), 2, "the leases have not expired")
				pass(time.Minute)
				assert.Len(t, runs.all(), 4, "the leases have expired")
				close(end)
				other.Close(context.Background())
				assert.Equal(t, amboy.QueueStats{Completed: 2, Total: 2}, other.Stats(t.Context()))
			})
		})
	}
}

func TestInlineCloseWaitedForAJobThatNeverReturns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, err := queue.NewInline(queue.InlineOptions{Format: amboy.JSON})
		require.NoError(t, err)
		never, release := deaf(t)
		put(t, q, never("a"))
		go q.RunNext(t.Context())
		synctest.Wait()
		assert.Less(t, closeWithin(t, time.Second, q.Close), closeLimit)
		assert.Equal(t, []string{"a"}, leftBehind(t, q))
		release()
	})
}

// TestCloseLogsOnceWhatItLeftBehind checks that one log message names ten jobs and counts
// all.
func TestCloseLogsOnceWhatItLeftBehind(t *testing.T) {
	before := grip.GetSender()
	log, err := send.NewInternalLogger("test", send.LevelInfo{Default: level.Info, Threshold: level.Error})
	require.NoError(t, err)
	require.NoError(t, grip.SetSender(log))
	t.Cleanup(func() { assert.NoError(t, grip.SetSender(before)) })
	synctest.Test(t, func(t *testing.T) {
		q := queue.NewLocalLimitedSize(20, 100)
		require.NoError(t, q.Start(t.Context()))
		never, release := deaf(t)
		for i := range 12 {
			put(t, q, never(fmt.Sprintf("job %02d", i)))
		}
		synctest.Wait()
		closeWithin(t, time.Second, q.Close)
		require.Equal(t, 1, log.Len())
		text := log.GetMessage().Rendered
		assert.Contains(t, text, q.ID())
		assert.Contains(t, text, "count='12'")
		for _, id := range leftBehind(t, q)[:10] {
			assert.Contains(t, text, id)
		}
		assert.NotContains(t, text, "job 10")
		q.Close(t.Context())
		assert.Zero(t, log.Len())
		release()
	})
}

// groupsToClose returns groups of each kind, some with an engine that their queues share.
var groupsToClose = map[string]func(t *testing.T) amboy.QueueGroup{
	"local": func(t *testing.T) amboy.QueueGroup {
		group, err := queue.NewLocalQueueGroup(context.Background(), queue.LocalQueueGroupOptions{DefaultQueue: queue.LocalQueueOptions{
			Constructor: func(context.Context) (amboy.Queue, error) { return queue.NewLocalLimitedSize(20, 100), nil },
		}})
		require.NoError(t, err)
		return group
	},
	"driver": func(t *testing.T) amboy.QueueGroup {
		store := newSpy(newStore(t))
		store.durable = true
		group, err := queue.NewDriverGroup(context.Background(), queue.DriverGroupOptions{
			DefaultQueue: queue.DriverQueueOptions{Driver: store, CloseDriver: true, Format: amboy.JSON, NumWorkers: 20},
		})
		require.NoError(t, err)
		return group
	},
}

func TestGroupCloseWaitedForJobsThatNeverReturn(t *testing.T) {
	for name, open := range groupsToClose {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				group := open(t)
				never, release := deaf(t)
				for _, name := range []string{"one", "many", "none"} {
					_, err := group.Get(t.Context(), name)
					require.NoError(t, err)
				}
				one, _ := group.Get(t.Context(), "one")
				put(t, one, never("alone"))
				many, _ := group.Get(t.Context(), "many")
				for i := range 12 {
					put(t, many, never(fmt.Sprintf("job %02d", i)))
				}
				synctest.Wait()

				var err error
				took := closeWithin(t, 2*time.Second, func(ctx context.Context) { err = group.Close(ctx) })
				assert.Less(t, took, closeLimit)
				require.ErrorIs(t, err, amboy.ErrLeftBehind)
				require.ErrorContains(t, err, `closing queue "one" of a group: left behind at Close: 1 job ("alone")`)
				require.ErrorContains(t, err, `closing queue "many" of a group: left behind at Close: 12 jobs ("job 00", "job 01",`)
				require.ErrorContains(t, err, `"job 09" and others)`)
				assert.NotContains(t, err.Error(), `"none"`)
				assert.Len(t, leftBehind(t, many), 12)
				require.NoError(t, group.Close(t.Context()), "closing again is no error")
				release()
			})
		})
	}
}

// stubborn is a queue whose Close does not return before release is closed.
type stubborn struct {
	groupedQueue
	release chan struct{}
}

func (q *stubborn) Close(context.Context) { <-q.release }

func TestGroupCloseWaitedForAQueueOfAnotherPackage(t *testing.T) {
	for name, open := range groupsToClose {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				group := open(t)
				q := &stubborn{release: make(chan struct{})}
				require.NoError(t, group.Put(t.Context(), "q", q))
				var err error
				took := closeWithin(t, time.Second, func(ctx context.Context) { err = group.Close(ctx) })
				assert.Less(t, took, closeLimit)
				require.ErrorIs(t, err, amboy.ErrLeftBehind)
				close(q.release)
			})
		})
	}
}

func TestGroupCloseWaitedForAConstructorThatNeverReturns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		end := make(chan struct{})
		made := &groupedQueue{}
		group, err := queue.NewLocalQueueGroup(context.Background(), queue.LocalQueueGroupOptions{DefaultQueue: queue.LocalQueueOptions{
			Constructor: func(context.Context) (amboy.Queue, error) {
				<-end
				return made, nil
			},
		}})
		require.NoError(t, err)
		got := make(chan error)
		go func() {
			_, failure := group.Get(t.Context(), "late")
			got <- failure
		}()
		synctest.Wait()
		took := closeWithin(t, time.Second, func(ctx context.Context) { err = group.Close(ctx) })
		assert.Less(t, took, closeLimit)
		require.ErrorIs(t, err, amboy.ErrLeftBehind)
		close(end)
		require.ErrorIs(t, <-got, queue.ErrGroupClosed)
		assert.Equal(t, made.started(), made.closed(), "a queue that is made too late is closed")
	})
}

func TestCacheCloseWaitedForAHookThatNeverReturns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		end := make(chan struct{})
		cache := queue.NewCacheWithCleanupHook(0, func(context.Context, string) error {
			<-end
			return nil
		})
		require.NoError(t, cache.Set("q", &groupedQueue{}, 0))
		var err error
		took := closeWithin(t, time.Second, func(ctx context.Context) { err = cache.Close(ctx) })
		assert.Less(t, took, closeLimit)
		require.ErrorIs(t, err, amboy.ErrLeftBehind)
		close(end)
	})
}

// stuck makes calls of a driver block, even after their context ends, until release is
// called.
func stuck(store *spy, calls ...string) (release func()) {
	end := make(chan struct{})
	store.do(func(_ context.Context, call string) error {
		if slices.Contains(calls, call) {
			<-end
			return errCut
		}
		return nil
	})
	return sync.OnceFunc(func() { close(end) })
}

// stuckClose is a driver whose Close does not return before release is closed.
type stuckClose struct {
	*spy
	release chan struct{}
}

func (d *stuckClose) Close(context.Context) error {
	<-d.release
	return nil
}

// stuckNotes is a spy on which calls about notes block too.
type stuckNotes struct{ *spy }

func (d stuckNotes) Keep(ctx context.Context, notes ...driver.Note) error {
	if err := d.note(ctx, "Keep"); err != nil {
		return err
	}
	return d.spy.Keep(ctx, notes...)
}

func (d stuckNotes) Drop(ctx context.Context, kind string, keys ...string) error {
	if err := d.note(ctx, "Drop"); err != nil {
		return err
	}
	return d.spy.Drop(ctx, kind, keys...)
}

// TestCloseWaitedForADriverCallThatIgnoresItsContext makes each call of the driver block
// in turn, while three jobs run.
func TestCloseWaitedForADriverCallThatIgnoresItsContext(t *testing.T) {
	calls := []string{"Claim", "Extend", "Complete", "Release", "RecoverStale", "Forget", "CancelRequests", "Find", "Get", "Stats", "Keep", "Drop"}
	for _, durable := range []bool{false, true} {
		for _, call := range append(calls, "all") {
			t.Run(fmt.Sprintf("%s, durable is %t", call, durable), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					store := newSpy(newStore(t))
					store.durable, store.deaf = durable, true
					q := driverQueueOn(t, stuckNotes{store}, nil)
					end := make(chan struct{})
					s := &starts{t: t}
					put(t, q, s.lasting("heeds its context", time.Hour), newJob(t, "ends", func(context.Context, *funcJob) { <-end }))
					synctest.Wait()
					hanging := []string{call}
					if call == "all" {
						hanging = calls
					}
					release := stuck(store, hanging...)
					close(end)
					pass(2 * time.Minute)

					begin := time.Now()
					ctx, cancel := context.WithTimeout(context.Background(), time.Second)
					defer cancel()
					closed := make(chan struct{})
					go func() {
						defer close(closed)
						q.Close(ctx)
					}()
					select {
					case <-closed:
					case <-time.After(time.Hour):
						t.Error("Close waits for the driver")
					}
					assert.Less(t, time.Since(begin), time.Second+closeLimit)
					store.heal()
					release()
					<-closed
				})
			})
		}
	}
}

func TestCloseWaitedForADriverThatDoesNotClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &stuckClose{spy: newSpy(newStore(t)), release: make(chan struct{})}
		q := driverQueueOn(t, store, func(o *queue.DriverQueueOptions) { o.CloseDriver = true })
		assert.Less(t, closeWithin(t, time.Second, q.Close), closeLimit)

		group, err := queue.NewDriverGroup(context.Background(), queue.DriverGroupOptions{
			DefaultQueue: queue.DriverQueueOptions{Driver: store, CloseDriver: true, Format: amboy.JSON, NumWorkers: 2},
		})
		require.NoError(t, err)
		took := closeWithin(t, time.Second, func(ctx context.Context) { err = group.Close(ctx) })
		assert.Less(t, took, closeLimit)
		require.ErrorIs(t, err, amboy.ErrLeftBehind)
		close(store.release)
	})
}

// stuckRunner and stuckHandler are of another package, and their Close does not return.
type stuckRunner struct {
	amboy.Runner
	release chan struct{}
}

func (r stuckRunner) Close(ctx context.Context) {
	<-r.release
	r.Runner.Close(ctx)
}

type stuckHandler struct {
	amboy.RetryHandler
	release chan struct{}
}

func (h stuckHandler) Close(ctx context.Context) {
	<-h.release
	h.RetryHandler.Close(ctx)
}

func TestCloseWaitedForARunnerOrRetryHandlerThatDoesNotClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newTestEngine(t, newStore(t), 1)
		release := make(chan struct{})
		require.NoError(t, q.SetRunner(stuckRunner{q.Runner(), release}))
		require.NoError(t, q.Start(context.Background()))
		assert.Less(t, closeWithin(t, time.Second, q.Close), closeLimit)

		q = newTestEngine(t, newStore(t), 1)
		require.NoError(t, q.SetRetryHandler(stuckHandler{q.RetryHandler(), release}))
		require.NoError(t, q.Start(context.Background()))
		assert.Less(t, closeWithin(t, time.Second, q.Close), closeLimit)
		close(release)
	})
}

// TestRetryHandlerCloseWaitedForAQueueThatIgnoresItsContext makes a try that never
// returns.
func TestRetryHandlerCloseWaitedForAQueueThatIgnoresItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newSpy(newStore(t))
		store.noNextAttempts = true
		q := driverQueueOn(t, store, nil)
		release := stuck(store, "Retry")
		j := newJob(t, "fails", func(_ context.Context, j *funcJob) { j.AddRetryableError(errors.New("once more")) })
		put(t, q, retryable(j, 3))
		pass(time.Minute)
		require.Positive(t, store.count("Retry"))
		assert.Less(t, closeWithin(t, time.Second, q.RetryHandler().Close), closeLimit)
		assert.Less(t, closeWithin(t, 0, q.Close), closeLimit)
		release()
	})
}

// TestCloseWaitedForACallbackThatNeverReturns runs a job in middleware that never
// returns.
func TestCloseWaitedForACallbackThatNeverReturns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		end := make(chan struct{})
		q := driverQueueOn(t, newStore(t), func(o *queue.DriverQueueOptions) {
			o.Middleware = []amboy.Middleware{{Run: func(next amboy.RunFunc) amboy.RunFunc {
				return func(ctx context.Context, j amboy.Job) error {
					err := next(ctx, j)
					<-end
					return err
				}
			}}}
		})
		put(t, q, noop(t, "a"))
		synctest.Wait()
		assert.Less(t, closeWithin(t, time.Second, q.Close), closeLimit)
		assert.Equal(t, []string{"a"}, leftBehind(t, q))
		close(end)
	})
}

// A job that goes on while its queue closes may put its next step: the store keeps that for other processes.
func TestAJobWasRefusedItsNextStepBecauseItsQueueWasClosing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newSpy(newStore(t))
		store.durable = true
		q := driverQueueOn(t, store, nil)
		begun, closing, closed := make(chan struct{}), make(chan struct{}), make(chan struct{})
		var own context.Context
		put(t, q, newJob(t, "first", func(ctx context.Context, j *funcJob) {
			own = ctx
			close(begun)
			<-closing
			if err := amboy.QueueFromContext(ctx).Put(ctx, noop(t, "second")); err != nil {
				j.AddError(err)
			}
			<-closed
		}))
		<-begun

		done := make(chan struct{})
		go func() {
			defer close(done)
			q.Close(context.Background())
		}()
		synctest.Wait()
		close(closing)
		synctest.Wait()
		require.ErrorIs(t, q.Put(t.Context(), noop(t, "of another")), amboy.ErrQueueClosed)
		close(closed)
		<-done
		assert.Equal(t, amboy.StateSucceeded, infoOf(t, q, "first").State)
		assert.Equal(t, amboy.StatePending, infoOf(t, q, "second").State)
		assert.ErrorIs(t, q.Put(own, noop(t, "too late")), amboy.ErrQueueClosed)
	})
}

// A job that goes on while its group closes may put jobs into other queues of the group, as into its own: "Get before
// each Put" failed with ErrGroupClosed, and a queue that had closed because it was idle refused with ErrQueueClosed. So
// jobs of pipelines that lead from one queue to the next failed for good, in each deploy.
func TestAJobWasRefusedAnotherQueueOfItsGroupBecauseThatWasClosing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newSpy(newStore(t))
		store.durable = true
		group := newDriverGroup(t, store, nil)
		kept := open(t, group, "kept")
		begun, closing, ended := make(chan struct{}), make(chan struct{}), make(chan struct{})
		var own context.Context
		first := open(t, group, "first")
		put(t, first, newJob(t, "first", func(ctx context.Context, j *funcJob) {
			own = ctx
			close(begun)
			<-closing
			j.AddError(kept.Put(ctx, noop(t, "in a queue that it had")))
			for _, name := range []string{"kept", "new", "new", "first"} {
				q, err := group.Get(ctx, name)
				if err == nil {
					err = amboy.EnqueueUniqueJob(ctx, q, noop(t, "in "+name))
				}
				j.AddError(err)
			}
			<-ended
		}))
		<-begun
		closed := make(chan error, 1)
		go func() { closed <- group.Close(context.Background()) }()
		synctest.Wait()
		close(closing)
		synctest.Wait()
		require.ErrorIs(t, kept.Put(t.Context(), noop(t, "of another")), amboy.ErrQueueClosed)
		_, err := group.Get(t.Context(), "kept")
		require.ErrorIs(t, err, queue.ErrGroupClosed)
		close(ended)
		require.NoError(t, <-closed)
		_, err = group.Get(own, "kept")
		require.ErrorIs(t, err, queue.ErrGroupClosed)
		require.ErrorIs(t, kept.Put(own, noop(t, "too late")), amboy.ErrQueueClosed)

		page, err := store.Find(t.Context(), driver.Query{}, driver.PageRequest{Limit: 100})
		require.NoError(t, err)
		states := map[string]amboy.JobState{}
		for _, r := range page.Records {
			states[r.Group+"/"+r.JobID()] = driver.StateOf(r, time.Now())
		}
		assert.Equal(t, map[string]amboy.JobState{
			"first/first":                 amboy.StateSucceeded,
			"kept/in a queue that it had": amboy.StatePending,
			"kept/in kept":                amboy.StatePending,
			"new/in new":                  amboy.StatePending,
			"first/in first":              amboy.StatePending,
		}, states)
	})
}

// The queues of a MongoDB group have several engines if their options differ.
func TestAJobWasRefusedAQueueOfItsGroupWithAnotherEngine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := mongotest.Open(t, mongotest.InMemory())
		group := newMongoDBGroup(t, server, func(o *queue.MongoDBQueueGroupOptions) {
			o.PerQueue = map[string]queue.MongoDBQueueOptions{"other": {DB: &queue.MongoDBOptions{LockTimeout: 2 * time.Minute}}}
		})
		first, err := group.Get(t.Context(), "first")
		require.NoError(t, err)
		_, err = group.Get(t.Context(), "other")
		require.NoError(t, err)
		begun, closing := make(chan struct{}), make(chan struct{})
		put(t, first, newJob(t, "first", func(ctx context.Context, j *funcJob) {
			close(begun)
			<-closing
			q, putErr := group.Get(ctx, "other")
			if putErr == nil {
				putErr = q.Put(ctx, noop(t, "second"))
			}
			j.AddError(putErr)
		}))
		<-begun
		closed := make(chan error, 1)
		go func() { closed <- group.Close(context.Background()) }()
		synctest.Wait()
		close(closing)
		require.NoError(t, <-closed)
		n, err := server.Collection("tenants.group").CountDocuments(t.Context(), map[string]any{"_id": "other.second", "status.completed": false})
		require.NoError(t, err)
		assert.EqualValues(t, 1, n)
	})
}

// A job that waits for another while its queue closes was told at once that the other had not ended. So it failed, in
// each deploy, although the other ended a moment later, in its process or in the next one.
func TestAJobThatWaitedForAnotherFailedWhenItsQueueWasClosing(t *testing.T) {
	for name, workers := range map[string]int{"in its process": 2, "in another process": 1} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newSpy(newStore(t))
				store.durable = true
				q := driverQueueOn(t, store, func(o *queue.DriverQueueOptions) { o.NumWorkers = workers })
				end := make(chan struct{})
				waited := newJob(t, "waited for", func(context.Context, *funcJob) { <-end })
				put(t, q, newJob(t, "waits", func(ctx context.Context, j *funcJob) {
					j.AddError(q.Put(ctx, waited))
					if !amboy.WaitJob(ctx, waited, q) {
						j.AddError(errors.New("the other has not ended"))
					}
				}))
				synctest.Wait()
				done := make(chan struct{})
				go func() {
					defer close(done)
					q.Close(context.Background())
				}()
				synctest.Wait()
				assert.False(t, amboy.WaitJob(t.Context(), waited, q), "the caller is no job")
				next := driverQueueOn(t, store, nil)
				defer next.Close(context.Background())
				close(end)
				<-done
				assert.Equal(t, amboy.StateSucceeded, infoOf(t, q, "waits").State)
			})
		})
	}
}
