package queue_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/job"
	"github.com/mongodb/amboy/queue"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/memory"
	"github.com/mongodb/amboy/registry"
)

// scripted is a job that runs a function of the test.
type scripted struct {
	job.Base `json:"job_base"`
	Script   string `json:"script"`
}

var scripts sync.Map

func init() {
	registry.AddJobType("scripted", func() amboy.Job { return newScripted() })
}

func newScripted() *scripted {
	return &scripted{Base: job.Base{JobType: amboy.JobType{Name: "scripted"}}}
}

func (j *scripted) Run(ctx context.Context) {
	defer j.MarkComplete()
	run, _ := scripts.Load(j.Script)
	run.(func(context.Context, *scripted))(ctx, j)
}

func script(t *testing.T, id string, run func(context.Context, *scripted)) *scripted {
	t.Helper()
	j := newScripted()
	j.SetID(id)
	j.Script = t.Name() + "/" + id
	scripts.Store(j.Script, run)
	t.Cleanup(func() { scripts.Delete(j.Script) })
	return j
}

func newStore(t *testing.T) *memory.Driver {
	t.Helper()
	store, err := memory.New(memory.Options{KeepFinished: 10_000})
	require.NoError(t, err)
	return store
}

func newTestEngine(t *testing.T, store driver.Driver, workers int) amboy.RetryableQueue {
	t.Helper()
	q, err := queue.NewDriverQueue(queue.DriverQueueOptions{
		Driver: store, Format: amboy.JSON, NumWorkers: workers, LockTimeout: time.Minute,
	})
	require.NoError(t, err)
	return q
}

func startEngine(t *testing.T, store driver.Driver, workers int) amboy.RetryableQueue {
	t.Helper()
	q := newTestEngine(t, store, workers)
	require.NoError(t, q.Start(t.Context()))
	return q
}

// day returns a context for an operation that must end some time. With fake time, a stuck
// queue would otherwise block for ever.
func day(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 24*time.Hour)
	t.Cleanup(cancel)
	return ctx
}

func retried(j *scripted, attempts int, wait time.Duration) *scripted {
	j.UpdateRetryInfo(amboy.JobRetryOptions{Retryable: new(true), MaxAttempts: &attempts, WaitUntil: &wait})
	return j
}

func TestFailedJobIsRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := startEngine(t, newStore(t), 2)
		defer q.Close(context.Background())
		var runs []time.Duration
		begin := time.Now()
		j := retried(script(t, "one", func(_ context.Context, j *scripted) {
			runs = append(runs, time.Since(begin))
			if j.RetryInfo().CurrentAttempt < 2 {
				j.AddRetryableError(fmt.Errorf("attempt %d failed", j.RetryInfo().CurrentAttempt))
			}
		}), 5, time.Minute)
		j.SetPriority(7)
		require.NoError(t, q.Put(t.Context(), j))
		require.True(t, amboy.Wait(day(t), q))
		assert.Equal(t, []time.Duration{0, time.Minute, 2 * time.Minute}, runs)

		latest, ok := q.Get(t.Context(), "one")
		require.True(t, ok)
		assert.Equal(t, 2, latest.RetryInfo().CurrentAttempt)
		assert.Equal(t, 7, amboy.PriorityOf(latest))
		require.NoError(t, latest.Error())
		history := latest.Status().Attempts
		require.Len(t, history, 2)
		assert.Equal(t, "attempt 0 failed", history[0].Error)
		assert.Equal(t, 1, history[1].Attempt)

		attempts, err := q.GetAllAttempts(t.Context(), "one")
		require.NoError(t, err)
		require.Len(t, attempts, 3)
		for i, attempt := range attempts {
			assert.Equal(t, i, attempt.RetryInfo().CurrentAttempt)
			assert.False(t, attempt.RetryInfo().NeedsRetry)
		}
		first, err := q.GetAttempt(t.Context(), "one", 0)
		require.NoError(t, err)
		require.EqualError(t, first.Error(), "attempt 0 failed")
		_, err = q.GetAttempt(t.Context(), "one", 3)
		assert.True(t, amboy.IsJobNotFoundError(err))
		_, err = q.GetAllAttempts(t.Context(), "nobody")
		assert.True(t, amboy.IsJobNotFoundError(err))
		assert.Equal(t, amboy.QueueStats{Completed: 3, Total: 3}, q.Stats(t.Context()))
		var results []amboy.Job
		for j := range q.Results(t.Context()) {
			results = append(results, j)
		}
		require.Len(t, results, 1, "a replaced attempt is not a result")
		assert.Equal(t, 2, results[0].RetryInfo().CurrentAttempt)
		require.NoError(t, amboy.ResolveErrors(t.Context(), q))
	})
}

func TestAttemptsAreUsedUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := startEngine(t, newStore(t), 2)
		defer q.Close(context.Background())
		runs := 0
		j := retried(script(t, "one", func(_ context.Context, j *scripted) {
			runs++
			j.AddRetryableError(errors.New("no luck"))
		}), 3, 0)
		require.NoError(t, q.Put(t.Context(), j))
		require.True(t, amboy.WaitJob(day(t), j, q))
		assert.Equal(t, 3, runs)
		latest, _ := q.Get(t.Context(), "one")
		require.EqualError(t, latest.Error(), "no luck")
		attempts := latest.Status().Attempts
		assert.Contains(t, attempts[len(attempts)-1].Error, "maximum attempt limit")
		assert.Equal(t, amboy.StateFailed, amboy.StateOf(amboy.NewJobInfo(latest), time.Now()))
	})
}

func TestScopesAreHeldBetweenAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := startEngine(t, newStore(t), 2)
		defer q.Close(context.Background())
		j := retried(script(t, "one", func(_ context.Context, j *scripted) {
			if j.RetryInfo().CurrentAttempt == 0 {
				j.AddRetryableError(errors.New("once more"))
			}
		}), 2, time.Hour)
		j.SetScopes([]string{"kept", "given up"})
		j.SetEnqueueScopes("kept")
		require.NoError(t, q.Put(t.Context(), j))
		synctest.Wait()
		require.Equal(t, 1, q.Stats(t.Context()).Pending, "the next attempt waits")

		rival := script(t, "rival", func(context.Context, *scripted) {})
		rival.SetScopes([]string{"kept"})
		rival.SetEnqueueAllScopes(true)
		assert.True(t, amboy.IsDuplicateJobScopeError(q.Put(t.Context(), rival)))
		other := script(t, "other", func(context.Context, *scripted) {})
		other.SetScopes([]string{"given up"})
		other.SetEnqueueAllScopes(true)
		require.NoError(t, q.Put(t.Context(), other), "a scope that is taken at the start of a run is free between attempts")
		require.True(t, amboy.Wait(day(t), q))
		require.NoError(t, q.Put(t.Context(), rival))
		require.True(t, amboy.Wait(day(t), q))
	})
}

func TestDependentsWaitForTheLastAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := startEngine(t, newStore(t), 2)
		defer q.Close(context.Background())
		var order []string
		flaky := retried(script(t, "flaky", func(_ context.Context, j *scripted) {
			order = append(order, fmt.Sprint("attempt ", j.RetryInfo().CurrentAttempt))
			if j.RetryInfo().CurrentAttempt == 0 {
				j.AddRetryableError(errors.New("once more"))
			}
		}), 2, time.Minute)
		dependent := script(t, "dependent", func(context.Context, *scripted) { order = append(order, "dependent") })
		require.NoError(t, dependent.Dependency().AddEdge("flaky"))
		require.NoError(t, q.PutMany(t.Context(), []amboy.Job{dependent, flaky}))
		require.True(t, amboy.Wait(day(t), q))
		assert.Equal(t, []string{"attempt 0", "attempt 1", "dependent"}, order)
	})
}

func TestAnUndecodableJobIsParkedOnce(t *testing.T) {
	store := newStore(t)
	r, err := registry.MakeJobInterchange(script(t, "one", nil), amboy.JSON)
	require.NoError(t, err)
	require.NoError(t, r.Job.UnmarshalJSON([]byte(`{"script": 7}`)))
	_, err = store.Insert(t.Context(), []*driver.Record{r})
	require.NoError(t, err)
	counted := &countingDriver{Driver: store}
	q := startEngine(t, counted, 1)
	defer q.Close(context.Background())
	require.NoError(t, q.Put(t.Context(), script(t, "two", func(context.Context, *scripted) {})))
	two := script(t, "two", nil)
	require.True(t, amboy.WaitJob(day(t), two, q), "the queue goes on")

	var parked amboy.JobInfo
	for info := range q.JobInfo(t.Context()) {
		if info.ID == "one" {
			parked = info
		}
	}
	assert.Equal(t, amboy.StateParked, parked.State)
	assert.Contains(t, parked.Status.Reason, "can't be read")
	assert.Equal(t, int64(1), counted.released.Load(), "the job is parked once")
	_, there := q.Get(t.Context(), "one")
	assert.False(t, there, "Get returns no undecodable job")
}

// countingDriver counts calls, and fails or loses leases as the test says.
type countingDriver struct {
	driver.Driver
	released   atomic.Int64
	loseLeases atomic.Bool
	claimFails atomic.Int64
	extends    atomic.Int64
}

func (d *countingDriver) Release(ctx context.Context, handBacks []driver.HandBack) ([]error, error) {
	if d.loseLeases.Load() {
		return nil, errors.New("the store can't be reached")
	}
	d.released.Add(int64(len(handBacks)))
	return d.Driver.Release(ctx, handBacks)
}

func (d *countingDriver) Features() driver.Features                     { return driver.Features{} }
func (d *countingDriver) Subscribe(func(driver.Change)) (cancel func()) { return func() {} }

func (d *countingDriver) Extend(ctx context.Context, leases []driver.Lease, leaseTime time.Duration) ([]driver.Lease, error) {
	d.extends.Add(1)
	if d.loseLeases.Load() {
		return nil, errors.New("the store can't be reached")
	}
	return d.Driver.Extend(ctx, leases, leaseTime)
}

func (d *countingDriver) Claim(ctx context.Context, req driver.ClaimRequest) (driver.Claimed, error) {
	if d.loseLeases.Load() || d.claimFails.Add(-1) >= 0 {
		return driver.Claimed{}, errors.New("the store can't be reached")
	}
	return d.Driver.Claim(ctx, req)
}

func TestLostLeaseCancelsItsJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newStore(t)
		cut := &countingDriver{Driver: store}
		first := startEngine(t, cut, 1)
		defer first.Close(context.Background())
		second := newTestEngine(t, store, 1)
		defer second.Close(context.Background())

		var runs atomic.Int64
		var cause error
		j := script(t, "one", func(ctx context.Context, _ *scripted) {
			if runs.Add(1) == 1 {
				<-ctx.Done()
				cause = context.Cause(ctx)
			}
		})
		require.NoError(t, first.Put(t.Context(), j))
		synctest.Wait()
		cut.loseLeases.Store(true) // the first process can't renew
		require.NoError(t, second.Start(t.Context()))
		time.Sleep(2*time.Minute + time.Second) // the second process finds the lease stale, and takes over the job
		cut.loseLeases.Store(false)             // the first process reaches the store again
		time.Sleep(time.Minute)
		synctest.Wait()

		require.ErrorIs(t, cause, amboy.ErrLeaseLost, "a job continued after it lost its lease")
		assert.Equal(t, int64(2), runs.Load())
		got, _ := second.Get(t.Context(), "one")
		assert.Equal(t, second.ID(), got.Status().Owner, "the write of the first process was refused")
		assert.Equal(t, amboy.QueueStats{Completed: 1, Total: 1}, second.Stats(t.Context()))
	})
}

func TestHeartbeatRenewsAllLeasesInOneCallAndReadsNoJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newStore(t)
		counted := &countingDriver{Driver: store}
		q := startEngine(t, counted, 10)
		defer q.Close(context.Background())
		for i := range 10 {
			// The race detector reports a read of the field meanwhile.
			require.NoError(t, q.Put(t.Context(), script(t, fmt.Sprint(i), func(_ context.Context, j *scripted) {
				for range 600 {
					time.Sleep(time.Second)
					j.Script += "x"
				}
			})))
		}
		time.Sleep(9*time.Minute + time.Second)
		recovered, err := store.RecoverStale(t.Context())
		require.NoError(t, err)
		assert.Zero(t, recovered)
		assert.Equal(t, int64(36), counted.extends.Load(), "one call per quarter of the lock timeout")
		require.True(t, amboy.Wait(day(t), q))
		time.Sleep(time.Hour)
		assert.LessOrEqual(t, counted.extends.Load(), int64(41), "no heartbeat while nothing runs")
	})
}

func TestFailingClaimIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := &countingDriver{Driver: newStore(t)}
		broken.claimFails.Store(5)
		q := startEngine(t, broken, 3)
		defer q.Close(context.Background())
		require.NoError(t, q.Put(t.Context(), script(t, "one", func(context.Context, *scripted) {})))
		require.True(t, amboy.Wait(day(t), q))
	})
}

func TestJobsOfADeadHandlerAreRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newStore(t)
		dead := newTestEngine(t, store, 1)
		require.NoError(t, dead.SetRetryHandler(&deafHandler{}))
		require.NoError(t, dead.Start(t.Context()))
		j := retried(script(t, "one", func(_ context.Context, j *scripted) {
			if j.RetryInfo().CurrentAttempt == 0 {
				j.AddRetryableError(errors.New("once more"))
			}
		}), 2, 0)
		require.NoError(t, dead.Put(t.Context(), j))
		synctest.Wait()
		assert.Equal(t, 1, dead.Stats(t.Context()).Retrying)
		assert.False(t, dead.Stats(t.Context()).IsIdle())

		q := startEngine(t, store, 1)
		defer q.Close(context.Background())
		defer dead.Close(context.Background())
		require.True(t, amboy.Wait(day(t), q))
		assert.Equal(t, 2, q.Stats(t.Context()).Completed)
	})
}

// deafHandler accepts jobs and does nothing with them.
type deafHandler struct{ amboy.RetryHandler }

func (*deafHandler) SetQueue(amboy.RetryableQueue) error  { return nil }
func (*deafHandler) Start(context.Context) error          { return nil }
func (*deafHandler) Put(context.Context, amboy.Job) error { return nil }
func (*deafHandler) Close(context.Context)                {}

func TestRetryHandlerIsNotSwappedAfterStart(t *testing.T) {
	q := startEngine(t, newStore(t), 1)
	defer q.Close(context.Background())
	require.ErrorIs(t, q.SetRetryHandler(&deafHandler{}), amboy.ErrAlreadyStarted)
	require.Error(t, q.SetRetryHandler(nil))
	_, basic := q.RetryHandler().(*queue.BasicRetryHandler)
	assert.True(t, basic)
}

func TestUnregisteredTypeIsRefused(t *testing.T) {
	q := newTestEngine(t, newStore(t), 1)
	defer q.Close(context.Background())
	j := script(t, "one", nil)
	j.JobType.Name = "nobody knows it"
	var unknown *registry.UnknownTypeError
	require.ErrorAs(t, q.Put(t.Context(), j), &unknown)
	assert.Equal(t, "one", unknown.JobID)
	assert.Zero(t, q.Stats(t.Context()).Total)
}

func TestJobsPutBeforeStartRun(t *testing.T) {
	q := newTestEngine(t, newStore(t), 1)
	defer q.Close(context.Background())
	require.NoError(t, q.Put(t.Context(), script(t, "one", func(context.Context, *scripted) {})))
	require.NoError(t, q.Start(t.Context()))
	require.True(t, amboy.Wait(day(t), q))
}

func TestTwoQueuesShareAStore(t *testing.T) {
	store := newStore(t)
	first, second := startEngine(t, store, 4), startEngine(t, store, 4)
	defer first.Close(context.Background())
	defer second.Close(context.Background())
	var runs sync.Map
	for i := range 500 {
		id := fmt.Sprint(i)
		require.NoError(t, first.Put(t.Context(), script(t, id, func(context.Context, *scripted) {
			if _, twice := runs.LoadOrStore(id, true); twice {
				t.Errorf("job %s ran twice", id)
			}
		})))
	}
	require.True(t, amboy.Wait(day(t), second))
	assert.Equal(t, amboy.QueueStats{Completed: 500, Total: 500}, first.Stats(t.Context()))
}

func TestQueuePollsADriverThatDoesNotNotify(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newStore(t)
		q := startEngine(t, &countingDriver{Driver: store}, 1)
		defer q.Close(context.Background())
		elsewhere := newTestEngine(t, store, 1)
		defer elsewhere.Close(context.Background())
		time.Sleep(time.Hour)
		put := time.Now()
		var waited time.Duration
		j := script(t, "one", func(context.Context, *scripted) { waited = time.Since(put) })
		require.NoError(t, elsewhere.Put(t.Context(), j))
		require.True(t, amboy.WaitJob(day(t), j, q))
		assert.LessOrEqual(t, waited, time.Second, "even after an idle hour")
	})
}

func TestRetryOptionsAreChecked(t *testing.T) {
	bad := queue.RetryableQueueOptions{
		StaleRetryingMonitorInterval: -1,
		RetryHandler:                 amboy.RetryHandlerOptions{NumWorkers: -1},
	}
	err := bad.Validate()
	require.ErrorContains(t, err, "StaleRetryingMonitorInterval")
	require.ErrorContains(t, err, "NumWorkers")
	_, err = queue.NewLocalLimitedSizeSerializableWithOptions(queue.LocalLimitedSizeSerializableOptions{NumWorkers: 1, Capacity: 1, Retryable: bad})
	require.Error(t, err)
}

func TestNextAttemptMustBeTheSameJob(t *testing.T) {
	q := newTestEngine(t, newStore(t), 1)
	defer q.Close(context.Background())
	one, two := script(t, "one", nil), script(t, "two", nil)
	require.ErrorContains(t, q.CompleteRetryingAndPut(t.Context(), one, two), `"two"`)
	require.Error(t, q.CompleteRetryingAndPut(t.Context(), nil, two))
	require.Error(t, q.CompleteRetrying(t.Context(), nil))
	require.ErrorIs(t, q.CompleteRetryingAndPut(t.Context(), one, one), amboy.ErrLeaseLost)
	require.ErrorIs(t, q.CompleteRetrying(t.Context(), one), amboy.ErrLeaseLost)
}

func TestPanickingJobIsRetried(t *testing.T) {
	q := startEngine(t, newStore(t), 1)
	defer q.Close(context.Background())
	j := retried(script(t, "one", func(_ context.Context, j *scripted) {
		if j.RetryInfo().CurrentAttempt == 0 {
			panic("once")
		}
	}), 3, 0)
	require.NoError(t, q.Put(t.Context(), j))
	require.True(t, amboy.WaitJob(day(t), j, q))
	latest, _ := q.Get(t.Context(), "one")
	require.NoError(t, latest.Error())
	assert.Equal(t, 1, latest.RetryInfo().CurrentAttempt)
	assert.Contains(t, latest.Status().Attempts[0].Stack, "engine_test.go")

	report := amboy.Report(t.Context(), q, 0)
	assert.Equal(t, []string{"one"}, report.Completed, "a job is listed by its latest attempt")
}

// greedy is a job that can't be stored after it ran.
type greedy struct {
	job.Base `json:"job_base"`
	Result   float64 `json:"result"`
	Script   string  `json:"script"`
}

func (j *greedy) Run(context.Context) {
	if run, ok := scripts.Load(j.Script); ok {
		run.(func())()
	}
	j.Result = math.NaN()
	j.AddRetryableError(errors.New("not a number"))
}

func init() {
	registry.AddJobType("greedy", func() amboy.Job { return newGreedy() })
}

func newGreedy() *greedy {
	return &greedy{Base: job.Base{JobType: amboy.JobType{Name: "greedy"}}}
}

func TestJobThatCannotBeStoredAfterItRanEndsAsFailed(t *testing.T) {
	q := startEngine(t, newStore(t), 1)
	defer q.Close(context.Background())
	for _, retryable := range []bool{false, true} {
		j := newGreedy()
		j.SetID(fmt.Sprint("retryable ", retryable))
		j.UpdateRetryInfo(amboy.JobRetryOptions{Retryable: &retryable})
		require.NoError(t, q.Put(t.Context(), j))
		require.True(t, amboy.WaitJob(day(t), j, q), "the job was left in progress")
		got, there := q.Get(t.Context(), j.ID())
		require.True(t, there)
		require.ErrorContains(t, got.Error(), "not a number")
		require.ErrorContains(t, got.Error(), "can't be stored")
	}
}

// Its end was given up when the store failed at that moment, so that it ran again a lease later.
func TestAJobThatCannotBeStoredRanAgainBecauseTheStoreFailedWhenItEnded(t *testing.T) {
	withAndWithoutDurableWrites(t, func(t *testing.T, store *spy) {
		q := startEngine(t, store, 1)
		defer q.Close(context.Background())
		runs := 0
		j := newGreedy()
		j.SetID("one")
		j.Script = t.Name()
		scripts.Store(j.Script, func() {
			runs++
			<-time.After(10 * time.Second)
		})
		defer scripts.Delete(j.Script)
		require.NoError(t, q.Put(t.Context(), j))
		pass(9 * time.Second)
		store.fail()
		pass(5 * time.Second)
		store.heal()
		require.True(t, amboy.WaitJob(day(t), j, q))
		assert.Equal(t, 1, runs)
		got, _ := q.Get(t.Context(), "one")
		require.ErrorContains(t, got.Error(), "can't be stored")
	})
}

func TestLeasesLastAMinuteUnlessTheOptionsAreLegacy(t *testing.T) {
	store, err := memory.New(memory.Options{KeepFinished: 1})
	require.NoError(t, err)
	plain, err := queue.NewDriverQueue(queue.DriverQueueOptions{Driver: store, NumWorkers: 1})
	require.NoError(t, err)
	group, err := queue.NewDriverGroup(t.Context(), queue.DriverGroupOptions{DefaultQueue: queue.DriverQueueOptions{Driver: store, NumWorkers: 1}})
	require.NoError(t, err)
	tenant, err := group.Get(t.Context(), "tenant")
	require.NoError(t, err)
	legacy, err := queue.NewLocalLimitedSizeSerializable(1, 1)
	require.NoError(t, err)
	for q, want := range map[amboy.Queue]time.Duration{
		plain: queue.DefaultLockTimeout, tenant: queue.DefaultLockTimeout, legacy: amboy.LockTimeout, queue.NewLocalLimitedSize(1, 1): amboy.LockTimeout,
	} {
		assert.Equal(t, want, q.Info().LockTimeout, "%T", q)
		q.Close(t.Context())
	}
	require.NoError(t, group.Close(t.Context()))
	require.NoError(t, store.Close(t.Context()))
}

// The process asked for the time without a pause: a quarter of the lease was 0.
func TestALeaseOfThreeNanosecondsKeptACoreBusy(t *testing.T) {
	_, err := queue.NewDriverQueue(queue.DriverQueueOptions{Driver: newStore(t), NumWorkers: 1, LockTimeout: 3})
	require.ErrorContains(t, err, "LockTimeout must be at least 1ms, or 0 for the default (is 3ns)")
	require.ErrorContains(t, (&queue.MongoDBOptions{LockTimeout: 3}).Validate(), "LockTimeout must be at least 1ms")
}

func TestDriverQueueOptionsAreChecked(t *testing.T) {
	_, err := queue.NewDriverQueue(queue.DriverQueueOptions{Format: 7, LockTimeout: -1, PollInterval: -1})
	for _, field := range []string{"Driver must not be nil", "NumWorkers must be at least 1", "Format", "LockTimeout", "PollInterval"} {
		require.ErrorContains(t, err, field)
	}
}

// A single failure of the store made WaitJob say that the job does not exist or the queue is closed.
func TestWaitJobGaveUpAfterAFailureOfTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newSpy(newStore(t))
		q := startEngine(t, store, 1)
		defer q.Close(ended())
		s := &starts{t: t}
		long := s.lasting("long", time.Hour)
		put(t, q, long)
		store.fail("Get")
		waited := make(chan bool, 1)
		go func() { waited <- amboy.WaitJob(t.Context(), long, q) }()
		pass(time.Minute)
		assert.Empty(t, waited, "it waits for the store")
		store.heal()
		assert.True(t, <-waited)
		store.fail("Get")
		go func() { waited <- amboy.WaitJob(t.Context(), long, q) }()
		pass(time.Minute)
		q.Close(ended())
		assert.False(t, <-waited)
	})
}

// The store is asked only once for a job that does not exist.
func TestWaitJobReturnsFalseForAMissingJob(t *testing.T) {
	store := newSpy(newStore(t))
	q := startEngine(t, store, 1)
	defer q.Close(ended())
	store.reset()
	assert.False(t, amboy.WaitJob(within(t), noop(t, "missing"), q))
	assert.Equal(t, 1, store.count("Get"))
}
