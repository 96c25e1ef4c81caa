package queue_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue"
	"github.com/mongodb/amboy/queue/driver"
)

func TestRetentionValidate(t *testing.T) {
	r := queue.Retention{Succeeded: time.Hour, Failed: queue.KeepForever}
	require.NoError(t, r.Validate())
	assert.Equal(t, queue.Retention{
		Succeeded: time.Hour,
		Failed:    queue.KeepForever,
		Canceled:  queue.DefaultKeepOthers,
		Expired:   queue.DefaultKeepOthers,
	}, r)
	bad := queue.Retention{Succeeded: -2, Failed: -3, Canceled: -time.Second, Expired: -5}
	err := bad.Validate()
	for _, text := range []string{
		"invalid retention: Succeeded must be positive, 0 for the default or KeepForever (is -2ns)",
		"Failed must be", "Canceled must be", "Expired must be",
	} {
		require.ErrorContains(t, err, text)
	}
	_, err = queue.NewDriverQueue(queue.DriverQueueOptions{Driver: newStore(t), NumWorkers: 1, Retention: bad})
	require.ErrorContains(t, err, "Succeeded must be positive")
}

// TestRetentionDependsOnTheOutcome ends one job in each way, and checks that it is removed
// at the next heartbeat after its retention. Retentions of days are checked by processes that
// start shortly before, because the heartbeats of a week take long. Such a process checks
// every hour for jobs that ended before its start.
func TestRetentionDependsOnTheOutcome(t *testing.T) {
	const dayLong, heartbeat, longestIdle = 24 * time.Hour, 150 * time.Second, 4 * time.Hour
	removedWithin := func(keep time.Duration) time.Duration {
		if keep > longestIdle {
			return time.Hour + heartbeat
		}
		return heartbeat
	}
	for name, test := range map[string]struct {
		retention queue.Retention
		keeps     map[string]time.Duration // 0 for ever
	}{
		"by default": {keeps: map[string]time.Duration{
			"succeeded": dayLong, "failed": 7 * dayLong, "canceled": 7 * dayLong, "expired": 7 * dayLong,
			"used up": 7 * dayLong,
		}},
		"for ever": {
			retention: queue.Retention{
				Succeeded: queue.KeepForever, Failed: queue.KeepForever, Canceled: queue.KeepForever, Expired: queue.KeepForever,
			},
			keeps: map[string]time.Duration{"succeeded": 0, "failed": 0, "canceled": 0, "expired": 0, "used up": 0},
		},
		"as set": {
			retention: queue.Retention{Succeeded: time.Minute, Failed: 2 * time.Hour, Canceled: 3 * time.Hour, Expired: 4 * time.Hour},
			keeps: map[string]time.Duration{
				"succeeded": time.Minute, "failed": 2 * time.Hour, "canceled": 3 * time.Hour, "expired": 4 * time.Hour,
				"used up": 2 * time.Hour,
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newStore(t)
				start := func() amboy.RetryableQueue {
					q, err := queue.NewDriverQueue(queue.DriverQueueOptions{
						Driver: store, Format: amboy.JSON, NumWorkers: 1, LockTimeout: 4 * heartbeat, Retention: test.retention,
					})
					require.NoError(t, err)
					require.NoError(t, q.Start(t.Context()))
					return q
				}
				q := start()
				defer func() { q.Close(context.Background()) }()
				fails := func(_ context.Context, j *funcJob) { j.AddRetryableError(errors.New("no luck")) }
				canceled := newJob(t, "canceled", func(ctx context.Context, j *funcJob) {
					<-ctx.Done()
					j.AddError(context.Cause(ctx))
				})
				expired := noop(t, "expired")
				expired.SetTimeInfo(amboy.JobTimeInfo{DispatchBy: time.Now().Add(time.Second)})
				put(t, q, canceled, expired)
				pass(2 * time.Second)
				cancelJob(t, store, "canceled")
				put(t, q, noop(t, "succeeded"), newJob(t, "failed", fails), retryable(newJob(t, "used up", fails), 2))
				require.True(t, amboy.Wait(day(t), q))
				ended := map[string]time.Time{}
				for info := range q.JobInfo(t.Context()) {
					assert.True(t, info.State.IsFinal(), "job %q is %s", info.ID, info.State)
					ended[info.ID] = info.Time.End
				}
				require.Len(t, ended, len(test.keeps))
				assert.Equal(t, 6, q.Stats(t.Context()).Completed, "one job has two attempts")

				there := func() map[string]bool {
					all := map[string]bool{}
					for info := range q.JobInfo(t.Context()) {
						all[info.ID] = true
					}
					return all
				}
				var moments []time.Duration // shortly before and after the removal of a job, and each day
				for days := range 9 {
					moments = append(moments, time.Duration(days)*dayLong)
				}
				for _, keep := range test.keeps {
					moments = append(moments, keep-time.Minute, keep+removedWithin(keep)+time.Second)
				}
				slices.Sort(moments)
				begun := time.Now()
				for _, moment := range moments {
					if idle := moment - time.Since(begun); idle > longestIdle {
						q.Close(t.Context())
						pass(idle - 2*heartbeat)
						q = start()
					}
					pass(max(0, moment-time.Since(begun)))
					left := there()
					for id, keep := range test.keeps {
						age := time.Since(ended[id])
						switch {
						case keep == 0 || age < keep:
							require.True(t, left[id], "job %q is missing after %s", id, age)
						case age > keep+removedWithin(keep):
							require.False(t, left[id], "job %q still exists after %s", id, age)
						}
					}
				}
				assert.Equal(t, 6, q.Stats(t.Context()).Completed, "removed jobs still count")
			})
		})
	}
}

// TestReplacedAttemptsGoBeforeTheLast has jobs that end in their second attempts.
func TestReplacedAttemptsGoBeforeTheLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newStore(t)
		q := startEngine(t, store, 1)
		defer func() { q.Close(context.Background()) }()
		// passInactive lets time pass without a queue, whose heartbeats would take long.
		passInactive := func(d time.Duration) {
			q.Close(t.Context())
			pass(d)
			q = startEngine(t, store, 1)
		}
		failsUntil := func(attempts int) func(context.Context, *funcJob) {
			return func(_ context.Context, j *funcJob) {
				if j.RetryInfo().CurrentAttempt < attempts {
					j.AddRetryableError(errors.New("no luck"))
				}
			}
		}
		put(t, q, retryable(newJob(t, "works", failsUntil(1)), 2), retryable(newJob(t, "fails", failsUntil(2)), 2))
		require.True(t, amboy.Wait(day(t), q))
		attempts := func() (left []string) {
			for info := range q.JobInfo(t.Context()) {
				left = append(left, fmt.Sprint(info.ID, " ", info.Retry.CurrentAttempt))
			}
			return left
		}
		passInactive(23 * time.Hour)
		pass(5 * time.Minute)
		assert.Len(t, attempts(), 4)
		pass(2 * time.Hour)
		assert.Equal(t, []string{"fails 1"}, attempts(), "the last attempt has the errors of all")
		got, ok := q.Get(t.Context(), "fails")
		require.True(t, ok)
		assert.Len(t, got.Status().Attempts, 3, "two failures, and the error that no attempts are left")
		passInactive(6*24*time.Hour - 3*time.Hour)
		pass(5 * time.Minute)
		assert.Equal(t, []string{"fails 1"}, attempts())
		pass(3 * time.Hour)
		assert.Empty(t, attempts())
		put(t, q, noop(t, "works"), noop(t, "fails"))
		require.True(t, amboy.Wait(day(t), q), "their IDs are free again")
	})
}

// TestManyJobsAreForgottenInOneRound removes more jobs than one call does.
func TestManyJobsAreForgottenInOneRound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const jobs = 2500
		store := newSpy(newStore(t))
		q, err := queue.NewDriverQueue(queue.DriverQueueOptions{
			Driver: store, Format: amboy.JSON, NumWorkers: 1, LockTimeout: time.Minute, Retention: queue.Retention{Succeeded: time.Hour},
		})
		require.NoError(t, err)
		require.NoError(t, q.Start(t.Context()))
		defer q.Close(context.Background())
		var all []amboy.Job
		for i := range jobs {
			j := newFuncJob()
			j.SetID(fmt.Sprint(i))
			all = append(all, j)
		}
		require.NoError(t, q.PutMany(t.Context(), all))
		require.True(t, amboy.Wait(day(t), q))
		pass(59 * time.Minute)
		store.reset()
		pass(2 * time.Minute)
		left, err := store.Count(t.Context(), driver.Query{}, jobs)
		require.NoError(t, err)
		assert.Zero(t, left)
		assert.LessOrEqual(t, store.count("Forget"), 2*4+3, "one call per heartbeat, and one per thousand jobs")
	})
}

// TestMaintenanceCostsLittle has several processes, which check for the leases of dead
// processes. One of them removes the jobs whose retention is over.
func TestMaintenanceCostsLittle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const heartbeat, processes, kept = 15 * time.Second, 5, 5 * time.Hour
		store := newStore(t)
		var spies []*spy
		var queues []amboy.Queue
		for range processes {
			seen := newSpy(store)
			q, err := queue.NewDriverQueue(queue.DriverQueueOptions{
				Driver: seen, Format: amboy.JSON, NumWorkers: 1, LockTimeout: 4 * heartbeat, Retention: queue.Retention{Succeeded: kept},
			})
			require.NoError(t, err)
			require.NoError(t, q.Start(t.Context()))
			t.Cleanup(func() { q.Close(context.Background()) })
			spies, queues = append(spies, seen), append(queues, q)
			pass(time.Second) // their heartbeats are not at the same time
		}
		// total returns the number of calls by all processes since it was last called.
		total := func(call string) (n int) {
			for _, seen := range spies {
				n += seen.count(call)
			}
			return n
		}
		reset := func() {
			for _, seen := range spies {
				seen.reset()
			}
		}
		pass(time.Hour)
		reset()
		pass(time.Hour)
		assert.Equal(t, processes*int(time.Hour/heartbeat), total("RecoverStale"), "each process, with each heartbeat")
		assert.LessOrEqual(t, total("Forget"), processes, "no retention is over")

		put(t, queues[0], noop(t, "one"))
		require.True(t, amboy.Wait(day(t), queues[0]))
		pass(heartbeat)
		reset()
		pass(kept - time.Hour)
		assert.LessOrEqual(t, total("Forget"), processes*int(kept/time.Hour))
		pass(time.Hour)
		_, err := store.Get(t.Context(), "", "one")
		assert.True(t, amboy.IsJobNotFoundError(err), "the job was removed when its retention was over: %v", err)
	})
}

// TestDeadProcessLeavesNothingForEver has a process that dies before the retention of its
// jobs is over, while it has the duty to remove them.
func TestDeadProcessLeavesNothingForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newStore(t)
		dying := newSpy(store)
		dead, alive := startEngine(t, dying, 1), startEngine(t, store, 1)
		defer alive.Close(context.Background())
		defer dead.Close(ended())
		put(t, dead, noop(t, "one"))
		require.True(t, amboy.Wait(day(t), dead))
		pass(24*time.Hour - time.Second)
		dying.fail()
		pass(2 * time.Hour)
		_, err := store.Get(t.Context(), "", "one")
		assert.True(t, amboy.IsJobNotFoundError(err), "another process checks every hour: %v", err)
	})
}

// TestJobOfADeadProcessRunsAgainInTime cuts off a process at different points between two
// of its heartbeats, with another process at different points between its own.
func TestJobOfADeadProcessRunsAgainInTime(t *testing.T) {
	const lease = time.Minute
	const heartbeat = lease / 4
	for _, isFirst := range []bool{true, false} {
		for _, phase := range []time.Duration{0, 1, heartbeat / 3, heartbeat / 2, heartbeat - 1} {
			t.Run(fmt.Sprintf("the first %t, %s after the other", isFirst, phase), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					store := newStore(t)
					dying := newSpy(store)
					blocker, started, release := holder(t, "blocker")
					var dead, alive amboy.Queue
					var runs moments
					one := newJob(t, "one", func(ctx context.Context, _ *funcJob) {
						if runs.add() == 1 {
							<-ctx.Done()
						}
					})
					if isFirst {
						dead = startEngine(t, dying, 1)
						put(t, dead, one)
						pass(phase)
						alive = startEngine(t, store, 1)
					} else {
						alive = startEngine(t, store, 1)
						put(t, alive, blocker) // so that the other gets the job
						<-started
						pass(phase)
						dead = startEngine(t, dying, 1)
						put(t, dead, one)
					}
					defer alive.Close(context.Background())
					defer dead.Close(ended())
					pass(10*heartbeat + 2*time.Second)
					require.Len(t, runs.all(), 1)
					r, err := store.Get(t.Context(), "", "one")
					require.NoError(t, err)
					lastHeartbeat := r.Status.ModificationTime
					dying.fail()
					release()
					require.True(t, amboy.Wait(day(t), alive))
					require.Len(t, runs.all(), 2)
					again := runs.all()[1].Sub(lastHeartbeat)
					assert.LessOrEqual(t, again, lease+heartbeat)
					assert.GreaterOrEqual(t, again, lease, "before the lease expired")
				})
			})
		}
	}
}

// moments records when something happened.
type moments struct {
	mu    sync.Mutex
	times []time.Time
}

func (m *moments) add() (n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.times = append(m.times, time.Now())
	return len(m.times)
}

func (m *moments) all() []time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.times)
}

// The search for the time span in which the retention ends did not end, and held a lock.
func TestARetentionOfCenturiesStoppedTheQueue(t *testing.T) {
	q, err := queue.NewDriverQueue(queue.DriverQueueOptions{
		Driver: newStore(t), NumWorkers: 1, Retention: queue.Retention{Succeeded: math.MaxInt64},
	})
	require.NoError(t, err)
	require.NoError(t, q.Start(t.Context()))
	defer q.Close(ended())
	put(t, q, noop(t, "one"))
	require.True(t, amboy.WaitJob(within(t), noop(t, "one"), q))
}
