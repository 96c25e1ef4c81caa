package queue

import (
	"context"
	"runtime"
	"time"

	"github.com/mongodb/grip/message"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/core"
	"github.com/mongodb/amboy/internal/logging"
)

// waiter is a worker that waits for a run. The lock of the core guards it.
type waiter struct {
	core.Worker
	// told has room for one signal: that there is a run, or that the worker is to go.
	told   chan struct{}
	served bool
	run    *core.Run
}

func (w *waiter) serve(r *core.Run) {
	w.served, w.run = true, r
	w.told <- struct{}{}
}

// next returns a claimed run; nil when ctx ends or the queue stops.
func (e *engine) next(ctx context.Context, l *core.Line) *core.Run {
	if ctx.Err() != nil {
		return nil
	}
	e.coreMu.Lock()
	w := e.waiter(l)
	commands := e.step(core.Waiting{Worker: &w.Worker})
	e.coreMu.Unlock()
	e.carryOut(commands)
	select {
	case <-w.told:
		return e.served(w)
	case <-ctx.Done():
		return e.leave(w)
	}
}

// tryNext is next that does not wait.
func (e *engine) tryNext(l *core.Line) *core.Run {
	e.coreMu.Lock()
	w := e.waiter(l)
	commands := append(e.step(core.Changed{Line: l}), e.step(core.Waiting{Worker: &w.Worker})...)
	e.coreMu.Unlock()
	e.carryOut(commands)
	return e.leave(w)
}

// waiter returns one for a worker that comes. The caller holds the lock.
func (e *engine) waiter(l *core.Line) *waiter {
	last := len(e.spare) - 1
	if last < 0 {
		w := &waiter{told: make(chan struct{}, 1)}
		w.Worker = core.Worker{Line: l, Shell: w}
		return w
	}
	w := e.spare[last]
	e.spare[last] = nil
	e.spare = e.spare[:last]
	w.Line = l
	return w
}

// served returns the run of a waiter that was told.
func (e *engine) served(w *waiter) *core.Run {
	e.coreMu.Lock()
	defer e.coreMu.Unlock()
	run := w.run
	w.served, w.run, w.Line = false, nil, nil
	e.spare = append(e.spare, w)
	return run
}

// leave gives up waiting, and returns the run that the worker got all the same.
func (e *engine) leave(w *waiter) *core.Run {
	e.coreMu.Lock()
	if !w.served {
		commands := e.step(core.Gone{Worker: &w.Worker})
		w.Line = nil
		e.spare = append(e.spare, w)
		e.coreMu.Unlock()
		e.carryOut(commands)
		return nil
	}
	e.coreMu.Unlock()
	<-w.told
	return e.served(w)
}

func (e *engine) yield() {
	runtime.Gosched()
	e.happen(core.Yielded{})
}

// start makes known which job a run is. It returns false where the lease is over
// already, and then the run has ended.
func (e *engine) start(run *core.Run, j amboy.Job) bool {
	e.coreMu.Lock()
	over := isLost(run)
	if !over {
		run.Job = j
		e.runs[j] = run
	}
	e.coreMu.Unlock()
	if over {
		e.handBack(run, handBackNow)
	}
	return !over
}

// isLost tells whether the lease of a run is over. The caller holds the lock.
func isLost(run *core.Run) bool { return run.Cause() == amboy.ErrLeaseLost } //nolint:errorlint // It is never wrapped here.

// of returns the run that a job is; nil where it does not run here.
func (e *engine) of(j amboy.Job) *core.Run {
	e.coreMu.Lock()
	defer e.coreMu.Unlock()
	return e.runs[j]
}

// take returns the run that a job is to whoever ends it, and to nobody else after that;
// nil where it does not run here, or somebody has ended it. It tells whether somebody
// wanted the job to be canceled.
func (e *engine) take(j amboy.Job) (run *core.Run, aborted bool) {
	e.coreMu.Lock()
	defer e.coreMu.Unlock()
	run = e.runs[j]
	if run == nil {
		return nil, false
	}
	delete(e.runs, j)
	return run, run.Cause() == amboy.ErrAborted //nolint:errorlint // It is never wrapped here.
}

// context derives a context that ends when the lease of a job is over, or the job is to
// be canceled. What is left of a run whose lease is over is handed back when it returns.
func (e *engine) context(ctx context.Context, j amboy.Job) (context.Context, context.CancelFunc) {
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
		over := run != nil && isLost(run) && e.runs[j] == run
		if over {
			delete(e.runs, j)
		}
		e.coreMu.Unlock()
		if over {
			e.handBack(run, handBackNow)
		}
	}
}

// cancel ends the context of a run.
func (e *engine) cancel(run *core.Run, cause error) {
	e.coreMu.Lock()
	cancel, taken := run.CancelContext, run.Taken()
	e.coreMu.Unlock()
	e.meter.canceled(cause, taken)
	if cancel != nil {
		cancel(cause)
	}
	logging.Warning(e.open, message.Fields{
		"message": "canceled a running job",
		"cause":   cause.Error(),
		"queue":   run.Lease.Queue,
		"record":  run.Lease.Name,
		"owner":   run.Lease.Owner,
	})
}

// expire ends a run whose job must not begin any more. If its queue has closed meanwhile,
// the run is handed back.
func (e *engine) expire(run *core.Run) {
	if q := e.queue(run.Lease.Queue); q != nil {
		q.expire(e.open, run)
	} else {
		e.handBack(run, handBackNow)
	}
}

// park sets a job aside that was interrupted too often.
func (e *engine) park(run *core.Run) {
	q := e.queue(run.Lease.Queue)
	if q == nil {
		e.handBack(run, handBackNow)
		return
	}
	q.park(e.open, run, "parked a job that was interrupted too often", &amboy.InterruptedError{
		Interruptions: run.Record.Status.Interruptions,
		Limit:         q.line.InterruptionLimit(run.Record),
	})
}

// drained says that a queue had nothing to claim.
//
//nolint:contextcheck // It ends with the engine, whoever claimed.
func (e *engine) drained(l *core.Line) {
	if q := e.queue(l.Queue); q != nil && q.line == l {
		e.goOn(func(ctx context.Context) {
			ctx, cancel := context.WithTimeout(ctx, driverTimeout)
			defer cancel()
			q.checkIdle(ctx)
		})
	}
}

// watch counts those who want to know when a queue is idle.
func (e *engine) watch(l *core.Line, by int) { e.note(core.Watched{Line: l, By: by}) }

// mayBeIdle tells whether somebody wants to know whether a queue is idle, and no job of
// it runs here.
func (e *engine) mayBeIdle(l *core.Line) bool {
	e.coreMu.Lock()
	defer e.coreMu.Unlock()
	return l.Watching() > 0 && !e.core.Busy(l.Queue)
}

// isBusy reports whether jobs of a queue run here.
func (e *engine) isBusy(l *core.Line) bool {
	e.coreMu.Lock()
	defer e.coreMu.Unlock()
	return e.core.Busy(l.Queue)
}

// isWatched tells whether somebody wants to know.
func (e *engine) isWatched(l *core.Line) bool {
	e.coreMu.Lock()
	defer e.coreMu.Unlock()
	return l.Watching() > 0
}

// nextDue is when there may be more to claim because a time comes.
func (e *engine) nextDue() time.Time {
	e.coreMu.Lock()
	defer e.coreMu.Unlock()
	return e.core.Due()
}
