package queue_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue"
	"github.com/mongodb/amboy/registry"
)

func limitType(t *testing.T, q amboy.Queue, jobType string, limit amboy.TypeLimit) {
	t.Helper()
	require.NoError(t, amboy.LimitType(t.Context(), q, jobType, limit))
}

const otherFuncJobType = "other func"

func init() {
	registry.AddJobType(otherFuncJobType, func() amboy.Job {
		j := newFuncJob()
		j.JobType.Name = otherFuncJobType
		return j
	})
}

// newOtherJob returns a job of another type that runs a function.
func newOtherJob(t *testing.T, id string, run func(context.Context, *funcJob)) *funcJob {
	t.Helper()
	j := newJob(t, id, run)
	j.JobType.Name = otherFuncJobType
	return j
}

// atOnce records how many jobs run at the same time.
type atOnce struct {
	mu               sync.Mutex
	running, most, n int
}

// run takes a second.
func (a *atOnce) run(context.Context, *funcJob) {
	a.mu.Lock()
	a.running++
	a.n++
	a.most = max(a.most, a.running)
	a.mu.Unlock()
	time.Sleep(time.Second) // of the test's clock
	a.mu.Lock()
	defer a.mu.Unlock()
	a.running--
}

// counts returns how many jobs have begun, and how many ran at the same time.
func (a *atOnce) counts() (begun, most int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.n, a.most
}

// requireCounts requires what counts returns.
func (a *atOnce) requireCounts(t *testing.T, begun, most int) {
	t.Helper()
	n, together := a.counts()
	require.Equal(t, begun, n, "jobs that have begun")
	require.Equal(t, most, together, "jobs at the same time")
}

// TestLimitedTypeRunsBesideOthers puts two jobs of a limited type before two others.
func TestLimitedTypeRunsBesideOthers(t *testing.T) {
	for name, build := range kinds {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := build(t, 4, 100)
				limitType(t, q, funcJobType, amboy.TypeLimit{MaxRunning: 1})
				require.NoError(t, q.Start(t.Context()))
				defer q.Close(context.Background())
				var limited, others atOnce
				require.NoError(t, q.PutMany(t.Context(), []amboy.Job{
					newJob(t, "a", limited.run), newJob(t, "b", limited.run),
					newOtherJob(t, "c", others.run), newOtherJob(t, "d", others.run),
				}))
				pass(500 * time.Millisecond)
				limited.requireCounts(t, 1, 1)
				others.requireCounts(t, 2, 2)
				pass(time.Minute)
				limited.requireCounts(t, 2, 1)
				assert.Equal(t, amboy.TypeLimit{MaxRunning: 1}, control(t, q).Types[funcJobType])
				limitType(t, q, funcJobType, amboy.TypeLimit{})
				assert.Nil(t, control(t, q).Types)
			})
		})
	}
}

// TestEachTypeStartsJobsAtItsRate requires that each start comes as soon as its token.
func TestEachTypeStartsJobsAtItsRate(t *testing.T) {
	onEachFaked(t, 100, func(t *testing.T, q amboy.Queue) {
		limitType(t, q, funcJobType, amboy.TypeLimit{Rate: &amboy.Rate{PerSecond: 0.5, Burst: 1}})
		s := newStartTimes()
		require.NoError(t, q.PutMany(t.Context(), s.jobs(t, "job", 4)))
		pass(time.Minute)
		require.Len(t, s.all(), 4)
		for i, at := range s.all() {
			assert.InDelta(t, float64(2*i), at.Seconds(), 0.03)
		}
		limitType(t, q, funcJobType, amboy.TypeLimit{Rate: &amboy.Rate{}})
		require.NoError(t, q.PutMany(t.Context(), s.jobs(t, "more", 2)))
		pass(time.Hour)
		assert.Len(t, s.all(), 4, "a rate of 0 starts nothing")
		limitType(t, q, funcJobType, amboy.TypeLimit{})
		pass(time.Millisecond)
		assert.Len(t, s.all(), 6, "no limit")
	})
}

func TestInvalidLimitOfATypeIsRefused(t *testing.T) {
	onEach(t, 1, 10, func(t *testing.T, q amboy.Queue) {
		err := amboy.LimitType(t.Context(), q, "a", amboy.TypeLimit{MaxRunning: -1})
		require.ErrorContains(t, err, "MaxRunning must not be negative (is -1)")
		require.ErrorContains(t, err, q.ID())
		require.ErrorContains(t, amboy.LimitType(t.Context(), q, "", amboy.TypeLimit{}), "the type must have from 1 to 512 bytes (has 0)")
		for i := range amboy.MaxTypeLimits {
			limitType(t, q, fmt.Sprint(i), amboy.TypeLimit{MaxRunning: 1})
		}
		require.ErrorContains(t, amboy.LimitType(t.Context(), q, "more", amboy.TypeLimit{MaxRunning: 1}), "at most 100 types")
		assert.Len(t, control(t, q).Types, amboy.MaxTypeLimits)
	})
}

// TestLimitOfATypeHoldsOverAllProcesses has three engines. The first sets the limit when it starts,
// and the end of a job in one of them lets a job start in another.
func TestLimitOfATypeHoldsOverAllProcesses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newStore(t)
		var running atOnce
		for i := range 3 {
			opts := queue.DriverQueueOptions{Driver: store, Format: amboy.JSON, NumWorkers: 1, LockTimeout: time.Minute, PollInterval: time.Minute}
			if i == 0 {
				opts.TypeLimits = map[string]amboy.TypeLimit{funcJobType: {MaxRunning: 2}}
			}
			q, err := queue.NewDriverQueue(opts)
			require.NoError(t, err)
			require.NoError(t, q.Start(t.Context()))
			t.Cleanup(func() { q.Close(context.Background()) })
			if i == 2 {
				for _, id := range ids("job", 10) {
					require.NoError(t, q.Put(t.Context(), newJob(t, id, running.run)))
				}
			}
		}
		pass(5*time.Second + 100*time.Millisecond)
		running.requireCounts(t, 10, 2) // two each second
	})
}
