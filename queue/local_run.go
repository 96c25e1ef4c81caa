package queue

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/internal/schedule"
)

var (
	_ amboy.JobContexter  = (*local)(nil)
	_ amboy.StuckReporter = (*local)(nil)
)

// ReportStuck makes the job itself show that its run is stuck.
func (q *local) ReportStuck(_ context.Context, j amboy.Job, stuck amboy.StuckRun) error {
	if amboy.IsNilJob(j) {
		return fmt.Errorf("reporting a stuck job of queue %q: the job must not be nil", q.id)
	}
	id := j.ID() // The job may hold a lock of its own, and never answer.
	q.mu.Lock()
	e, ok := q.schedule.Get(id)
	running := ok && e.Place() == schedule.Running
	q.mu.Unlock()
	if !running {
		return fmt.Errorf("reporting stuck job %q: it does not run in queue %q: %w", id, q.id, amboy.ErrLeaseLost)
	}
	showStuck(j, stuck)
	return nil
}

// JobContext derives a context that ends when somebody cancels the job, or completes
// it while it runs.
func (q *local) JobContext(ctx context.Context, j amboy.Job) (context.Context, context.CancelFunc) {
	run := &localRun{parent: ctx}
	e, begun := q.begin(j.ID(), run)
	if !begun {
		e = q.beginLocked(j.ID(), run)
	}
	if e != nil && e.Job.ending.Load() {
		run.cancel(amboy.ErrLeaseLost) // the call that ends the attempt may not have seen it
	}
	return run, run.end
}

// begin makes a run that of a job, without the lock. It returns false where that takes
// a closer look. Who cancels the job says so before looking for the run, and either
// finds it or is seen here.
func (q *local) begin(id string, run *localRun) (e *localEntry, begun bool) {
	e = q.taken.get(id)
	return e, e != nil && e.Job.run.CompareAndSwap(nil, run) && q.canceling.Load() == 0
}

// beginLocked makes a run that of a job, or ends its context where the job is canceled
// or does not run. It returns the entry if it runs.
func (q *local) beginLocked(id string, run *localRun) *localEntry {
	q.mu.Lock()
	e, ok := q.schedule.Get(id)
	running := ok && e.Place() == schedule.Running
	if running {
		e.Job.run.Store(run)
	}
	_, canceled := q.cancels[e]
	q.mu.Unlock()
	switch {
	case !running:
		run.cancel(amboy.ErrLeaseLost)
		return nil
	case canceled:
		run.cancel(amboy.ErrAborted)
	}
	return e
}

// localRun is the context of one run of a job. Most jobs never ask when theirs ends.
// Until one does there is nothing but this.
type localRun struct {
	parent context.Context
	over   atomic.Bool              // the job has returned
	asked  atomic.Pointer[askedRun] // nil until somebody wants to know when it ends
}

// askedRun is a context that can be canceled.
type askedRun struct {
	context.Context
	cancel context.CancelCauseFunc
}

// cancel ends the context of a run that is not over.
func (r *localRun) cancel(cause error) {
	if !r.isOver() {
		r.ask().cancel(cause)
	}
}

// end is called when the run is over.
func (r *localRun) end() {
	r.over.Store(true)
	if asked := r.asked.Load(); asked != nil {
		asked.cancel(context.Canceled)
	}
}

// isOver tells whether the job has returned. A run that nobody tells of counts as
// over.
func (r *localRun) isOver() bool { return r == nil || r.over.Load() }

// ask returns the context that can be canceled. An end of the run at the same moment
// either finds it, or is seen here.
func (r *localRun) ask() *askedRun {
	if asked := r.asked.Load(); asked != nil {
		return asked
	}
	ctx, cancel := context.WithCancelCause(r.parent)
	asked := &askedRun{ctx, cancel}
	if !r.asked.CompareAndSwap(nil, asked) {
		cancel(nil) // somebody else was faster
		return r.asked.Load()
	}
	if r.isOver() {
		cancel(context.Canceled)
	}
	return asked
}

// current is the context that says more than this one can.
func (r *localRun) current() context.Context {
	if !r.isOver() && r.asked.Load() == nil {
		return r.parent
	}
	return r.ask()
}

// Done implements context.Context.
func (r *localRun) Done() <-chan struct{} { return r.ask().Done() }

// Err implements context.Context.
func (r *localRun) Err() error { return r.current().Err() }

// Value implements context.Context. What it returns also tells package context of the
// cause of the end.
func (r *localRun) Value(key any) any { return r.current().Value(key) }

// Deadline implements context.Context.
func (r *localRun) Deadline() (time.Time, bool) { return r.parent.Deadline() }
