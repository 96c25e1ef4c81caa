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

// fakeQueue is a queue in a channel. It implements only the methods that pools call.
type fakeQueue struct {
	amboy.Queue

	jobs    chan amboy.Job
	started atomic.Int64 // jobs taken since startsIn was called
	// ended lists the jobs that were completed or released, in that order.
	ended chan ending
	// onComplete is called before a job counts as completed; if it fails, the job is not
	// completed. It must be set before the pool starts.
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

// Next returns a job if one is available, even if ctx has ended: queues are allowed to do
// that.
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

// mark marks a job as running or as complete.
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

// leasingQueue can lose the leases of its jobs.
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

// doNothing is the Run of a job that ends at once.
func doNothing(context.Context, *funcJob) {}

// untilCanceled is the Run of a job that returns when its context ends, without an error.
func untilCanceled(ctx context.Context, _ *funcJob) { <-ctx.Done() }

// ignoring returns the Run of a job that ignores its context and ends when end is closed.
func ignoring(end <-chan struct{}) func(context.Context, *funcJob) {
	return func(context.Context, *funcJob) { <-end }
}

// put adds jobs whose IDs are the numbers from 0.
func (q *fakeQueue) put(n int, run func(context.Context, *funcJob)) {
	for i := range n {
		q.jobs <- newJob(fmt.Sprint(i), run)
	}
}

// startsIn lets jobs start for some time, and returns how many started since its last call.
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
