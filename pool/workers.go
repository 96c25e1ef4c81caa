// Package pool provides runners: pools of workers that take jobs from a queue and run them.
//
// [NewLocalWorkers] returns a plain pool. [NewAbortablePool] can also cancel single jobs,
// and the rate limited pools bound how often a job starts. All of them behave alike in
// these respects:
//
//   - A worker without a job is woken by its queue and does not poll.
//   - A job that panics or calls runtime.Goexit ends with an error, and the pool keeps its number of
//     workers.
//   - The number of workers can change while they run: every pool is an [amboy.ResizableRunner].
//   - Close, the soft stop, lets running jobs end. When its context or the context of Start ends,
//     there is a hard stop: the contexts of the jobs end, and an interrupted job is handed back to
//     the queue if that is an [amboy.JobReleaser]. In other queues it ends with an error.
//
// A job must not call Close or AbortAll of the pool that runs it, nor Abort with its own
// ID: these calls wait for the job.
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
	"github.com/mongodb/amboy/internal/sleep"
)

// If a queue returns no job although no context ended, a worker waits before it calls Next
// again. The wait doubles from the shortest to the longest.
const (
	minIdleWait = 10 * time.Millisecond
	maxIdleWait = time.Second
)

// nextFunc takes a job from a queue. It blocks until a job is available, and returns nil
// when ctx ends.
type nextFunc func(ctx context.Context, q amboy.Queue) amboy.Job

// takeNext takes a job as soon as one is available.
func takeNext(ctx context.Context, q amboy.Queue) amboy.Job { return q.Next(ctx) }

// workers is the pool behind every constructor except NewNoop.
type workers struct {
	lifecycle
	next    nextFunc
	running *runningJobs // nil if the pool can't abort jobs

	// The lock of lifecycle guards these fields.
	size   int
	retire []context.CancelFunc // end the workers, one function for each
	alive  map[*worker]struct{} // workers that have not ended
	// goroutines counts the workers and the goroutines and timers of the watchdog.
	goroutines int
	watchdog   watchdog
	left       []string // the IDs of the jobs that the last Close left behind

	watched atomic.Bool // the timer of the watchdog is set

	// Start sets the rest.
	gone      chan struct{} // closed when goroutines drops to 0
	replaces  bool          // replace workers whose jobs are stuck
	releaser  amboy.JobReleaser
	breaker   amboy.BrokenJobEnder
	contexter amboy.JobContexter
	completer amboy.JobCompleter
	snoozer   amboy.JobSnoozer
	transacts transactionReporter
	runJob    amboy.RunFunc

	soft context.Context // workers take jobs until it ends
	stop context.CancelFunc
	hard context.Context // jobs may run until it ends
	kill context.CancelCauseFunc
	// completing outlives the hard stop, so that a stop does not interrupt the write of a
	// job's end. Close ends it when it gives up.
	completing context.Context
	abandon    context.CancelFunc
}

// NewLocalWorkers returns a pool of n workers. The queue may be nil, and is then set with
// SetQueue. If n is less than 1, Start returns an error. The pool is an
// amboy.ResizableRunner and safe for concurrent use.
func NewLocalWorkers(n int, q amboy.Queue) amboy.Runner {
	return newWorkers(n, q, takeNext)
}

func newWorkers(n int, q amboy.Queue, next nextFunc) *workers {
	return &workers{lifecycle: lifecycle{queue: q}, next: next, size: n, alive: map[*worker]struct{}{}}
}

// Start starts the workers and does not wait for them. They end when ctx ends, which is a
// hard stop; call Close in any case, to wait for them. Start fails if the queue is not
// set, if the number of workers is less than 1, and with ErrClosed after Close. A second
// Start has no effect. It is safe for concurrent use.
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

// prepare marks the runner as started and sets what the workers need. It returns false
// without an error if the runner was started before. The caller holds the lock.
func (w *workers) prepare(ctx context.Context) (first bool, err error) {
	if first, err := w.start(); !first {
		return false, err
	}
	w.releaser, _ = w.queue.(amboy.JobReleaser)
	w.breaker, _ = w.queue.(amboy.BrokenJobEnder)
	w.contexter, _ = w.queue.(amboy.JobContexter)
	w.completer, _ = w.queue.(amboy.JobCompleter)
	w.snoozer, _ = w.queue.(amboy.JobSnoozer)
	w.transacts, _ = w.queue.(transactionReporter)
	w.runJob = amboy.RunFuncOf(w.queue)
	labeled := pprof.WithLabels(ctx, pprof.Labels(queueLabel, w.queue.ID()))
	w.hard, w.kill = context.WithCancelCause(amboy.ContextWithQueue(labeled, w.queue))
	w.soft, w.stop = context.WithCancel(w.hard)
	w.completing, w.abandon = context.WithCancel(context.WithoutCancel(ctx))
	w.gone = make(chan struct{})
	return true, nil
}

const (
	// completeTime is how long jobs may take, after a hard stop by Close, to return and to
	// be completed or handed back.
	completeTime = 600 * time.Millisecond
	// abandonTime is how long Close then waits for calls of the queue whose context it
	// ended.
	abandonTime = 100 * time.Millisecond
)

// Close takes no more jobs and blocks until every worker has ended. Running jobs may go on
// until ctx ends. Then there is a hard stop: Close waits up to 600 milliseconds for the
// jobs to return and to be handed back or completed, leaves the rest behind, and returns
// within a second of the end of ctx (see LeftBehind). A worker that was left behind ends
// when its job returns; it then hands the job back, if the queue still accepts it. Close
// is safe for concurrent use, and may be called more than once.
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

// waitUntilGone waits until the workers have ended, but no longer than longest.
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

// noteLeftBehind records the jobs that workers still hold.
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

// Workers is the number of workers that was last requested. It does not block, and is safe
// for concurrent use.
func (w *workers) Workers() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.size
}

// SetWorkers changes the number of workers, before Start or while they run. Surplus
// workers end after the job that they are running; SetWorkers does not wait for that. If n
// is less than 1, or with ErrClosed after Close, it fails and changes nothing. It is safe
// for concurrent use.
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
	// If no worker is alive, the pool has not started or its context has ended.
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

// resize starts or retires workers until their number is size. The caller holds the lock.
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

// worker takes and runs jobs, one at a time.
type worker struct {
	*workers
	// place is the context of the worker. The worker ends after its current job when place
	// ends.
	place context.Context
	// unwritten are the ends of its previous jobs that may not be written yet, in their order.
	unwritten []unwritten
	labels    labels

	activeMu sync.Mutex
	// active is the current run, from when the worker takes a job until the job's end is
	// reported to the queue. activeMu guards it.
	active currentRun

	observed observed
	replaced atomic.Bool // another worker has taken its place
}

// currentRun describes a run to other goroutines.
type currentRun struct {
	number uint64
	job    amboy.Job // nil if there is none
	// id and jobType belong to the job. They are copied because the job's methods must not
	// be called while it runs: the job may hold a lock of its own.
	id, jobType string
	ctx         context.Context // the job's context; nil after its Run has returned
	maxTime     time.Duration
	// goroutine is the start of the worker's stack in a dump of all goroutines.
	goroutine []byte
}

// current returns the run of a worker, and whether it has one.
func (w *worker) current() (run currentRun, ok bool) {
	w.activeMu.Lock()
	defer w.activeMu.Unlock()
	return w.active, w.active.job != nil
}

// setActive records the run that the worker begins.
func (w *worker) setActive(a *attempt) {
	maxTime := a.job.TimeInfo().MaxTime
	w.activeMu.Lock()
	w.active.number++
	w.active.job, w.active.ctx, w.active.maxTime = a.job, a.ctx, maxTime
	w.active.id, w.active.jobType = a.id, a.jobType
	w.activeMu.Unlock()
	if !w.watched.Load() {
		w.watch()
	}
}

// runReturned records that Run has returned, so that the time that the queue takes
// afterwards does not count as stuck.
func (w *worker) runReturned() {
	w.activeMu.Lock()
	defer w.activeMu.Unlock()
	w.active.ctx = nil
}

// clearActive records that the run is over.
func (w *worker) clearActive() {
	w.activeMu.Lock()
	defer w.activeMu.Unlock()
	w.active.job, w.active.ctx = nil, nil
}

func nothing() {}

// work takes and runs jobs until place ends or the worker is replaced.
func (w *worker) work() {
	ctx := w.place
	w.activeMu.Lock()
	w.active.goroutine = goroutineHeader()
	w.activeMu.Unlock()
	returned := false
	defer func() {
		if returned {
			w.awaitAllWritten()
			w.leave(w)
			return
		}
		// The job ended this goroutine with runtime.Goexit.
		go w.work()
	}()
	wait := minIdleWait
	for ctx.Err() == nil && !w.replaced.Load() {
		if w.runNext(ctx) {
			wait = minIdleWait
			continue
		}
		_ = sleep.For(ctx, wait) // the loop ends with ctx
		wait = min(2*wait, maxIdleWait)
	}
	returned = true
}

// unwritten is the end of a job that the queue writes while the worker continues.
type unwritten struct {
	since time.Time
	wait  func()
}

// A worker begins another job while at most maxUnwritten of its ends are not written, and none of
// them is older than maxUnwrittenAge, except the last. If the process dies, these jobs run again.
const (
	maxUnwritten    = 16
	maxUnwrittenAge = 100 * time.Millisecond
)

// awaitWritten waits until ends are written, so that a limited number is left.
func (w *worker) awaitWritten() {
	for len(w.unwritten) > maxUnwritten || len(w.unwritten) > 1 && time.Since(w.unwritten[0].since) > maxUnwrittenAge {
		w.awaitOldest()
	}
}

// awaitAllWritten waits until all ends are written.
func (w *worker) awaitAllWritten() {
	for len(w.unwritten) > 0 {
		w.awaitOldest()
	}
}

func (w *worker) awaitOldest() {
	wait := w.unwritten[0].wait
	w.unwritten = slices.Delete(w.unwritten, 0, 1)
	wait()
}

// enter registers a new worker. The caller holds the lock.
func (w *workers) enter(place context.Context) *worker {
	one := &worker{workers: w, place: place}
	w.alive[one] = struct{}{}
	w.goroutines++
	return one
}

// leave unregisters a worker.
func (w *workers) leave(one *worker) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.alive, one)
	if one.replaced.Load() {
		w.watchdog.replaced--
	}
	w.exit()
}

// exit decrements the number of goroutines. The caller holds the lock.
func (w *workers) exit() {
	w.goroutines--
	if w.goroutines == 0 {
		close(w.gone)
	}
}

// runNext runs the queue's next job. It returns false if the queue returned none or
// panicked.
func (w *worker) runNext(ctx context.Context) (ran bool) {
	defer func() {
		if value := recover(); value != nil {
			logging.Error(ctx, message.Fields{
				"message": "worker panicked outside of a job's Run",
				"queue":   amboy.NameOf(w.queue),
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
