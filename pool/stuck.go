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

// StuckGrace is how long a job may go on after its context has ended, or its maximum time
// is used up. After that it counts as stuck: its worker is replaced, so that other jobs can
// run, and a queue that is an [amboy.StuckReporter] is told. At most as many workers are
// replaced as the pool has, so that it never runs more than twice as many jobs; beyond that
// a stuck job keeps its worker.
const StuckGrace = 5 * time.Second

const (
	// watchPeriod is the time between two checks of the runs. There is no event for a job
	// that does not return, and a timer for each run would cost more than most runs do.
	watchPeriod = 500 * time.Millisecond
	// reportTimeout bounds the call that tells the queue of a stuck job.
	reportTimeout = 10 * time.Second
	// maxStacks is the size in bytes of the stacks of all goroutines that are searched for
	// that of a stuck job.
	maxStacks = 16 << 20
)

// watchdog finds the runs that are stuck. Its timer is set only while jobs run. The lock
// of lifecycle guards it.
type watchdog struct {
	timer    *time.Timer // nil while it is not set
	replaced int         // workers that were replaced and have not returned
}

// observed is what the watchdog knows of a worker. The lock of lifecycle guards it.
type observed struct {
	run      uint64    // the number of the run
	since    time.Time // when it was first seen
	overdue  time.Time // when it was first seen to be overdue; zero if it is not
	reported bool
}

// stuckRun is a run that is to be reported.
type stuckRun struct {
	currentRun
	info amboy.StuckRun
}

// watch sets the timer of the watchdog, unless it is set.
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

// stopWatching stops the timer for good: Close deals with what does not return.
func (w *workers) stopWatching() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.watchdog.timer != nil && w.watchdog.timer.Stop() {
		w.exit()
	}
	w.watchdog.timer = nil
}

// checkRuns replaces the workers whose jobs are stuck, and goes on watching if any job
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

// isStuck reports whether a run is overdue for longer than the grace.
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

// cause is why the run should have returned.
func (r currentRun) cause() string {
	if err := context.Cause(r.ctx); err != nil {
		return err.Error()
	}
	return (&amboy.MaxTimeError{MaxTime: r.maxTime}).Error()
}

// replace starts another worker in the place of one, if fewer were replaced than the pool
// has. The caller holds the lock.
func (w *workers) replace(one *worker) {
	if one.replaced.Load() || w.watchdog.replaced >= w.size || w.soft.Err() != nil {
		return
	}
	one.replaced.Store(true)
	w.watchdog.replaced++
	go w.enter(one.place).work()
}

// reportAll reports the runs that have become stuck. None waits for another: the queue may
// ask the job, which may never answer.
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

// reportStuck logs that a run is stuck, and tells the queue.
func (w *workers) reportStuck(run stuckRun) {
	defer func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.exit()
	}()
	fields := func(text string) message.Fields {
		return message.Fields{"message": text, "job_id": run.id, "job_type": run.jobType, "queue": w.queue.ID()}
	}
	stuck := fields("job is stuck: it goes on although it should have ended")
	stuck["since"], stuck["cause"], stuck["stack"] = run.info.Since, run.info.Cause, run.info.Stack
	logging.Error(w.hard, stuck)
	if err := w.tellStuck(run); err != nil && !errors.Is(err, amboy.ErrLeaseLost) {
		failed := fields("could not tell the queue of a stuck job")
		failed["error"] = err.Error()
		logging.Error(w.hard, failed)
	}
}

func (w *workers) tellStuck(run stuckRun) (err error) {
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

// goroutineHeader is how the stack of the calling goroutine begins in a dump of all:
// "goroutine 7 ".
func goroutineHeader() []byte {
	buf := make([]byte, 64)
	buf = buf[:runtime.Stack(buf, false)]
	if end := bytes.IndexByte(buf, '['); end >= 0 {
		return buf[:end]
	}
	return nil
}

// stacksOfAll are the stacks of all goroutines, up to maxStacks bytes.
func stacksOfAll() []byte {
	for size := 1 << 18; ; size *= 4 {
		buf := make([]byte, size)
		n := runtime.Stack(buf, true)
		if n < size || size >= maxStacks {
			return buf[:n]
		}
	}
}

// stackOf finds that of a goroutine.
func stackOf(stacks, header []byte) []byte {
	for stack := range bytes.SplitSeq(stacks, []byte("\n\n")) {
		if len(header) > 0 && bytes.HasPrefix(stack, header) {
			return stack
		}
	}
	return nil
}
