package queue_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue"
	"github.com/mongodb/amboy/queue/driver"
)

// withAndWithoutDurableWrites runs a test in a bubble twice: with a store whose writes
// take time, so that workers continue meanwhile, and with a store whose writes take none.
func withAndWithoutDurableWrites(t *testing.T, test func(t *testing.T, store *spy)) {
	t.Helper()
	for _, durable := range []bool{false, true} {
		t.Run(fmt.Sprintf("durable %t", durable), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newSpy(newStore(t))
				store.durable = durable
				test(t, store)
			})
		})
	}
}

// TestCompletionIsWrittenWhenTheStoreIsBack makes the store fail while jobs end.
func TestCompletionIsWrittenWhenTheStoreIsBack(t *testing.T) {
	for name, test := range map[string]struct {
		fails []string
		lasts time.Duration
	}{
		"completions for an hour":          {fails: []string{"Complete"}, lasts: time.Hour},
		"everything for less than a lease": {lasts: 40 * time.Second},
		"everything for a short moment":    {lasts: 20 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			withAndWithoutDurableWrites(t, func(t *testing.T, store *spy) {
				const workers = 4
				q := startEngine(t, store, workers)
				defer q.Close(context.Background())
				s := &starts{t: t}
				s.putAll(q, "", 3*workers, time.Second)
				synctest.Wait()
				require.Len(t, s.all(), workers)
				store.fail(test.fails...)
				pass(test.lasts)
				most := workers
				if store.durable {
					most = 2 * workers
				}
				assert.LessOrEqual(t, len(s.all()), most, "the number of unwritten completions is limited")
				assert.Zero(t, statsOf(t, store.Driver).Completed)
				store.heal()
				require.True(t, amboy.Wait(day(t), q))
				assert.Len(t, s.all(), 3*workers, "no job ran twice")
				assert.Equal(t, amboy.QueueStats{Completed: 3 * workers, Total: 3 * workers}, q.Stats(t.Context()))
			})
		})
	}
}

// mute is a driver that writes completions, but loses the answers.
type mute struct {
	driver.Driver
	isMute atomic.Bool
}

func (d *mute) Complete(ctx context.Context, completions []driver.Completion) ([]error, error) {
	errs, err := d.Driver.Complete(ctx, completions)
	if d.isMute.Load() {
		return nil, context.DeadlineExceeded
	}
	return errs, err
}

// TestACompletionWhoseAnswerWasLostCounts includes an attempt that another process replaces
// before this process learns that its completion was written.
func TestACompletionWhoseAnswerWasLostCounts(t *testing.T) {
	for name, test := range map[string]struct {
		isMute   time.Duration
		replaced bool
	}{
		"for a moment":               {isMute: time.Second},
		"until the job was replaced": {isMute: time.Hour, replaced: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newStore(t)
				lossy := &mute{Driver: store}
				q := startEngine(t, lossy, 2)
				defer q.Close(context.Background())
				lossy.isMute.Store(true)
				var runs journal
				run := func(_ context.Context, j *funcJob) {
					attempt := j.RetryInfo().CurrentAttempt
					runs.add(fmt.Sprint(j.ID(), " ", attempt))
					if attempt == 0 && j.RetryInfo().Retryable {
						j.AddRetryableError(errCut)
					}
				}
				put(t, q, newJob(t, "plain", run))
				synctest.Wait()
				put(t, q, retryable(newJob(t, "flaky", run), 2))
				synctest.Wait()
				assert.Equal(t, []string{"plain 0", "flaky 0"}, runs.all())
				other := startEngine(t, store, 1)
				defer other.Close(context.Background())
				pass(test.isMute)
				if test.replaced {
					assert.Equal(t, []string{"plain 0", "flaky 0", "flaky 1"}, runs.all())
				}
				lossy.isMute.Store(false)
				pass(10 * time.Second)
				assert.Equal(t, []string{"plain 0", "flaky 0", "flaky 1"}, runs.all(), "the job is retried as soon as its end is known to be written")
				require.True(t, amboy.Wait(day(t), q))
				pass(10 * time.Minute)
				assert.Equal(t, []string{"plain 0", "flaky 0", "flaky 1"}, runs.all())
				assert.Equal(t, amboy.QueueStats{Completed: 3, Total: 3}, q.Stats(t.Context()))
				put(t, q, newJob(t, "next", run), newJob(t, "next but one", run))
				require.True(t, amboy.Wait(day(t), q), "the workers are free")
			})
		})
	}
}

// TestWaitEndsForACompletionWhoseAnswerWasLost loses the answer to the completion of a
// job; the next try finds that the job has ended.
func TestWaitEndsForACompletionWhoseAnswerWasLost(t *testing.T) {
	withAndWithoutDurableWrites(t, func(t *testing.T, store *spy) {
		lossy := &mute{Driver: store}
		q := startEngine(t, lossy, 1)
		defer q.Close(context.Background())
		lossy.isMute.Store(true)
		store.do(func(_ context.Context, call string) error {
			if call == "Complete" && store.count("Complete") == 2 {
				lossy.isMute.Store(false)
			}
			return nil
		})
		s := &starts{t: t}
		j := s.lasting("one", 1100*time.Millisecond)
		begun := time.Now()
		put(t, q, j)
		waited := make(chan time.Duration, 1)
		go func() {
			amboy.WaitJob(day(t), j, q)
			waited <- time.Since(begun)
		}()
		assert.Less(t, <-waited, 1500*time.Millisecond, "the waiters were not woken")
	})
}

// TestCompleteAfterClose completes a job by hand after the goroutine that gathers
// completions has ended.
func TestCompleteAfterClose(t *testing.T) {
	withAndWithoutDurableWrites(t, func(t *testing.T, store *spy) {
		q := startEngine(t, store, 1)
		j := noop(t, "one")
		require.NoError(t, controlled(t, q).Pause(t.Context()))
		put(t, q, j)
		q.Close(t.Context())
		require.NoError(t, q.Complete(within(t), j))
		assert.Equal(t, 1, statsOf(t, store).Completed)
	})
}

func TestCloseEndsTheRetriesOfACompletion(t *testing.T) {
	withAndWithoutDurableWrites(t, func(t *testing.T, store *spy) {
		const patience, grace = time.Minute, 10 * time.Second
		q := startEngine(t, store, 2)
		s := &starts{t: t}
		s.putAll(q, "", 2, time.Second)
		synctest.Wait()
		store.fail("Complete")
		pass(time.Hour)
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		begun := time.Now()
		q.Close(ctx)
		assert.GreaterOrEqual(t, time.Since(begun), patience)
		assert.LessOrEqual(t, time.Since(begun), patience+grace)
	})
}

// TestCompletionsShareCalls ends many jobs while one completion is being written.
func TestCompletionsShareCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newSpy(newStore(t))
		store.durable = true
		const workers = 50
		q := startEngine(t, store, workers)
		defer q.Close(context.Background())
		s := &starts{t: t}
		s.putAll(q, "", workers, time.Second)
		synctest.Wait()
		hold := make(chan struct{})
		store.do(func(_ context.Context, call string) error {
			if call == "Complete" {
				<-hold
			}
			return nil
		})
		pass(5 * time.Second)
		assert.Equal(t, 1, store.count("Complete"))
		close(hold)
		require.True(t, amboy.Wait(day(t), q))
		assert.LessOrEqual(t, store.count("Complete"), 2, "the first completion, and one call for the later ones")
	})
}

// TestAPanicInACompletionBlocksNoCaller makes the driver panic while other
// completions wait for their turn.
func TestAPanicInACompletionBlocksNoCaller(t *testing.T) {
	withAndWithoutDurableWrites(t, func(t *testing.T, store *spy) {
		const workers = 10
		q := startEngine(t, store, workers)
		defer q.Close(context.Background())
		s := &starts{t: t}
		put(t, q, s.lasting("first", time.Second))
		s.putAll(q, "", workers-1, 2*time.Second)
		synctest.Wait()
		hold := make(chan struct{})
		var once sync.Once
		store.do(func(_ context.Context, call string) error {
			if call == "Complete" {
				<-hold
				once.Do(func() { panic("as planned") })
			}
			return nil
		})
		pass(5 * time.Second)
		close(hold)
		synctest.Wait()
		stats := q.Stats(t.Context())
		assert.Equal(t, workers-1, stats.Completed, "the waiting completions are written: %s", stats)
		require.True(t, amboy.Wait(day(t), q))
		assert.Len(t, s.all(), workers+1, "the job whose end could not be written runs again")
	})
}

// TestACallerThatGivesUpDoesNotDisturbOtherCallers completes jobs by hand from three
// callers: the first is writing when the second gives up.
func TestACallerThatGivesUpDoesNotDisturbOtherCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newSpy(newStore(t))
		store.durable = true
		q := newTestEngine(t, store, 1)
		defer q.Close(context.Background())
		jobs := []amboy.Job{noop(t, "first"), noop(t, "second"), noop(t, "third")}
		require.NoError(t, q.PutMany(t.Context(), jobs))
		hold := make(chan struct{})
		store.do(func(_ context.Context, call string) error {
			if call == "Complete" {
				<-hold
			}
			return nil
		})
		impatient, giveUp := context.WithCancel(t.Context())
		errs := make([]error, len(jobs))
		var calls sync.WaitGroup
		for i, ctx := range []context.Context{t.Context(), impatient, t.Context()} {
			calls.Go(func() { errs[i] = q.Complete(ctx, jobs[i]) })
			pass(time.Second)
		}
		giveUp()
		synctest.Wait()
		close(hold)
		calls.Wait()
		require.NoError(t, errs[0])
		require.ErrorIs(t, errs[1], context.Canceled)
		require.NoError(t, errs[2])
		assert.Equal(t, amboy.StatePending, infoOf(t, q, "second").State)
		assert.Equal(t, 2, store.count("Complete"))
	})
}

// TestConcurrentCompletionsByCallersThatGiveUp finds races between callers that write for
// other callers, callers that are told to write, and callers that give up at that moment.
func TestConcurrentCompletionsByCallersThatGiveUp(t *testing.T) {
	const callers, jobsEach = 32, 60
	store := newSpy(newStore(t))
	q := newTestEngine(t, store, 1)
	defer q.Close(context.Background())
	var jobs []amboy.Job
	for i := range callers * jobsEach {
		j := newFuncJob()
		j.SetID(fmt.Sprint(i))
		jobs = append(jobs, j)
	}
	require.NoError(t, q.PutMany(t.Context(), jobs))
	// Callers that share a context give up together, just before a call returns.
	patient := within(t)
	var mu sync.Mutex
	shared, giveUp := context.WithCancel(patient)
	share := func() context.Context {
		mu.Lock()
		defer mu.Unlock()
		return shared
	}
	store.do(func(_ context.Context, call string) error {
		if call != "Complete" {
			return nil
		}
		for range rand.IntN(20) {
			runtime.Gosched()
		}
		mu.Lock()
		defer mu.Unlock()
		if rand.IntN(4) == 0 {
			giveUp()
			shared, giveUp = context.WithCancel(patient)
		}
		if rand.IntN(20) == 0 {
			panic("as planned")
		}
		return nil
	})
	written := make([]bool, len(jobs))
	var calls sync.WaitGroup
	for caller := range callers {
		calls.Go(func() {
			for i := caller * jobsEach; i < (caller+1)*jobsEach; i++ {
				if rand.IntN(2) == 0 {
					written[i] = q.Complete(share(), jobs[i]) == nil //nolint:contextcheck // It derives from patient.
				} else {
					written[i] = q.Complete(patient, jobs[i]) == nil
				}
			}
		})
	}
	calls.Wait()
	giveUp()
	require.NoError(t, patient.Err(), "a caller was kept waiting")
	store.heal()
	failed := 0
	for i, j := range jobs {
		if !written[i] {
			failed++
			continue
		}
		got, ok := q.Get(t.Context(), j.ID())
		require.True(t, ok)
		assert.True(t, got.Status().Completed, "Complete returned nil for job %q", j.ID())
	}
	t.Logf("%d of %d gave up or failed, %d calls", failed, len(jobs), store.count("Complete"))
	assert.Positive(t, failed)
	assert.Less(t, failed, len(jobs))
	last := noop(t, "last")
	require.NoError(t, q.Put(t.Context(), last))
	require.NoError(t, q.Complete(within(t), last), "the queue still works")
}

func statsOf(t *testing.T, d driver.Driver) amboy.QueueStats {
	t.Helper()
	stats, err := d.Stats(t.Context(), "")
	require.NoError(t, err)
	return stats
}

// panickingHandler is a retry handler of a user whose Put panics.
type panickingHandler struct{ amboy.RetryHandler }

func (panickingHandler) Put(context.Context, amboy.Job) error { panic("the handler is broken") }

// The worker whose job was handed over waited for ever for the end of that job.
func TestARetryHandlerThatPanicsTookAWorkerWithIt(t *testing.T) {
	onDurable(t, func(t *testing.T, store *spy) {
		q := newTestEngine(t, store, 1)
		handler, err := queue.NewBasicRetryHandler(q, amboy.RetryHandlerOptions{})
		require.NoError(t, err)
		require.NoError(t, q.SetRetryHandler(panickingHandler{handler}))
		require.NoError(t, q.Start(t.Context()))
		defer q.Close(ended())
		failing := retryable(newJob(t, "1", func(_ context.Context, j *funcJob) { j.AddRetryableError(errCut) }), 3)
		slow := newJob(t, "2", func(context.Context, *funcJob) { time.Sleep(time.Second) })
		put(t, q, failing)
		synctest.Wait()
		put(t, q, slow, noop(t, "3"))
		require.True(t, amboy.WaitJob(within(t), noop(t, "3"), q))
	})
}

// The check whether the queue is idle held up the ends of other jobs, and so their worker.
func TestAStoreThatDoesNotSayWhetherAQueueIsIdleHeldUpItsWorkers(t *testing.T) {
	onDurable(t, func(t *testing.T, store *spy) {
		q := startEngine(t, store, 1)
		defer q.Close(ended())
		first, started, release := holder(t, "1")
		put(t, q, first)
		<-started
		waiting, stop := context.WithCancel(t.Context())
		defer stop()
		go q.(amboy.CompletionWaiter).WaitComplete(waiting)
		synctest.Wait()
		store.do(func(ctx context.Context, call string) error {
			if call != "Stats" {
				return nil
			}
			<-ctx.Done()
			return ctx.Err()
		})
		release()
		synctest.Wait()
		put(t, q, newJob(t, "2", func(context.Context, *funcJob) { time.Sleep(time.Second) }), noop(t, "3"))
		require.True(t, amboy.WaitJob(within(t), noop(t, "3"), q))
	})
}

// crowded is a driver to which the end of each job is too large.
type crowded struct{ *spy }

func (d crowded) Complete(ctx context.Context, completions []driver.Completion) ([]error, error) {
	short := make([]driver.Completion, len(completions))
	for i, c := range completions {
		ended := driver.ShortEnd(c.Record, errCut)
		ended.Job = c.Record.Job
		short[i] = driver.Completion{Lease: c.Lease, Record: ended}
	}
	errs, err := d.spy.Complete(ctx, short)
	for i := range errs {
		if errs[i] == nil {
			errs[i] = fmt.Errorf("%w: %w", driver.ErrTooLarge, errCut)
		}
	}
	return errs, err
}

// The store has ended such a job as failed.
func TestAJobWhoseEndWasTooLargeForTheStoreWasNeitherCountedNorReported(t *testing.T) {
	withAndWithoutDurableWrites(t, func(t *testing.T, store *spy) {
		q := startEngine(t, crowded{store}, 1)
		defer q.Close(context.Background())
		events, cancel, err := amboy.Subscribe(q, 100)
		require.NoError(t, err)
		put(t, q, noop(t, "succeeds"), retryable(newJob(t, "fails", func(_ context.Context, j *funcJob) { j.AddRetryableError(errCut) }), 2))
		drain(t, q)
		synctest.Wait()
		cancel()
		failed := map[string]bool{}
		for e := range events {
			switch e.Kind {
			case amboy.EventFailed:
				failed[e.JobID] = true
				require.ErrorIs(t, e.Err, driver.ErrTooLarge)
			case amboy.EventSucceeded, amboy.EventRetrying:
				t.Errorf("job %q is reported as %s", e.JobID, e.Kind)
			}
		}
		assert.Equal(t, map[string]bool{"succeeds": true, "fails": true}, failed)
		s, ok := queue.StoreOf(q)
		require.True(t, ok)
		attempts := s.Measure().Attempts
		require.Len(t, attempts, 1)
		assert.Equal(t, uint64(2), attempts[0].Failed)
	})
}

// TestACallerWaitedForHalfAMinuteAfterAFailedRead waits for a job that another process ends.
func TestACallerWaitedForHalfAMinuteAfterAFailedRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared := newStore(t)
		store := newSpy(shared)
		q, other := startIdle(t, store), startEngine(t, shared, 1)
		defer q.Close(context.Background())
		defer other.Close(context.Background())
		j := newJob(t, "one", func(context.Context, *funcJob) { <-time.After(time.Hour) })
		put(t, q, j)
		ended := make(chan bool)
		go func() { ended <- amboy.WaitJob(day(t), j, q) }()
		pass(time.Hour - time.Minute)
		store.fail("Find")
		pass(time.Minute + 5*time.Second)
		store.heal()
		begun := time.Now()
		require.True(t, <-ended)
		assert.LessOrEqual(t, time.Since(begun), 2*time.Second)
	})
}

// The caller waited until TCP gave up the connection, though the job had ended long before.
func TestACallerWaitedForAnAnswerOnADeadConnection(t *testing.T) {
	for call, wait := range map[string]func(context.Context, amboy.Job, amboy.Queue) bool{
		"Get":   amboy.WaitJob,
		"Stats": func(ctx context.Context, _ amboy.Job, q amboy.Queue) bool { return amboy.Wait(ctx, q) },
	} {
		t.Run(call, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				shared := newStore(t)
				store := newSpy(shared)
				store.deaf = true
				q, other := startIdle(t, store), startEngine(t, shared, 1)
				defer q.Close(context.Background())
				defer other.Close(context.Background())
				j := newJob(t, "one", func(context.Context, *funcJob) { <-time.After(time.Hour) })
				put(t, q, j)
				ended := make(chan bool, 1)
				go func() { ended <- wait(day(t), j, q) }()
				pass(time.Minute)
				store.hangOnce(call)
				pass(time.Hour)
				assert.Len(t, ended, 1)
				assert.True(t, <-ended)
			})
		})
	}
}

// The goroutine that reads the jobs that callers wait for waited until TCP gave up the connection. From then
// on each caller read its job only twice a minute.
func TestCallersWaitedForHalfAMinuteAfterAReadOnADeadConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared := newStore(t)
		store := newSpy(shared)
		q, other := startIdle(t, store), startEngine(t, shared, 1)
		defer q.Close(context.Background())
		defer other.Close(context.Background())
		const lasts = time.Hour + 7*time.Second // it does not end when the caller reads the job anyway
		j := newJob(t, "one", func(context.Context, *funcJob) { <-time.After(lasts) })
		put(t, q, j)
		ended := make(chan bool)
		go func() { ended <- amboy.WaitJob(day(t), j, q) }()
		pass(time.Hour - time.Minute)
		store.hangOnce("Find")
		put(t, q, noop(t, "two")) // the store changes, and is read
		pass(time.Minute + 7*time.Second)
		begun := time.Now()
		require.True(t, <-ended)
		assert.LessOrEqual(t, time.Since(begun), 2*time.Second)
	})
}

// The goroutine panicked that was to log why the end was not written.
func TestTheEndOfAJobThatDidNotRunHereWasNotLoggedIfTheStoreFailed(t *testing.T) {
	withAndWithoutDurableWrites(t, func(t *testing.T, store *spy) {
		q := newTestEngine(t, store, 1)
		defer q.Close(context.Background())
		j := noop(t, "one")
		put(t, q, j)
		store.fail("Complete")
		lines := logged(t, func() {
			ended := make(chan error, 1)
			go func() { ended <- q.Complete(day(t), j) }()
			pass(time.Second)
			store.heal()
			require.NoError(t, <-ended)
		}, "message", "job_id")
		assert.Equal(t, []string{"error|could not write the end of a job; trying again until the store accepts it|one"}, lines)
	})
}
