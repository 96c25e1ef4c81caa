package pool

import (
	"bytes"
	"context"
	"errors"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/mongodb/grip/message"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/logging"
)

// StuckGrace is how long a job may go on after its context has ended or its maximum time
// is used up. After that it counts as stuck: its worker is replaced, so that other jobs
// can run, and the run is reported to the queue if that is an [amboy.StuckReporter]. At
// most as many workers are replaced as the pool has, so the pool never runs more than
// twice as many jobs; beyond that a stuck job keeps its worker.
const StuckGrace = 5 * time.Second

const (
	// watchPeriod is the time between two checks of the runs. Runs are polled, because no
	// event marks a job that does not return, and a timer for each run would cost more than
	// most runs.
	watchPeriod = 500 * time.Millisecond
	// reportTimeout bounds the call that reports a stuck job to the queue.
	reportTimeout = 10 * time.Second
	// maxStacks is the maximum size, in bytes, of the dump of all goroutines in which the
	// stack of a stuck job is searched.
	maxStacks = 16 << 20
)

// watchdog detects stuck runs. Its timer is set only while jobs run. The lock of lifecycle
// guards it.
type watchdog struct {
	timer    *time.Timer // nil if not set
	replaced int         // workers that were replaced and have not returned
}

// observed is the watchdog's view of a worker. The lock of lifecycle guards it.
type observed struct {
	run      uint64    // the number of the run
	since    time.Time // when the watchdog first saw the run
	overdue  time.Time // when the watchdog first found it overdue; zero if it is not
	reported bool
}

// stuckRun is a run to report.
type stuckRun struct {
	currentRun
	info amboy.StuckRun
}

// watch sets the timer of the watchdog if it is not set.
func (w *workers) watch() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.watchdog.timer == nil {
		w.setWatchdog()
	}
}

// setWatchdog sets the timer. The caller holds the lock.
func (w *workers) setWatchdog() {
	if w.closed || !w.replaces {
		return
	}
	w.goroutines++
	w.watchdog.timer = time.AfterFunc(watchPeriod, w.checkRuns)
	w.watched.Store(true)
}

// stopWatching stops the timer for good: Close handles jobs that do not return.
func (w *workers) stopWatching() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.watchdog.timer != nil && w.watchdog.timer.Stop() {
		w.exit()
	}
	w.watchdog.timer = nil
}

// checkRuns replaces the workers whose jobs are stuck. It sets the timer again if any job
// runs.
func (w *workers) checkRuns() {
	w.mu.Lock()
	defer w.mu.Unlock()
	defer w.exit()
	w.watchdog.timer = nil
	w.watched.Store(false) // first, so that a run that begins now sets the timer
	running := false
	var found []stuckRun
	for one := range w.alive {
		run, ok := one.current()
		if !ok || run.ctx == nil {
			continue
		}
		running = true
		if !one.isStuck(run, time.Now()) {
			continue
		}
		w.replace(one)
		if !one.observed.reported {
			one.observed.reported = true
			found = append(found, stuckRun{run, amboy.StuckRun{Since: one.observed.overdue, Cause: run.cause()}})
		}
	}
	if running {
		w.setWatchdog()
	}
	if len(found) > 0 {
		w.goroutines++
		go w.reportAll(found)
	}
}

// isStuck reports whether a run has been overdue for StuckGrace.
func (w *worker) isStuck(run currentRun, now time.Time) bool {
	o := &w.observed
	if o.run != run.number {
		*o = observed{run: run.number, since: now}
	}
	if run.ctx.Err() == nil && (run.maxTime <= 0 || now.Sub(o.since) < run.maxTime) {
		return false
	}
	if o.overdue.IsZero() {
		o.overdue = now
	}
	return now.Sub(o.overdue) >= StuckGrace
}

// cause returns why the run should have returned.
func (r currentRun) cause() string {
	if err := context.Cause(r.ctx); err != nil {
		return err.Error()
	}
	return (&amboy.MaxTimeError{MaxTime: r.maxTime}).Error()
}

// replace starts another worker in the place of one, unless the number of replaced workers
// has reached the size of the pool. The caller holds the lock.
func (w *workers) replace(one *worker) {
	if one.replaced.Load() || w.watchdog.replaced >= w.size || w.soft.Err() != nil {
		return
	}
	one.replaced.Store(true)
	w.watchdog.replaced++
	go w.enter(one.place).work()
}

// reportAll reports stuck runs, each on its own goroutine: the queue may call the job's
// methods, which may never return.
func (w *workers) reportAll(runs []stuckRun) {
	stacks := stacksOfAll()
	w.mu.Lock()
	defer w.mu.Unlock()
	defer w.exit()
	for _, run := range runs {
		run.info.Stack = string(stackOf(stacks, run.goroutine))
		w.goroutines++
		go w.reportStuck(run)
	}
}

// reportStuck logs that a run is stuck and reports it to the queue.
func (w *workers) reportStuck(run stuckRun) {
	defer func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.exit()
	}()
	fields := func(text string) message.Fields {
		return message.Fields{"message": text, "job_id": run.id, "job_type": run.jobType, "queue": amboy.NameOf(w.queue)}
	}
	stuck := fields("job is stuck: it still runs although it should have ended")
	stuck["since"], stuck["cause"], stuck["stack"] = run.info.Since, run.info.Cause, run.info.Stack
	logging.Error(w.hard, stuck)
	if err := w.callReporter(run); err != nil && !errors.Is(err, amboy.ErrLeaseLost) {
		failed := fields("reporting a stuck job to its queue failed")
		failed["error"] = err.Error()
		logging.Error(w.hard, failed)
	}
}

// callReporter reports a stuck run to a queue that is an amboy.StuckReporter. It returns a
// panic of the queue as an error.
func (w *workers) callReporter(run stuckRun) (err error) {
	reporter, ok := w.queue.(amboy.StuckReporter)
	if !ok {
		return nil
	}
	ctx, cancel := context.WithTimeout(w.completing, reportTimeout)
	defer cancel()
	defer func() {
		if value := recover(); value != nil {
			err = &amboy.PanicError{Value: value, Stack: debug.Stack()}
		}
	}()
	return reporter.ReportStuck(ctx, run.job, run.info)
}

// goroutineHeader returns the start of the calling goroutine's stack in a dump of all
// goroutines, for instance "goroutine 7 ".
func goroutineHeader() []byte {
	buf := make([]byte, 64)
	buf = buf[:runtime.Stack(buf, false)]
	if end := bytes.IndexByte(buf, '['); end >= 0 {
		return buf[:end]
	}
	return nil
}

// stacksOfAll returns the stacks of all goroutines, up to maxStacks bytes.
func stacksOfAll() []byte {
	for size := 1 << 18; ; size *= 4 {
		buf := make([]byte, size)
		n := runtime.Stack(buf, true)
		if n < size || size >= maxStacks {
			return buf[:n]
		}
	}
}

// stackOf returns the stack that begins with header; nil if there is none.
func stackOf(stacks, header []byte) []byte {
	for stack := range bytes.SplitSeq(stacks, []byte("\n\n")) {
		if len(header) > 0 && bytes.HasPrefix(stack, header) {
			return stack
		}
	}
	return nil
}
