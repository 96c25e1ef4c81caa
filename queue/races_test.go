package queue_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/dependency"
	"github.com/mongodb/amboy/pool"
	"github.com/mongodb/amboy/queue"
	"github.com/mongodb/amboy/queue/driver"
)

// TestJobPutTooLateNeverStarts has enough workers to take each job before the queue finds
// that it has expired.
func TestJobPutTooLateNeverStarts(t *testing.T) {
	onEach(t, 8, 1000, func(t *testing.T, q amboy.Queue) {
		var runs atomic.Int64
		for i := range 500 {
			j := newJob(t, fmt.Sprint(i), func(context.Context, *funcJob) { runs.Add(1) })
			j.SetTimeInfo(amboy.JobTimeInfo{DispatchBy: time.Now().Add(-time.Millisecond)})
			put(t, q, j)
		}
		drain(t, q)
		assert.Zero(t, runs.Load())
		assert.Equal(t, amboy.StateExpired, infoOf(t, q, "0").State)
	})
}

func TestStartAndCloseAtOnce(t *testing.T) {
	for name, build := range kinds {
		t.Run(name, func(t *testing.T) {
			for range 100 {
				q := build(t, 2, 10)
				var both sync.WaitGroup
				both.Go(func() {
					if err := q.Start(t.Context()); err == nil {
						_ = q.Put(t.Context(), noop(t, "one"))
					}
				})
				for range 2 {
					both.Go(func() { q.Close(context.Background()) })
				}
				both.Wait()
				q.Close(context.Background())
				assert.False(t, q.Info().Started)
				require.ErrorIs(t, q.Put(t.Context(), noop(t, "two")), amboy.ErrQueueClosed)
			}
		})
	}
}

func TestRefusedReleaseChangesNothing(t *testing.T) {
	onEach(t, 1, 10, func(t *testing.T, q amboy.Queue) {
		j := newJob(t, "one", func(_ context.Context, j *funcJob) { j.AddError(errors.New("no luck")) })
		put(t, q, j)
		drain(t, q)
		ended, _ := q.Get(within(t), "one")
		require.ErrorIs(t, q.(amboy.JobReleaser).Release(within(t), ended), amboy.ErrLeaseLost)
		got, _ := q.Get(within(t), "one")
		assert.Equal(t, amboy.StateFailed, amboy.NewJobInfo(got).State)
	})
}

// statsHook calls a function after each Stats, before the caller gets the result.
type statsHook struct {
	driver.Driver
	after atomic.Pointer[func(amboy.QueueStats)]
}

func (d *statsHook) Stats(ctx context.Context, name string) (amboy.QueueStats, error) {
	stats, err := d.Driver.Stats(ctx, name)
	if after := d.after.Load(); after != nil {
		(*after)(stats)
	}
	return stats, err
}

// TestWaitDoesNotEndBeforeANewJob puts a job and waits for it after the queue was found idle,
// but before the waiters were woken.
func TestWaitDoesNotEndBeforeANewJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hooked := &statsHook{Driver: newStore(t)}
		q := startEngine(t, hooked, 2)
		defer q.Close(context.Background())
		release := make(chan struct{})
		first := script(t, "first", func(context.Context, *scripted) { <-release })
		var ended atomic.Bool
		second := script(t, "second", func(context.Context, *scripted) {
			<-time.After(time.Minute)
			ended.Store(true)
		})
		require.NoError(t, q.Put(t.Context(), first))
		go amboy.Wait(t.Context(), q)
		synctest.Wait()

		waited := make(chan bool)
		var putErr error
		hook := func(stats amboy.QueueStats) {
			if !stats.IsIdle() {
				return
			}
			hooked.after.Store(nil)
			putErr = q.Put(t.Context(), second)
			go func() { waited <- amboy.Wait(t.Context(), q) }()
			synctest.Wait()
		}
		hooked.after.Store(&hook)
		close(release)
		assert.True(t, <-waited)
		require.NoError(t, putErr)
		assert.True(t, ended.Load(), "the job that was put before the wait has not ended")
	})
}

// TestJobThatBecomesRetryable becomes retryable during its run, which changes the name
// under which a job is stored.
func TestJobThatBecomesRetryable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := startEngine(t, newStore(t), 1)
		defer q.Close(context.Background())
		j := script(t, "one", func(_ context.Context, j *scripted) {
			retried(j, 2, 0)
			j.AddRetryableError(errors.New("once more"))
		})
		require.NoError(t, q.Put(t.Context(), j))
		require.True(t, amboy.WaitJob(day(t), j, q))
		require.NoError(t, q.Put(t.Context(), script(t, "two", func(context.Context, *scripted) {})))
		require.True(t, amboy.Wait(day(t), q))
		got, ok := q.Get(t.Context(), "one")
		require.True(t, ok)
		require.Error(t, got.Error())
	})
}

// losing is a driver that fails to extend leases, or loses the leases of one job.
type losing struct {
	driver.Driver
	fails atomic.Bool
	lost  string
}

func (d *losing) Extend(ctx context.Context, leases []driver.Lease, leaseTime time.Duration) ([]driver.Lease, error) {
	if d.fails.Load() {
		return nil, errors.New("the store can't be reached")
	}
	i := slices.IndexFunc(leases, func(l driver.Lease) bool { return l.Name == d.lost })
	if i < 0 {
		return d.Driver.Extend(ctx, leases, leaseTime)
	}
	lost, err := d.Driver.Extend(ctx, slices.Delete(slices.Clone(leases), i, i+1), leaseTime)
	return append(lost, leases[i]), err
}

// TestLeaseIsRenewedBesideALostOne runs a job that continues after its lease was lost,
// and then another job.
func TestLeaseIsRenewedBesideALostOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &losing{Driver: newStore(t), lost: "stubborn"}
		q := startEngine(t, store, 2)
		defer q.Close(context.Background())
		lasts := func(context.Context, *scripted) { <-time.After(90 * time.Second) }
		require.NoError(t, q.Put(t.Context(), script(t, "stubborn", lasts)))
		<-time.After(40 * time.Second)
		require.NoError(t, q.Put(t.Context(), script(t, "long", lasts)))
		<-time.After(70 * time.Second)
		long, err := store.Get(t.Context(), "", "long")
		require.NoError(t, err)
		assert.Less(t, time.Since(long.Status.ModificationTime), 20*time.Second)
	})
}

// TestSecondRunInTheSameQueue lets a worker take over a job from another worker of the
// same queue.
func TestSecondRunInTheSameQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &losing{Driver: newStore(t)}
		q := startEngine(t, store, 2)
		defer q.Close(context.Background())
		var runs atomic.Int64
		var cause error
		require.NoError(t, q.Put(t.Context(), script(t, "one", func(ctx context.Context, j *scripted) {
			if runs.Add(1) == 1 {
				<-ctx.Done()
				cause = context.Cause(ctx)
				j.AddError(errors.New("from the first run"))
				return
			}
			<-time.After(time.Hour)
		})))
		synctest.Wait()
		store.fails.Store(true)
		<-time.After(100 * time.Second) // the lease of the first run has expired, that of the second has not
		store.fails.Store(false)
		require.Equal(t, int64(2), runs.Load())
		require.True(t, amboy.Wait(day(t), q))
		require.ErrorIs(t, cause, amboy.ErrLeaseLost)
		got, _ := q.Get(t.Context(), "one")
		require.NoError(t, got.Error(), "the first run wrote under the lease of the second")
		assert.Equal(t, int64(2), runs.Load())
	})
}

// TestWaitingForJobsThatEndedKeepsNothing waits for many jobs that have ended.
func TestWaitingForJobsThatEndedKeepsNothing(t *testing.T) {
	onEach(t, 2, 10, func(t *testing.T, q amboy.Queue) {
		const jobs, bytesEach = 3_000, 64
		ctx := long(t)
		heap := func() int64 {
			var stats runtime.MemStats
			runtime.GC()
			runtime.GC()
			runtime.ReadMemStats(&stats)
			return int64(stats.HeapAlloc)
		}
		before := heap()
		for i := range jobs {
			j := newFuncJob()
			j.SetID(fmt.Sprint("job-", i))
			require.NoError(t, q.Put(ctx, j))
			amboy.WaitJob(ctx, j, q)
			amboy.WaitJob(ctx, j, q)
		}
		assert.Less(t, heap()-before, int64(jobs*bytesEach))
	})
}

// slowManager calls the test to decide whether its job may run.
type slowManager struct {
	dependency.Always
	state func() dependency.State
}

func (m *slowManager) State() dependency.State { return m.state() }

// TestJobCompletedWhileItsDependencyIsChecked completes a job by hand after a worker took
// it, and before its dependency answers.
func TestJobCompletedWhileItsDependencyIsChecked(t *testing.T) {
	for _, answer := range []dependency.State{dependency.Blocked, dependency.Ready, dependency.Unresolved, dependency.Passed} {
		t.Run(answer.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := queue.NewLocalLimitedSize(1, 10)
				require.NoError(t, q.Start(t.Context()))
				defer q.Close(context.Background())
				j := newJob(t, "one", func(context.Context, *funcJob) { t.Error("the job had ended and runs") })
				proceed := make(chan struct{})
				j.SetDependency(&slowManager{Always: dependency.MakeAlways(), state: func() dependency.State {
					<-proceed
					return answer
				}})
				require.NoError(t, q.Put(t.Context(), j))
				synctest.Wait()
				require.NoError(t, q.Complete(t.Context(), j))
				close(proceed)
				<-time.After(time.Hour)
				assert.Equal(t, amboy.QueueStats{Completed: 1, Total: 1}, q.Stats(t.Context()))
			})
		})
	}
}

// panicky is a driver whose first claim panics.
type panicky struct {
	driver.Driver
	once sync.Once
}

func (d *panicky) Claim(ctx context.Context, req driver.ClaimRequest) (driver.Claimed, error) {
	d.once.Do(func() { panic("as planned") })
	return d.Driver.Claim(ctx, req)
}

func TestDriverThatPanicsIsCalledAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := startEngine(t, &panicky{Driver: newStore(t)}, 2)
		defer q.Close(context.Background())
		require.NoError(t, q.Put(t.Context(), script(t, "one", func(context.Context, *scripted) {})))
		require.True(t, amboy.Wait(day(t), q))
	})
}

// claimHook calls a function before the first claim of two records returns.
type claimHook struct {
	driver.Driver
	before func()
	once   sync.Once
}

func (d *claimHook) Claim(ctx context.Context, req driver.ClaimRequest) (driver.Claimed, error) {
	claimed, err := d.Driver.Claim(ctx, req)
	if len(claimed.Records) == 2 {
		d.once.Do(d.before)
	}
	return claimed, err
}

// TestRecordWithoutAWorker claims a record for a worker that is retired meanwhile, while
// the other worker has a long job.
func TestRecordWithoutAWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hooked := &claimHook{Driver: newStore(t)}
		q := newTestEngine(t, hooked, 2)
		runner := pool.NewLocalWorkers(2, q).(amboy.ResizableRunner)
		require.NoError(t, q.SetRunner(runner))
		var resizeErr error
		hooked.before = func() {
			resizeErr = runner.SetWorkers(1)
			synctest.Wait()
		}
		require.NoError(t, q.Start(t.Context()))
		defer q.Close(context.Background())
		synctest.Wait()
		var runs atomic.Int64
		var jobs []amboy.Job
		for i := range 2 {
			jobs = append(jobs, script(t, fmt.Sprint(i), func(context.Context, *scripted) {
				runs.Add(1)
				<-time.After(time.Hour)
			}))
		}
		require.NoError(t, q.PutMany(t.Context(), jobs))
		<-time.After(30 * time.Minute)
		other := startEngine(t, hooked.Driver, 1)
		defer other.Close(context.Background())
		require.True(t, amboy.Wait(day(t), q))
		require.NoError(t, resizeErr)
		assert.Equal(t, int64(2), runs.Load(), "each job runs once")
		assert.Equal(t, 2, q.Stats(t.Context()).Completed)
	})
}

// TestWaitingPutsAreServedInOrder fills a queue, so that Puts wait.
func TestWaitingPutsAreServedInOrder(t *testing.T) {
	onEachFaked(t, 1, func(t *testing.T, q amboy.Queue) {
		var order journal
		blocker, started, release := holder(t, "blocker")
		put(t, q, blocker)
		<-started
		put(t, q, recorded(t, &order, "first"))
		for i := range 20 {
			go func() { assert.NoError(t, q.Put(t.Context(), recorded(t, &order, fmt.Sprint(i)))) }()
			synctest.Wait()
		}
		release()
		synctest.Wait()
		assert.Equal(t, append([]string{"first"}, ids("", 20)...), order.all())
	})
}
