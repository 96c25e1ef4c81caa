package pool_test

import (
	"context"
	"fmt"
	"runtime/pprof"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/pool"
)

// stuckQueue records reports of stuck jobs.
type stuckQueue struct {
	*leasingQueue
	mu    sync.Mutex
	stuck map[string]amboy.StuckRun
	err   error
}

func newStuckQueue() *stuckQueue {
	return &stuckQueue{leasingQueue: newLeasingQueue(), stuck: map[string]amboy.StuckRun{}}
}

func (q *stuckQueue) ReportStuck(ctx context.Context, j amboy.Job, stuck amboy.StuckRun) error {
	id := j.ID()
	q.mu.Lock()
	defer q.mu.Unlock()
	if _, hasLimit := ctx.Deadline(); !hasLimit {
		return fmt.Errorf("the call for job %q has no time limit", id)
	}
	q.stuck[id] = stuck
	return q.err
}

func (q *stuckQueue) reported() map[string]amboy.StuckRun {
	q.mu.Lock()
	defer q.mu.Unlock()
	stuck := make(map[string]amboy.StuckRun, len(q.stuck))
	for id, run := range q.stuck {
		stuck[id] = run
	}
	return stuck
}

// ignoresItsContext must appear in the stack of a stuck job.
func ignoresItsContext(end <-chan struct{}) { <-end }

func stuckJob(id string, maxTime time.Duration, end <-chan struct{}) amboy.Job {
	j := newJob(id, func(context.Context, *funcJob) { ignoresItsContext(end) })
	j.UpdateTimeInfo(amboy.JobTimeInfo{MaxTime: maxTime})
	return j
}

func TestJobsThatIgnoreTheirTimeoutHoldAllWorkers(t *testing.T) {
	forEachPool(t, func(t *testing.T, makePool func(int, amboy.Queue) amboy.Runner) {
		q := newStuckQueue()
		end := make(chan struct{})
		for i := range 8 {
			q.jobs <- stuckJob(fmt.Sprint("stuck", i), time.Minute, end)
		}
		r := makePool(8, q)
		require.NoError(t, r.Start(t.Context()))
		defer func() { closeWithin(t, r, time.Minute) }()
		began := time.Now()
		next := make(chan time.Duration, 1)
		q.jobs <- newJob("next", func(context.Context, *funcJob) { next <- time.Since(began) })
		waited := <-next
		assert.Greater(t, waited, time.Minute+pool.StuckGrace-time.Second)
		assert.LessOrEqual(t, waited, time.Minute+pool.StuckGrace+time.Second)
		synctest.Wait()
		reported := q.reported()
		require.Len(t, reported, 8)
		for id, stuck := range reported {
			assert.Contains(t, stuck.Stack, "pool_test.ignoresItsContext", id)
			assert.Contains(t, stuck.Cause, "maximum time of 1m0s", id)
			assert.WithinDuration(t, began.Add(time.Minute), stuck.Since, time.Second, id)
		}
		close(end)
		synctest.Wait()
		assert.Len(t, q.ended, 9, "a late end is an end as any other")
		assert.Equal(t, 8, r.(amboy.ResizableRunner).Workers())
	})
}

func TestACanceledJobThatIgnoresItHoldsItsWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newStuckQueue()
		end := make(chan struct{})
		q.jobs <- stuckJob("stuck", 0, end)
		r := pool.NewLocalWorkers(1, q)
		require.NoError(t, r.Start(t.Context()))
		time.Sleep(time.Hour)
		assert.Empty(t, q.reported(), "a job without a time limit is not stuck")
		q.leasingQueue.mu.Lock()
		cancel := q.leases["stuck"]
		q.leasingQueue.mu.Unlock()
		cancel(amboy.ErrAborted)
		time.Sleep(pool.StuckGrace + time.Second)
		assert.Equal(t, amboy.ErrAborted.Error(), q.reported()["stuck"].Cause)
		close(end)
		closeWithin(t, r, time.Minute)
	})
}

// TestStuckJobsStartWorkersWithoutEnd runs more stuck jobs than workers may be replaced.
func TestStuckJobsStartWorkersWithoutEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newStuckQueue()
		end := make(chan struct{})
		for i := range 10 {
			q.jobs <- stuckJob(fmt.Sprint("stuck", i), time.Second, end)
		}
		r := pool.NewLocalWorkers(2, q)
		require.NoError(t, r.Start(t.Context()))
		time.Sleep(time.Hour)
		assert.Equal(t, int64(4), q.started.Load(), "two workers and one replacement for each")
		assert.Len(t, q.reported(), 4)
		close(end)
		synctest.Wait()
		assert.Len(t, q.ended, 10)
		time.Sleep(time.Minute)
		for range 10 {
			q.jobs <- newJob("after", doNothing)
		}
		synctest.Wait()
		assert.Len(t, q.ended, 20)
		closeWithin(t, r, time.Minute)
	})
}

// touchyJob is a job whose methods block or panic while it is stuck, like a job that holds
// its own lock.
type touchyJob struct {
	funcJob
	stuck  atomic.Bool
	answer func()
}

func newTouchyJob(id string, end <-chan struct{}, answer func()) *touchyJob {
	j := &touchyJob{answer: answer}
	j.run = func(ctx context.Context, _ *funcJob) {
		<-ctx.Done()
		j.stuck.Store(true)
		defer j.stuck.Store(false)
		<-end
	}
	j.SetID(id)
	return j
}

func (j *touchyJob) ID() string {
	if j.stuck.Load() {
		j.answer()
	}
	return j.funcJob.ID()
}

func (j *touchyJob) Type() amboy.JobType {
	if j.stuck.Load() {
		j.answer()
	}
	return j.funcJob.Type()
}

func TestAStuckJobThatPanicsEndsTheProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newStuckQueue()
		end := make(chan struct{})
		q.jobs <- newTouchyJob("stuck", end, func() { panic("ask me later") })
		r := pool.NewLocalWorkers(1, q)
		require.NoError(t, r.Start(t.Context()))
		synctest.Wait()
		q.lose("stuck")
		time.Sleep(pool.StuckGrace + time.Second)
		q.jobs <- newJob("next", doNothing)
		synctest.Wait()
		assert.Len(t, q.ended, 1)
		closeWithin(t, r, 0)
		assert.Equal(t, []string{"stuck"}, leftBehind(t, r))
		close(end)
	})
}

func TestAStuckJobThatHoldsItsOwnLockHidesOthersAndBlocksClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newStuckQueue()
		end := make(chan struct{})
		for i := range 4 {
			q.jobs <- newTouchyJob(fmt.Sprint("locked", i), end, func() { <-end })
			q.jobs <- stuckJob(fmt.Sprint("stuck", i), 0, end)
		}
		r := pool.NewLocalWorkers(8, q)
		require.NoError(t, r.Start(t.Context()))
		synctest.Wait()
		for i := range 4 {
			q.lose(fmt.Sprint("locked", i))
			q.lose(fmt.Sprint("stuck", i))
		}
		time.Sleep(pool.StuckGrace + time.Second)
		assert.Len(t, q.reported(), 4)
		assert.LessOrEqual(t, closeWithin(t, r, 0), time.Second)
		assert.Len(t, leftBehind(t, r), 8)
		close(end)
	})
}

func TestAJobIsStuckLessThanTheGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newStuckQueue()
		slow := newJob("slow", func(ctx context.Context, _ *funcJob) {
			<-ctx.Done()
			time.Sleep(pool.StuckGrace - 2*time.Second)
		})
		slow.UpdateTimeInfo(amboy.JobTimeInfo{MaxTime: time.Second})
		q.jobs <- slow
		r := pool.NewLocalWorkers(1, q)
		require.NoError(t, r.Start(t.Context()))
		time.Sleep(time.Minute)
		assert.Empty(t, q.reported())
		assert.Len(t, q.ended, 1)
		closeWithin(t, r, time.Minute)
	})
}

func TestRunsHaveProfilerLabels(t *testing.T) {
	forEachPool(t, func(t *testing.T, makePool func(int, amboy.Queue) amboy.Runner) {
		q := newFakeQueue()
		labels := make(chan map[string]string, 1)
		j := newJob("labeled", func(ctx context.Context, _ *funcJob) {
			found := map[string]string{}
			pprof.ForLabels(ctx, func(key, value string) bool {
				found[key] = value
				return true
			})
			labels <- found
		})
		j.JobType.Name = "fake"
		q.jobs <- j
		r := makePool(1, q)
		require.NoError(t, r.Start(t.Context()))
		assert.Equal(t, map[string]string{"queue": "fake", "job_type": "fake"}, <-labels)
		closeWithin(t, r, time.Minute)
	})
}
