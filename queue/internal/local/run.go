package local

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/internal/jobstate"
	"github.com/mongodb/amboy/queue/internal/schedule"
)

var (
	_ amboy.JobContexter  = (*Queue)(nil)
	_ amboy.StuckReporter = (*Queue)(nil)
)

// ReportStuck records in the job's progress that its run is stuck.
func (q *Queue) ReportStuck(_ context.Context, j amboy.Job, stuck amboy.StuckRun) error {
	if amboy.IsNilJob(j) {
		return fmt.Errorf("reporting a stuck job of queue %q: the job must not be nil", q.ID())
	}
	id := j.ID() // Call the job before taking the lock: it may block for ever.
	q.mu.Lock()
	e, ok := q.schedule.Get(id)
	running := ok && e.Place() == schedule.Running
	q.mu.Unlock()
	if !running {
		return fmt.Errorf("reporting stuck job %q: it does not run in queue %q: %w", id, q.ID(), amboy.ErrLeaseLost)
	}
	jobstate.ShowStuck(j, stuck)
	return nil
}

// JobContext derives a context that ends when the job is canceled, or is completed by
// another call while it runs.
func (q *Queue) JobContext(ctx context.Context, j amboy.Job) (context.Context, context.CancelFunc) {
	id := j.ID()
	e := q.taken.get(id)
	run := newLocalRun(ctx, e)
	if !q.begin(e, run) {
		e = q.beginLocked(id, j, run)
	}
	if e != nil && e.Job.ending.Load() {
		run.cancel(amboy.ErrLeaseLost) // the call that ends the attempt may have missed this run
	}
	return run, run.end
}

// begin sets the run of a job without taking the lock. It returns false if beginLocked
// must do it. A cancellation first increments q.canceling and then loads the run, so
// either it finds this run, or begin sees the count.
func (q *Queue) begin(e *localEntry, run *localRun) bool {
	return e != nil && e.Job.run.CompareAndSwap(nil, run) && q.canceling.Load() == 0
}

// beginLocked sets the run of a job. It ends the run's context if the job is canceled or
// does not run. It returns the entry if the job runs.
func (q *Queue) beginLocked(id string, j amboy.Job, run *localRun) *localEntry {
	q.mu.Lock()
	e, ok := q.find(id, j)
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

// localRun is the context of one run of a job. Most jobs never ask for Done, so the
// cancelable context is made only when it is needed.
type localRun struct {
	parent     context.Context
	state      atomic.Uint32                 // runOver when the job has returned
	cancelable atomic.Pointer[cancelableRun] // nil until it is needed
}

// The states of a localRun.
const (
	runUnused uint32 = iota
	runBegun
	runOver
)

// newLocalRun returns a run, which is part of the entry if it is the first one. e may be nil.
func newLocalRun(parent context.Context, e *localEntry) *localRun {
	if e == nil || !e.Job.first.state.CompareAndSwap(runUnused, runBegun) {
		return &localRun{parent: parent}
	}
	e.Job.first.parent = parent
	return &e.Job.first
}

// cancelableRun is a context that can be canceled.
type cancelableRun struct {
	context.Context
	cancel context.CancelCauseFunc
}

// cancel ends the context of a run that is not over.
func (r *localRun) cancel(cause error) {
	if !r.isOver() {
		r.makeCancelable().cancel(cause)
	}
}

// end is called when the run is over.
func (r *localRun) end() {
	r.state.Store(runOver)
	if made := r.cancelable.Load(); made != nil {
		made.cancel(context.Canceled)
	}
}

// isOver reports whether the job has returned. It returns true for nil, a run without a
// call of JobContext.
func (r *localRun) isOver() bool { return r == nil || r.state.Load() == runOver }

// makeCancelable returns the cancelable context, and makes it if needed. A concurrent end
// of the run either finds it, or makeCancelable sees that the run is over.
func (r *localRun) makeCancelable() *cancelableRun {
	if made := r.cancelable.Load(); made != nil {
		return made
	}
	ctx, cancel := context.WithCancelCause(r.parent)
	made := &cancelableRun{ctx, cancel}
	if !r.cancelable.CompareAndSwap(nil, made) {
		cancel(nil) // another goroutine was faster
		return r.cancelable.Load()
	}
	if r.isOver() {
		cancel(context.Canceled)
	}
	return made
}

// current returns the context that knows the state of the run: its parent as long as
// there is no cancelable one.
func (r *localRun) current() context.Context {
	if !r.isOver() && r.cancelable.Load() == nil {
		return r.parent
	}
	return r.makeCancelable()
}

// Done implements context.Context.
func (r *localRun) Done() <-chan struct{} { return r.makeCancelable().Done() }

// Err implements context.Context.
func (r *localRun) Err() error { return r.current().Err() }

// Value implements context.Context. Package context also uses it to find the cause of the
// end.
func (r *localRun) Value(key any) any { return r.current().Value(key) }

// Deadline implements context.Context.
func (r *localRun) Deadline() (time.Time, bool) { return r.parent.Deadline() }
