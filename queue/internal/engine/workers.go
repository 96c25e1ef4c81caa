package engine

import (
	"context"
	"errors"
	"runtime"
	"time"

	"github.com/mongodb/grip/message"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/core"
	"github.com/mongodb/amboy/internal/logging"
)

// waiter is a worker that waits for a run. The core's lock guards it.
type waiter struct {
	core.Worker
	// signal has room for one signal: that the worker has a run, or must leave.
	signal chan struct{}
	served bool
	run    *core.Run
}

func (w *waiter) serve(r *core.Run) {
	w.served, w.run = true, r
	w.signal <- struct{}{}
}

// next waits for a claimed run. It returns nil when ctx ends or the queue stops.
func (e *Engine) next(ctx context.Context, l *core.Line) *core.Run {
	if ctx.Err() != nil {
		return nil
	}
	var room fewCommands
	e.coreMu.Lock()
	w := e.waiter(l)
	commands := e.step(core.Waiting{Worker: &w.Worker}, room[:0])
	e.coreMu.Unlock()
	e.carryOutFor(w, commands)
	select {
	case <-w.signal:
		return e.served(w)
	case <-ctx.Done():
		return e.leave(w)
	}
}

// TryNext is next without waiting.
func (e *Engine) TryNext(l *core.Line) *core.Run {
	e.coreMu.Lock()
	w := e.waiter(l)
	commands := e.step(core.Changed{Line: l}, nil)
	commands = e.step(core.Waiting{Worker: &w.Worker}, commands)
	e.coreMu.Unlock()
	e.carryOutFor(w, commands)
	return e.leave(w)
}

// carryOutFor is carryOut for a waiter. If the code of a job ends this goroutine, the waiter leaves.
func (e *Engine) carryOutFor(w *waiter, commands []core.Command) {
	isOver := false
	defer func() {
		if isOver {
			return
		}
		if run := e.leave(w); run != nil {
			e.HandBack(run, HandBackNow)
		}
	}()
	e.carryOut(commands)
	isOver = true
}

// waiter returns a waiter for a worker. The caller holds the lock.
func (e *Engine) waiter(l *core.Line) *waiter {
	last := len(e.spare) - 1
	if last < 0 {
		w := &waiter{signal: make(chan struct{}, 1)}
		w.Worker = core.Worker{Line: l, Shell: w}
		return w
	}
	w := e.spare[last]
	e.spare[last] = nil
	e.spare = e.spare[:last]
	w.Line = l
	return w
}

// served returns the run of a waiter that was served, and keeps the waiter for reuse.
func (e *Engine) served(w *waiter) *core.Run {
	e.coreMu.Lock()
	defer e.coreMu.Unlock()
	run := w.run
	w.served, w.run, w.Line = false, nil, nil
	e.spare = append(e.spare, w)
	return run
}

// leave stops waiting. It returns the run that the worker may have got at the same time.
func (e *Engine) leave(w *waiter) *core.Run {
	e.coreMu.Lock()
	if !w.served {
		commands := e.step(core.Gone{Worker: &w.Worker}, nil)
		w.Line = nil
		e.spare = append(e.spare, w)
		e.coreMu.Unlock()
		e.carryOut(commands)
		return nil
	}
	e.coreMu.Unlock()
	<-w.signal
	return e.served(w)
}

func (e *Engine) yield() {
	runtime.Gosched()
	e.Happen(core.Yielded{})
}

// start records the job of a run. It returns false if the lease is already lost; the run
// is handed back then.
func (e *Engine) start(run *core.Run, j amboy.Job) bool {
	e.coreMu.Lock()
	over := isLost(run)
	if !over {
		run.Job = j
		e.runs[j] = run
	}
	e.coreMu.Unlock()
	if over {
		e.HandBack(run, HandBackNow)
	}
	return !over
}

// hasLost is isLost for a caller that does not hold the lock.
func (e *Engine) hasLost(run *core.Run) bool {
	e.coreMu.Lock()
	defer e.coreMu.Unlock()
	return isLost(run)
}

// isLost reports whether the lease of a run is lost. The caller holds the lock.
func isLost(run *core.Run) bool { return run.Cause() == amboy.ErrLeaseLost } //nolint:errorlint // It is never wrapped here.

// runOf returns the run of a job, or nil if the job does not run here.
func (e *Engine) runOf(j amboy.Job) *core.Run {
	e.coreMu.Lock()
	defer e.coreMu.Unlock()
	return e.runs[j]
}

// take removes and returns the run of a job, so that only one caller ends it. It returns
// nil if the job does not run here, or its run was taken already.
func (e *Engine) take(j amboy.Job) *core.Run {
	e.coreMu.Lock()
	defer e.coreMu.Unlock()
	run := e.runs[j]
	if run == nil {
		return nil
	}
	delete(e.runs, j)
	run.Canceled = run.Cause() == amboy.ErrAborted //nolint:errorlint // It is never wrapped here.
	return run
}

// context derives a context that ends when the lease of a job is lost, or the job is to
// be canceled. A run whose lease was lost is handed back when its job returns, unless a transaction
// may have ended it: Complete finds that out.
func (e *Engine) context(ctx context.Context, j amboy.Job) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	e.coreMu.Lock()
	run := e.runs[j]
	cause := amboy.ErrLeaseLost
	if run != nil {
		run.CancelContext = cancel
		cause = run.Cause()
	}
	e.coreMu.Unlock()
	if cause != nil {
		cancel(cause)
	}
	return ctx, func() {
		cancel(context.Canceled)
		e.coreMu.Lock()
		over := run != nil && isLost(run) && e.runs[j] == run && !run.Transacted()
		if over {
			delete(e.runs, j)
		}
		e.coreMu.Unlock()
		if over {
			e.HandBack(run, handBackStarted)
		}
	}
}

// cancel ends the context of a run.
func (e *Engine) cancel(run *core.Run, cause error) {
	e.coreMu.Lock()
	cancel, taken := run.CancelContext, run.Taken()
	e.coreMu.Unlock()
	e.Meter.canceled(cause, taken)
	if cancel != nil {
		cancel(cause)
	}
	describe := func() message.Fields {
		return message.Fields{
			"message":  "canceled a running job",
			"cause":    cause.Error(),
			"queue":    run.Lease.Queue,
			"job_id":   run.Record.JobID(),
			"job_type": run.Record.Type,
			"owner":    run.Lease.Owner,
		}
	}
	// The log may be slow, and the contexts of other runs may have to end now too.
	e.RunInBackground(func(ctx context.Context) {
		if errors.Is(cause, amboy.ErrAborted) {
			logging.Debug(ctx, describe) // the worker warns that the job was canceled
			return
		}
		logging.Warning(ctx, describe())
	})
}

// expire ends a run whose job must not start any more. If the run's queue has closed
// meanwhile, the run is handed back.
func (e *Engine) expire(run *core.Run) {
	if q := e.Queue(run.Lease.Queue); q != nil {
		q.Expire(e.open, run)
	} else {
		e.HandBack(run, HandBackNow)
	}
}

// Park parks a job that was interrupted too often.
func (e *Engine) Park(run *core.Run) {
	q := e.Queue(run.Lease.Queue)
	if q == nil {
		e.HandBack(run, HandBackNow)
		return
	}
	q.park(e.open, run, "parked a job that was interrupted too often", &amboy.InterruptedError{
		Interruptions: run.Record.Status.Interruptions,
		Limit:         q.Line.InterruptionLimit(run.Record),
	})
}

// drained checks whether a queue that had nothing to claim, or whose last job here has ended, is
// idle. If a check is under way, it is repeated once, however many jobs end meanwhile. It is left out
// while jobs of the queue run here or are claimed: another one follows then.
//
//nolint:contextcheck // It ends with the engine, not with the caller that claimed.
func (e *Engine) drained(l *core.Line) {
	q := e.Queue(l.Queue)
	if q == nil || q.Line != l || q.idleChecks.Add(1) > 1 {
		return
	}
	e.RunInBackground(func(ctx context.Context) {
		for asked := int64(0); !q.idleChecks.CompareAndSwap(asked, 0); {
			asked = q.idleChecks.Load()
			if !e.mayBeIdle(l) {
				continue
			}
			bounded, cancel := context.WithTimeout(ctx, DriverTimeout)
			q.checkIdle(bounded)
			cancel()
		}
	})
}

// watch counts the callers that wait until a queue is idle.
func (e *Engine) watch(l *core.Line, by int) { e.Note(core.Watched{Line: l, By: by}) }

// mayBeIdle reports whether a caller waits until a queue is idle, and no job of the queue
// runs here or is being claimed.
func (e *Engine) mayBeIdle(l *core.Line) bool {
	e.coreMu.Lock()
	defer e.coreMu.Unlock()
	return l.Watching() > 0 && e.core.MayBeIdle(l)
}

// stopUnlessBusy makes a queue start no more jobs, unless jobs of it run here.
func (e *Engine) stopUnlessBusy(l *core.Line) (stopped bool) {
	e.coreMu.Lock()
	busy := e.core.Busy(l.Queue)
	var commands []core.Command
	if !busy {
		commands = e.step(core.Stopped{Line: l}, nil)
	}
	e.coreMu.Unlock()
	e.carryOut(commands)
	return !busy
}

// isWatched reports whether a caller waits until a queue is idle.
func (e *Engine) isWatched(l *core.Line) bool {
	e.coreMu.Lock()
	defer e.coreMu.Unlock()
	return l.Watching() > 0
}

// NextDue returns the next time at which more jobs may become claimable.
func (e *Engine) NextDue() time.Time {
	e.coreMu.Lock()
	defer e.coreMu.Unlock()
	return e.core.Due()
}
