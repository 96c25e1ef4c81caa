package pool_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/job"
)

// fakeQueue is a queue in a channel. It has what pools call and no more.
type fakeQueue struct {
	amboy.Queue

	jobs    chan amboy.Job
	started atomic.Int64 // jobs that were taken since startsIn was called
	// ended has the jobs that were completed or released, in that order.
	ended chan ending
	// onComplete is called before a job counts as completed, which an error
	// prevents. It must be set before the pool starts.
	onComplete func(ctx context.Context, j amboy.Job) error
}

// ending is how a job ended in its queue.
type ending struct {
	job      amboy.Job
	released bool
	state    amboy.JobState
}

func newFakeQueue() *fakeQueue {
	return &fakeQueue{
		jobs:       make(chan amboy.Job, 1000),
		ended:      make(chan ending, 1000),
		onComplete: func(ctx context.Context, _ amboy.Job) error { return ctx.Err() },
	}
}

func (q *fakeQueue) ID() string { return "fake" }

// Next returns a job if there is one, even when ctx has ended: nothing keeps a
// queue from that.
func (q *fakeQueue) Next(ctx context.Context) amboy.Job {
	select {
	case j := <-q.jobs:
		return q.take(j)
	default:
	}
	select {
	case j := <-q.jobs:
		return q.take(j)
	case <-ctx.Done():
		return nil
	}
}

func (q *fakeQueue) take(j amboy.Job) amboy.Job {
	q.started.Add(1)
	mark(j, true)
	j.UpdateTimeInfo(amboy.JobTimeInfo{Start: time.Now()})
	return j
}

func (q *fakeQueue) Complete(ctx context.Context, j amboy.Job) error {
	if err := q.onComplete(ctx, j); err != nil {
		return err
	}
	mark(j, false)
	j.UpdateTimeInfo(amboy.JobTimeInfo{End: time.Now()})
	q.ended <- ending{job: j, state: amboy.NewJobInfo(j).State}
	return nil
}

// mark marks a job as running, or else as complete.
func mark(j amboy.Job, running bool) {
	status := j.Status()
	status.InProgress, status.Completed = running, !running
	j.SetStatus(status)
}

// releasingQueue takes interrupted jobs back.
type releasingQueue struct{ *fakeQueue }

func (q releasingQueue) Release(ctx context.Context, j amboy.Job) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	q.ended <- ending{job: j, released: true}
	return nil
}

// leasingQueue can lose its jobs.
type leasingQueue struct {
	releasingQueue
	mu     sync.Mutex
	leases map[string]context.CancelCauseFunc
	freed  int
}

func newLeasingQueue() *leasingQueue {
	return &leasingQueue{
		releasingQueue: releasingQueue{newFakeQueue()},
		leases:         map[string]context.CancelCauseFunc{},
	}
}

func (q *leasingQueue) JobContext(ctx context.Context, j amboy.Job) (context.Context, context.CancelFunc) {
	q.mu.Lock()
	defer q.mu.Unlock()
	leased, cancel := context.WithCancelCause(ctx)
	q.leases[j.ID()] = cancel
	return leased, func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		q.freed++
		cancel(nil)
	}
}

func (q *leasingQueue) lose(id string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.leases[id](amboy.ErrLeaseLost)
}

func (q *leasingQueue) freedLeases() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.freed
}

// funcJob runs a function.
type funcJob struct {
	job.Base
	run func(ctx context.Context, j *funcJob)
}

func newJob(id string, run func(ctx context.Context, j *funcJob)) *funcJob {
	j := &funcJob{run: run}
	j.SetID(id)
	return j
}

func (j *funcJob) Run(ctx context.Context) { j.run(ctx, j) }

// doNothing is the run of a job that is done at once.
func doNothing(context.Context, *funcJob) {}

// untilCanceled is the run of a job that waits to be interrupted and leaves it
// at that.
func untilCanceled(ctx context.Context, _ *funcJob) { <-ctx.Done() }

// ignoring is the run of a job that ends when it is told to, and knows no
// context.
func ignoring(end <-chan struct{}) func(context.Context, *funcJob) {
	return func(context.Context, *funcJob) { <-end }
}

// put adds jobs with numbers as IDs, from 0 on.
func (q *fakeQueue) put(n int, run func(context.Context, *funcJob)) {
	for i := range n {
		q.jobs <- newJob(fmt.Sprint(i), run)
	}
}

// startsIn lets jobs start for some time, and returns how many have since it was
// last called.
func (q *fakeQueue) startsIn(d time.Duration) int {
	time.Sleep(d)
	synctest.Wait()
	return int(q.started.Swap(0))
}

// start starts a pool, and closes it at the end of the test.
func start(t *testing.T, r amboy.Runner) {
	t.Helper()
	require.NoError(t, r.Start(t.Context()))
	t.Cleanup(func() { r.Close(canceledContext()) })
}

func canceledContext() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}
