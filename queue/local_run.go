package queue

import (
	"context"
	"sync"
	"time"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/internal/schedule"
)

var _ amboy.JobContexter = (*local)(nil)

// JobContext derives a context that ends when somebody cancels the job, or completes
// it while it runs.
func (q *local) JobContext(ctx context.Context, j amboy.Job) (context.Context, context.CancelFunc) {
	run := &localRun{parent: ctx}
	q.mu.Lock()
	e, ok := q.schedule.Get(j.ID())
	running := ok && e.Place() == schedule.Running
	if running {
		e.Job.run = run
	}
	_, canceled := q.cancels[e]
	q.mu.Unlock()
	switch {
	case !running:
		run.cancel(amboy.ErrLeaseLost)
	case canceled:
		run.cancel(amboy.ErrAborted)
	}
	return run, run.end
}

// localRun is the context of one run of a job. Most jobs never ask when theirs ends.
// Until one does there is nothing but this.
type localRun struct {
	parent context.Context

	mu    sync.Mutex
	asked *askedRun // nil until somebody wants to know when it ends
	over  bool      // the job has returned
}

// askedRun is a context that can be canceled.
type askedRun struct {
	context.Context
	cancel context.CancelCauseFunc
}

// cancel ends the context of a run that is not over.
func (r *localRun) cancel(cause error) {
	r.mu.Lock()
	var asked *askedRun
	if !r.over {
		asked = r.ask()
	}
	r.mu.Unlock()
	if asked != nil {
		asked.cancel(cause)
	}
}

// end is called when the run is over.
func (r *localRun) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.over = true
	if r.asked != nil {
		r.asked.cancel(context.Canceled)
	}
}

// isOver tells whether the job has returned. A run that nobody tells of counts as
// over.
func (r *localRun) isOver() bool {
	if r == nil {
		return true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.over
}

// ask returns the context that can be canceled. The caller holds the lock.
func (r *localRun) ask() *askedRun {
	if r.asked == nil {
		ctx, cancel := context.WithCancelCause(r.parent)
		r.asked = &askedRun{ctx, cancel}
		if r.over {
			cancel(context.Canceled)
		}
	}
	return r.asked
}

// current is the context that says more than this one can.
func (r *localRun) current() context.Context {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.asked == nil && !r.over {
		return r.parent
	}
	return r.ask()
}

// Done implements context.Context.
func (r *localRun) Done() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ask().Done()
}

// Err implements context.Context.
func (r *localRun) Err() error { return r.current().Err() }

// Value implements context.Context. What it returns also tells package context of the
// cause of the end.
func (r *localRun) Value(key any) any { return r.current().Value(key) }

// Deadline implements context.Context.
func (r *localRun) Deadline() (time.Time, bool) { return r.parent.Deadline() }
