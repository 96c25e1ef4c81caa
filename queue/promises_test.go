package queue_test

import (
	"context"
	"math"
	"slices"
	"sync"
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

// onDurable runs a test in a bubble, with a store whose calls take time.
func onDurable(t *testing.T, test func(t *testing.T, store *spy)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		store := newSpy(newStore(t))
		store.durable = true
		test(t, store)
	})
}

func TestARunWhoseLeaseIsNotRenewedGoesOn(t *testing.T) {
	onDurable(t, func(t *testing.T, store *spy) {
		q := startEngine(t, store, 1)
		defer q.Close(context.Background())
		var begun time.Time
		var cause error
		var ran time.Duration
		put(t, q, newJob(t, "one", func(ctx context.Context, _ *funcJob) {
			if !begun.IsZero() {
				return
			}
			begun = time.Now()
			<-ctx.Done()
			cause, ran = context.Cause(ctx), time.Since(begun)
		}))
		synctest.Wait()
		store.fail("Extend")
		pass(time.Hour)
		require.ErrorIs(t, cause, amboy.ErrLeaseLost)
		assert.Less(t, ran, time.Minute, "the lock timeout")
		assert.Greater(t, ran, 50*time.Second, "the run was given up too early")
	})
}

func TestAProcessTakesOverAJobThatItRunsItself(t *testing.T) {
	onDurable(t, func(t *testing.T, store *spy) {
		q := startEngine(t, store, 2)
		defer q.Close(context.Background())
		var live, most, runs atomic.Int64
		release := make(chan struct{})
		put(t, q, newJob(t, "deaf", func(context.Context, *funcJob) {
			most.Store(max(most.Load(), live.Add(1)))
			defer live.Add(-1)
			if runs.Add(1) == 1 {
				<-release // it ignores its context
			}
		}))
		synctest.Wait()
		store.fail("Extend")
		pass(10 * time.Minute)
		assert.Equal(t, int64(1), runs.Load(), "the process recovered a lease whose run has not returned")
		store.heal()
		close(release)
		pass(10 * time.Minute)
		assert.Equal(t, int64(1), most.Load())
		assert.Equal(t, 1, q.Stats(t.Context()).Completed)
	})
}

// refusing is a driver that refuses any Complete call, as a whole, that contains one of
// some jobs.
type refusing struct {
	*spy
	poison string
}

func (d *refusing) Complete(ctx context.Context, completions []driver.Completion) ([]error, error) {
	if slices.ContainsFunc(completions, func(c driver.Completion) bool { return c.Record.JobID() == d.poison }) {
		return nil, errCut
	}
	return d.spy.Complete(ctx, completions)
}

func TestOneRefusedEndKeepsTheOthersFromBeingWritten(t *testing.T) {
	onDurable(t, func(t *testing.T, store *spy) {
		q := startEngine(t, &refusing{store, "poison"}, 20)
		defer q.Close(ended())
		release := make(chan struct{})
		for _, id := range append(ids("good", 19), "poison") {
			put(t, q, newJob(t, id, func(context.Context, *funcJob) { <-release }))
		}
		synctest.Wait()
		close(release)
		pass(time.Second)
		assert.Equal(t, 19, q.Stats(t.Context()).Completed)
		for _, id := range ids("later", 100) {
			put(t, q, noop(t, id))
		}
		pass(time.Second)
		assert.Equal(t, 119, q.Stats(t.Context()).Completed)
	})
}

func TestEndsWaitLongAfterTheStoreHasReturned(t *testing.T) {
	onDurable(t, func(t *testing.T, store *spy) {
		q := startEngine(t, store, 20)
		defer q.Close(ended())
		release := make(chan struct{})
		for _, id := range ids("job", 20) {
			put(t, q, newJob(t, id, func(context.Context, *funcJob) { <-release }))
		}
		synctest.Wait()
		store.fail("Complete")
		close(release)
		pass(10 * time.Minute)
		assert.Zero(t, q.Stats(t.Context()).Completed)
		store.heal()
		pass(time.Second)
		assert.Equal(t, 20, q.Stats(t.Context()).Completed)
	})
}

func TestAClaimThatArrivesAfterItsLeaseIsRun(t *testing.T) {
	onDurable(t, func(t *testing.T, store *spy) {
		late := &lateClaims{spy: store}
		late.next.Store(int64(3 * time.Minute)) // three leases
		q := startEngine(t, late, 1)
		defer q.Close(context.Background())
		var begun time.Time
		put(t, q, newJob(t, "one", func(context.Context, *funcJob) { begun = time.Now() }))
		require.True(t, amboy.WaitJob(day(t), jobOf(t, q, "one"), q))
		pass(10 * time.Minute)
		assert.Positive(t, store.count("Release"), "the job was handed back unrun")
		got := jobOf(t, q, "one")
		assert.False(t, got.TimeInfo().Start.Before(begun.Add(-time.Second)), "the job ran under the lease of a claim that was answered too late")
	})
}

// lateClaims is a driver that answers the next successful claim late, even after its
// context has ended.
type lateClaims struct {
	*spy
	next atomic.Int64
}

func (d *lateClaims) Claim(ctx context.Context, req driver.ClaimRequest) (driver.Claimed, error) {
	claimed, err := d.spy.Claim(ctx, req)
	if len(claimed.Records) > 0 {
		time.Sleep(time.Duration(d.next.Swap(0)))
	}
	return claimed, err
}

func TestCloseLeavesTheLeaseOfAClaimThatWasUnderWay(t *testing.T) {
	onDurable(t, func(t *testing.T, store *spy) {
		late := &lateClaims{spy: store}
		late.next.Store(int64(100 * time.Millisecond))
		q := startEngine(t, late, 1)
		put(t, q, noop(t, "one"))
		synctest.Wait()
		q.Close(ended())
		stats, err := store.Stats(t.Context(), "")
		require.NoError(t, err)
		assert.Zero(t, stats.Running, "the job is leased to a closed queue")
	})
}

func TestAClaimThatNeverReturnsKeepsAllWorkers(t *testing.T) {
	onDurable(t, func(t *testing.T, store *spy) {
		q := startEngine(t, store, 4)
		var hangs atomic.Bool
		stuck := make(chan struct{})
		store.do(func(_ context.Context, call string) error {
			if call == "Claim" && !hangs.Swap(true) {
				<-stuck
			}
			return nil
		})
		put(t, q, noop(t, "one"))
		pass(10 * time.Second)
		assert.Equal(t, 1, q.Stats(t.Context()).Completed)
		close(stuck)
		q.Close(t.Context())
	})
}

func TestLeasesAreRecoveredBeforeTheirHoldersCanRenewThem(t *testing.T) {
	onDurable(t, func(t *testing.T, store *spy) {
		const heartbeat = 15 * time.Second
		q := startEngine(t, store, 1)
		defer q.Close(ended())
		put(t, q, newJob(t, "one", func(ctx context.Context, _ *funcJob) { <-ctx.Done() }))
		synctest.Wait()
		pass(time.Minute)
		store.fail()
		pass(40 * time.Second) // less than a lease
		store.heal()
		back := time.Now()
		var mu sync.Mutex
		calls := map[string]time.Duration{}
		store.do(func(_ context.Context, call string) error {
			mu.Lock()
			defer mu.Unlock()
			if _, ok := calls[call]; !ok {
				calls[call] = time.Since(back)
			}
			return nil
		})
		pass(time.Minute)
		mu.Lock()
		defer mu.Unlock()
		assert.Less(t, calls["Extend"], heartbeat)
		assert.GreaterOrEqual(t, calls["RecoverStale"], heartbeat, "all holders have had the time to renew")
	})
}

// silent is a driver that declares notifications, but loses all of them.
type silent struct{ *spy }

func (silent) Subscribe(func(driver.Change)) (cancel func()) { return func() {} }

func TestAJobWhoseNotificationWasLostNeverRan(t *testing.T) {
	onDurable(t, func(t *testing.T, store *spy) {
		q := startEngine(t, silent{store}, 1)
		defer q.Close(context.Background())
		pass(time.Hour)
		j := noop(t, "one")
		_, err := store.Insert(t.Context(), []*driver.Record{recordOf(t, "", j)})
		require.NoError(t, err)
		pass(45 * time.Second)
		assert.Equal(t, 1, q.Stats(t.Context()).Completed)
	})
}

func TestRecoveryEndsWithARemovalThatNeverReturns(t *testing.T) {
	onDurable(t, func(t *testing.T, store *spy) {
		q := startEngine(t, store, 1)
		stuck := make(chan struct{})
		store.do(func(_ context.Context, call string) error {
			if call == "TakeDuty" {
				<-stuck
			}
			return nil
		})
		pass(time.Minute)
		before := store.count("RecoverStale")
		pass(10 * time.Minute)
		assert.Equal(t, before+40, store.count("RecoverStale"), "one per heartbeat")
		close(stuck)
		q.Close(t.Context())
	})
}

func TestAQueuePollsLessOftenThanItsPollInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newSpy(newStore(t))
		store.deaf = true
		q := startEngine(t, store, 1)
		defer q.Close(context.Background())
		pass(time.Second)
		store.reset()
		pass(time.Hour)
		assert.GreaterOrEqual(t, store.count("Claim"), 3600, "polls are at most one second apart")
		assert.LessOrEqual(t, store.count("Claim"), 7200, "polls are at least half a second apart")
	})
}

// stingy is a driver that returns one result fewer than it was given items.
type stingy struct{ *spy }

func (d *stingy) Complete(ctx context.Context, completions []driver.Completion) ([]error, error) {
	errs, err := d.spy.Complete(ctx, completions)
	if len(errs) > 1 {
		errs = errs[1:]
	}
	return errs, err
}

func TestADriverWithTooFewResultsLeavesARunBehind(t *testing.T) {
	onDurable(t, func(t *testing.T, store *spy) {
		q := startEngine(t, &stingy{store}, 4)
		defer q.Close(context.Background())
		release := make(chan struct{})
		for _, id := range ids("job", 4) {
			put(t, q, newJob(t, id, func(context.Context, *funcJob) { <-release }))
		}
		synctest.Wait()
		close(release)
		pass(time.Minute)
		assert.Equal(t, 4, q.Stats(t.Context()).Completed)
		put(t, q, noop(t, "later"))
		pass(time.Second)
		assert.Equal(t, 5, q.Stats(t.Context()).Completed, "the worker is free again")
	})
}

// The stuck job has the only worker of the queue.
func TestAStuckJobKeepsItsScopeAndFreesItsWorker(t *testing.T) {
	onDurable(t, func(t *testing.T, store *spy) {
		q := startEngine(t, store, 1)
		defer q.Close(context.Background())
		release := make(chan struct{})
		stuck := newJob(t, "stuck", func(context.Context, *funcJob) { <-release })
		stuck.UpdateTimeInfo(amboy.JobTimeInfo{MaxTime: time.Second})
		stuck.SetScopes([]string{"scope"})
		var other time.Time
		same := newJob(t, "same scope", func(context.Context, *funcJob) { other = time.Now() })
		same.SetScopes([]string{"scope"})
		put(t, q, stuck)
		synctest.Wait()
		put(t, q, same)
		began, next := time.Now(), time.Time{}
		put(t, q, newJob(t, "next", func(context.Context, *funcJob) { next = time.Now() }))
		pass(10 * time.Minute)
		require.False(t, next.IsZero(), "the job never started")
		assert.LessOrEqual(t, next.Sub(began), time.Second+pool.StuckGrace+time.Second)
		assert.Zero(t, other, "the scope is held while the job runs")
		info := infoOf(t, q, "stuck")
		require.NotNil(t, info.Stuck())
		assert.Contains(t, info.Stuck().Stack, "queue_test", "the stack of the job")
		close(release)
		pass(time.Second)
		assert.NotZero(t, other)
		assert.Equal(t, 3, q.Stats(t.Context()).Completed)
		assert.Nil(t, infoOf(t, q, "stuck").Stuck(), "the job has ended")
	})
}

// TestStuckJobsOfAGroupKeepAllOthersFromStarting has as many stuck jobs as may run at
// once.
func TestStuckJobsOfAGroupKeepAllOthersFromStarting(t *testing.T) {
	onDurable(t, func(t *testing.T, store *spy) {
		group := newDriverGroup(t, store, func(o *queue.DriverGroupOptions) {
			o.Workers = 2
			o.DefaultQueue.NumWorkers = 2
		})
		release := make(chan struct{})
		defer close(release)
		stuck, quiet := open(t, group, "stuck"), open(t, group, "quiet")
		for _, id := range ids("stuck", 2) {
			j := newJob(t, id, func(context.Context, *funcJob) { <-release })
			j.UpdateTimeInfo(amboy.JobTimeInfo{MaxTime: time.Second})
			put(t, stuck, j)
		}
		synctest.Wait()
		began, next := time.Now(), time.Time{}
		put(t, quiet, newJob(t, "next", func(context.Context, *funcJob) { next = time.Now() }))
		pass(time.Minute)
		require.False(t, next.IsZero(), "the job never started")
		assert.LessOrEqual(t, next.Sub(began), time.Second+pool.StuckGrace+time.Second)
	})
}

func TestAnAbandonedRunEndsTheJobThatRunsAgain(t *testing.T) {
	onDurable(t, func(t *testing.T, store *spy) {
		q := startEngine(t, store, 2)
		defer q.Close(context.Background())
		release := make(chan struct{})
		var causes []error
		runs := 0
		j := newJob(t, "stuck", func(ctx context.Context, j *funcJob) {
			runs++
			if runs == 1 {
				<-release
				causes = append(causes, context.Cause(ctx))
				j.AddError(errCut)
			}
		})
		j.SetScopes([]string{"scope"})
		put(t, q, j)
		synctest.Wait()
		same := noop(t, "same scope")
		same.SetScopes([]string{"scope"})
		put(t, q, same)
		admin, _ := queue.StoreOf(q)
		record, err := admin.Admin().Get(t.Context(), admin.Queues()[0], "stuck")
		require.NoError(t, err)
		require.NoError(t, admin.Abandon(t.Context(), []*driver.Record{record})[0])
		require.ErrorIs(t, admin.Abandon(t.Context(), []*driver.Record{record})[0], amboy.ErrLeaseLost, "the lease belongs to another run")
		pass(time.Second)
		assert.Equal(t, 2, runs)
		assert.Equal(t, 2, q.Stats(t.Context()).Completed, "including the job that waited for the scope")
		close(release)
		pass(time.Second)
		assert.Equal(t, []error{amboy.ErrLeaseLost}, causes)
		assert.Equal(t, amboy.StateSucceeded, infoOf(t, q, "stuck").State, "the end of the abandoned run is refused")
	})
}

// progressSpy intercepts the calls that store the progress of a job.
type progressSpy struct {
	*spy
	setProgress func(ctx context.Context) error
}

func (d progressSpy) SetProgress(ctx context.Context, _ driver.Lease, _ driver.Progress) error {
	return d.setProgress(ctx)
}

// The lease of a job whose progress could not be stored was renewed for ever.
func TestASnoozedJobWhoseProgressCanNotBeStoredDidNotRunAgain(t *testing.T) {
	for name, setProgress := range map[string]func(ctx context.Context) error{
		"because the driver panics": func(context.Context) error { panic("the driver is broken") },
		"because the store does not answer": func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		},
	} {
		t.Run(name, func(t *testing.T) {
			onDurable(t, func(t *testing.T, store *spy) {
				q := startEngine(t, progressSpy{store, setProgress}, 1)
				defer q.Close(ended())
				var runs atomic.Int64
				put(t, q, newJob(t, "one", func(_ context.Context, j *funcJob) {
					if runs.Add(1) == 1 {
						j.SetProgress(amboy.JobProgress{Fraction: 0.5})
						j.Snooze(time.Now().Add(time.Minute))
					}
				}))
				pass(10 * time.Minute)
				assert.EqualValues(t, 2, runs.Load())
			})
		})
	}
}

// The time at which a lease ends overflowed, so that all runs were handed back as too late.
func TestALockTimeoutOfCenturiesLetNoJobRun(t *testing.T) {
	onDurable(t, func(t *testing.T, store *spy) {
		q, err := queue.NewDriverQueue(queue.DriverQueueOptions{Driver: store, NumWorkers: 1, LockTimeout: math.MaxInt64})
		require.NoError(t, err)
		require.NoError(t, q.Start(t.Context()))
		defer q.Close(ended())
		pass(time.Minute)
		put(t, q, noop(t, "one"))
		require.True(t, amboy.WaitJob(within(t), noop(t, "one"), q))
	})
}

// The guide to retries promises that a job which was interrupted by a hard stop runs again.
func TestAJobThatStartedInTimeExpiredAfterAStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newStore(t)
		runs, running := 0, make(chan struct{})
		j := newJob(t, "long", func(ctx context.Context, _ *funcJob) {
			runs++
			if runs == 1 {
				close(running)
				<-ctx.Done()
			}
		})
		j.UpdateTimeInfo(amboy.JobTimeInfo{DispatchBy: time.Now().Add(time.Minute)})
		first := startEngine(t, store, 1)
		put(t, first, j)
		<-running
		pass(time.Hour)
		stopped, cancel := context.WithCancel(t.Context())
		cancel()
		first.Close(stopped)
		next := startEngine(t, store, 1)
		defer next.Close(context.Background())
		drain(t, next)
		assert.Equal(t, 2, runs)
		assert.Equal(t, amboy.StateSucceeded, infoOf(t, next, "long").State)
	})
}

// The same for a job that has lost its lease.
func TestAJobThatStartedInTimeExpiredAfterItsProcessDied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newStore(t)
		runs := 0
		j := newJob(t, "long", func(context.Context, *funcJob) { runs++ })
		late := newJob(t, "late", func(context.Context, *funcJob) { assert.Fail(t, "it had not started in time") })
		for _, one := range []*funcJob{j, late} {
			one.UpdateTimeInfo(amboy.JobTimeInfo{DispatchBy: time.Now().Add(time.Minute)})
		}
		first := newTestEngine(t, store, 1)
		defer first.Close(context.Background())
		put(t, first, j, late)
		claimed, err := store.Claim(t.Context(), driver.ClaimRequest{
			Owner: "dead", Queues: []driver.Demand{{Limit: 1}}, Limit: 1, Now: time.Now(), LeaseTime: time.Minute,
		})
		require.NoError(t, err)
		require.Len(t, claimed.Records, 1)
		pass(time.Hour)
		require.NoError(t, first.Start(t.Context()))
		drain(t, first)
		assert.Equal(t, 1, runs)
		assert.Equal(t, amboy.StateSucceeded, infoOf(t, first, "long").State)
		assert.Equal(t, amboy.StateExpired, infoOf(t, first, "late").State)
	})
}
