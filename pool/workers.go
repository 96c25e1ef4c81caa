// Package pool has the runners: pools of workers that take jobs from a queue
// and run them.
//
// [NewLocalWorkers] is the plain pool. [NewAbortablePool] adds the canceling of
// single jobs, and the rate limited pools bound how often a job starts. All of
// them are one pool with small variations, and have in common that
//
//   - a worker that has nothing to do is woken by its queue and does not poll;
//   - a job that panics, or calls runtime.Goexit, ends with an error, and the
//     pool keeps its number of workers;
//   - that number can change while they run: all pools are
//     [amboy.ResizableRunner];
//   - Close, the soft stop, lets running jobs end. When its context ends, or
//     the one that Start was given, there is a hard stop: the contexts of the
//     jobs end, and a job that was interrupted is handed back to a queue that
//     is an [amboy.JobReleaser]. In other queues it ends with an error.
//
// A job must not call Close or AbortAll of the pool that runs it, nor Abort
// with its own ID: they wait for the job.
package pool

import (
	"context"
	"fmt"
	"runtime/debug"
	"runtime/pprof"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mongodb/grip/message"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/logging"
)

// A queue that returns no job although nothing ended is asked again after a
// wait, which doubles from the shortest to the longest.
const (
	minIdleWait = 10 * time.Millisecond
	maxIdleWait = time.Second
)

// nextFunc takes a job from a queue. It blocks until there is one, and returns
// nil when ctx ends.
type nextFunc func(ctx context.Context, q amboy.Queue) amboy.Job

// takeNext takes a job as soon as there is one.
func takeNext(ctx context.Context, q amboy.Queue) amboy.Job { return q.Next(ctx) }

// workers is the pool behind all constructors but NewNoop.
type workers struct {
	lifecycle
	next    nextFunc
	running *runningJobs // nil where jobs can't be aborted

	// The lock of lifecycle guards these.
	size   int
	retire []context.CancelFunc // ends the workers, one each
	alive  map[*worker]struct{} // workers that have not ended yet
	// goroutines counts the workers, and what the watchdog runs.
	goroutines int
	watchdog   watchdog
	left       []string // the IDs of the jobs that the last Close left behind

	watched atomic.Bool // whether the timer of the watchdog is set

	// Start sets the rest.
	gone      chan struct{} // closed when the last worker has ended
	replaces  bool          // whether a worker whose job is stuck is replaced
	releaser  amboy.JobReleaser
	contexter amboy.JobContexter
	completer amboy.JobCompleter
	snoozer   amboy.JobSnoozer
	runJob    amboy.RunFunc

	soft context.Context // while it lasts, workers take jobs
	stop context.CancelFunc
	hard context.Context // while it lasts, jobs may run
	kill context.CancelCauseFunc
	// completing outlasts the hard stop, so that the end of a job is not
	// forgotten because the stop came while it was being written. Close ends it
	// when it gives up.
	completing context.Context
	abandon    context.CancelFunc
}

// NewLocalWorkers returns a pool of n workers. The queue may be nil, and is
// then set with SetQueue. Where n is less than 1, Start returns an error. The
// pool is an amboy.ResizableRunner and safe for concurrent use.
func NewLocalWorkers(n int, q amboy.Queue) amboy.Runner {
	return newWorkers(n, q, takeNext)
}

func newWorkers(n int, q amboy.Queue, next nextFunc) *workers {
	return &workers{lifecycle: lifecycle{queue: q}, next: next, size: n, alive: map[*worker]struct{}{}}
}

// Start starts the workers, and does not wait for them. They end when ctx does,
// which is a hard stop; call Close all the same, to wait for them. Start fails
// where there is no queue, where the number of workers is less than 1, and with
// ErrClosed after Close. A second Start has no effect. It is safe for concurrent use.
func (w *workers) Start(ctx context.Context) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := validateSize(w.size); err != nil {
		return fmt.Errorf("starting runner: %w", err)
	}
	if first, err := w.prepare(ctx); !first {
		return err
	}
	w.replaces = true
	w.resize() //nolint:contextcheck // w.soft derives from ctx
	return nil
}

// prepare does what comes before the first worker. It is false for a runner that has
// started before, too. The caller holds the lock.
func (w *workers) prepare(ctx context.Context) (first bool, err error) {
	if first, err := w.start(); !first {
		return false, err
	}
	w.releaser, _ = w.queue.(amboy.JobReleaser)
	w.contexter, _ = w.queue.(amboy.JobContexter)
	w.completer, _ = w.queue.(amboy.JobCompleter)
	w.snoozer, _ = w.queue.(amboy.JobSnoozer)
	w.runJob = amboy.RunFuncOf(w.queue)
	labeled := pprof.WithLabels(ctx, pprof.Labels(queueLabel, w.queue.ID()))
	w.hard, w.kill = context.WithCancelCause(amboy.ContextWithQueue(labeled, w.queue))
	w.soft, w.stop = context.WithCancel(w.hard)
	w.completing, w.abandon = context.WithCancel(context.WithoutCancel(ctx))
	w.gone = make(chan struct{})
	return true, nil
}

const (
	// completeTime is how long jobs may take, after a hard stop by Close, to return and
	// to be completed or handed back.
	completeTime = 600 * time.Millisecond
	// abandonTime is how long Close then waits for calls of the queue that it has ended.
	abandonTime = 100 * time.Millisecond
)

// Close takes no more jobs and blocks until every worker is gone. Running jobs
// may go on until ctx ends; then there is a hard stop, and Close waits for them to
// return and to be handed back or completed. What has not done so after 600
// milliseconds it leaves behind, and returns within a second of the end of ctx: see
// LeftBehind. Such a worker ends when its job returns, which it then hands back, if
// the queue still takes it. Close is safe for concurrent use, and may be called again.
func (w *workers) Close(ctx context.Context) {
	if !w.close() {
		return
	}
	w.stopWatching()
	w.stop()
	select {
	case <-w.gone:
	case <-w.hard.Done():
	case <-ctx.Done():
	}
	w.kill(ErrClosed)
	w.waitUntilGone(completeTime)
	w.abandon()
	w.waitUntilGone(abandonTime)
	w.noteLeftBehind()
}

// waitUntilGone waits for the workers, but no longer than a time.
func (w *workers) waitUntilGone(longest time.Duration) {
	timer := time.NewTimer(longest)
	defer timer.Stop()
	select {
	case <-w.gone:
	case <-timer.C:
	}
}

// LeftBehind implements amboy.CloseReporter.
func (w *workers) LeftBehind() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.left)
}

func (w *workers) noteLeftBehind() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.left = nil
	for one := range w.alive {
		if run, ok := one.current(); ok {
			w.left = append(w.left, run.id)
		}
	}
	slices.Sort(w.left)
}

// Workers is the number of workers that the pool was asked for. It does not
// block, and is safe for concurrent use.
func (w *workers) Workers() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.size
}

// SetWorkers changes the number of workers, before Start or while they run.
// Workers that are too many end after the job that they are running; it does
// not wait for that. It fails where n is less than 1, and with ErrClosed after
// Close; then nothing changes. It is safe for concurrent use.
func (w *workers) SetWorkers(n int) error {
	if err := validateSize(n); err != nil {
		return fmt.Errorf("resizing runner: %w", err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return fmt.Errorf("resizing runner: %w", ErrClosed)
	}
	w.size = n
	// Without a worker, the pool has not started or its context has ended.
	if len(w.alive) > 0 {
		w.resize()
	}
	return nil
}

func validateSize(n int) error {
	if n < 1 {
		return fmt.Errorf("number of workers must be at least 1 (is %d)", n)
	}
	return nil
}

// resize starts or retires workers until there are as many as asked for. The
// caller holds the lock.
func (w *workers) resize() {
	for len(w.retire) < w.size {
		ctx, retire := context.WithCancel(w.soft)
		w.retire = append(w.retire, retire)
		go w.enter(ctx).work()
	}
	for _, retire := range w.retire[w.size:] {
		retire()
	}
	w.retire = w.retire[:w.size]
}

// worker is one of the workers.
type worker struct {
	*workers
	// place lasts until the worker is to end.
	place context.Context
	// written waits until the end of its last job is written.
	written func()
	labels  labels

	hasMu sync.Mutex
	// has is the run that it has: from when it took the job until the queue was told how
	// that ended. hasMu guards it.
	has currentRun

	observed observed
	replaced atomic.Bool // another worker has its place
}

// currentRun is a run as others see it.
type currentRun struct {
	number uint64
	job    amboy.Job // nil if there is none
	// id and jobType are those of the job, which is not asked while it runs: it may hold
	// a lock of its own.
	id, jobType string
	ctx         context.Context // of the job; nil when its Run has returned
	maxTime     time.Duration
	// goroutine is how its stack begins.
	goroutine []byte
}

// current returns the run of a worker, if it has one.
func (w *worker) current() (run currentRun, ok bool) {
	w.hasMu.Lock()
	defer w.hasMu.Unlock()
	return w.has, w.has.job != nil
}

// take makes known which run a worker has.
func (w *worker) take(a *attempt) {
	id, maxTime := a.job.ID(), a.job.TimeInfo().MaxTime
	w.hasMu.Lock()
	w.has.number++
	w.has.job, w.has.ctx, w.has.maxTime = a.job, a.ctx, maxTime
	w.has.id, w.has.jobType = id, w.labels.jobType
	w.hasMu.Unlock()
	if !w.watched.Load() {
		w.watch()
	}
}

// returned notes that Run has returned: what follows takes the time that the queue takes.
func (w *worker) returned() {
	w.hasMu.Lock()
	defer w.hasMu.Unlock()
	w.has.ctx = nil
}

// drop is for a run that is over.
func (w *worker) drop() {
	w.hasMu.Lock()
	defer w.hasMu.Unlock()
	w.has.job, w.has.ctx = nil, nil
}

func nothing() {}

// work takes and runs jobs until the worker is to end.
func (w *worker) work() {
	ctx := w.place
	w.hasMu.Lock()
	w.has.goroutine = goroutineHeader()
	w.hasMu.Unlock()
	returned := false
	defer func() {
		if returned {
			w.written()
			w.leave(w)
			return
		}
		// A job has ended this goroutine with runtime.Goexit.
		go w.work()
	}()
	wait := minIdleWait
	for ctx.Err() == nil && !w.replaced.Load() {
		if w.runNext(ctx) {
			wait = minIdleWait
			continue
		}
		sleep(ctx, wait)
		wait = min(2*wait, maxIdleWait)
	}
	returned = true
}

// enter counts a worker in. The caller holds the lock.
func (w *workers) enter(place context.Context) *worker {
	one := &worker{workers: w, place: place, written: nothing}
	w.alive[one] = struct{}{}
	w.goroutines++
	return one
}

// leave counts a worker out.
func (w *workers) leave(one *worker) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.alive, one)
	if one.replaced.Load() {
		w.watchdog.replaced--
	}
	w.exit()
}

// exit counts a goroutine out. The caller holds the lock.
func (w *workers) exit() {
	w.goroutines--
	if w.goroutines == 0 {
		close(w.gone)
	}
}

// runNext runs the queue's next job. It returns false where there was none,
// and where the queue panicked.
func (w *worker) runNext(ctx context.Context) (ran bool) {
	defer func() {
		if value := recover(); value != nil {
			logging.Error(ctx, message.Fields{
				"message": "worker panicked outside of a job's Run",
				"queue":   w.queue.ID(),
				"error":   fmt.Sprint(value),
				"stack":   string(debug.Stack()),
			})
		}
	}()
	job := w.next(ctx, w.queue)
	if job == nil {
		return false
	}
	w.run(job) //nolint:contextcheck // a job may outlast its worker's ctx, which only ends the taking
	return true
}

// sleep waits for a time, or until ctx ends.
func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
