package job

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/mongodb/amboy"
)

// ErrNoJob is wrapped by the errors of functions whose context is not that of a
// job's run.
var ErrNoJob = errors.New("the context is not that of a job")

// runContext is the context of a job's run.
type runContext struct {
	context.Context
	job amboy.Job

	mu     sync.Mutex
	stored time.Time // when the progress was last stored
}

type runContextKey struct{}

// Value finds the runContext itself.
func (c *runContext) Value(key any) any {
	if key == (runContextKey{}) {
		return c
	}
	return c.Context.Value(key)
}

// NewContext returns a context for the run of a job, for FromContext and the other
// functions of this package that take one. Typed jobs have it already; a job that is
// written by hand begins its Run with
//
//	ctx = job.NewContext(ctx, j)
func NewContext(ctx context.Context, j amboy.Job) context.Context {
	return &runContext{Context: ctx, job: j}
}

func runOf(ctx context.Context) *runContext {
	run, _ := ctx.Value(runContextKey{}).(*runContext)
	return run
}

// FromContext returns the job that runs under a context; false where there is none.
func FromContext(ctx context.Context) (amboy.Job, bool) {
	run := runOf(ctx)
	if run == nil {
		return nil, false
	}
	return run.job, true
}

// IDFrom is the ID of the job that runs under a context; empty where there is none.
func IDFrom(ctx context.Context) string {
	if j, ok := FromContext(ctx); ok {
		return j.ID()
	}
	return ""
}

// AttemptFrom is the number of the attempt, from 0, of the job that runs under a
// context; 0 where there is none.
func AttemptFrom(ctx context.Context) int {
	if j, ok := FromContext(ctx); ok {
		return j.RetryInfo().CurrentAttempt
	}
	return 0
}

// Checkpoint replaces the arguments of the typed job that runs under a context, and
// stores them, so that every later run of the job begins with them: its next attempt,
// and the one after a crash, a hard stop or Snooze. The running function keeps the
// arguments that it was called with.
//
// It returns an error that wraps ErrNoJob where there is no job, an
// *amboy.InvalidJobError where A is not the type of the job's arguments, the cause of
// the end of the context where that has ended, and the error of the queue's Save; the
// arguments stay as they were then. It blocks as Save does. It is not safe for
// concurrent use.
func Checkpoint[A any](ctx context.Context, args A) error {
	j, ok := FromContext(ctx)
	if !ok {
		return fmt.Errorf("saving a checkpoint: %w", ErrNoJob)
	}
	own, ok := j.(*typed[A])
	if !ok {
		return &amboy.InvalidJobError{JobID: j.ID(), Field: "type of the checkpoint", Value: fmt.Sprintf("%T", args), Rule: "must be that of the arguments of the job's definition"}
	}
	if ctx.Err() != nil {
		return fmt.Errorf("saving a checkpoint of job %q: %w", j.ID(), context.Cause(ctx))
	}
	before := own.Arguments
	own.Arguments = args
	q := amboy.QueueFromContext(ctx)
	if q == nil {
		return nil
	}
	if err := q.Save(ctx, j); err != nil {
		own.Arguments = before
		return fmt.Errorf("saving a checkpoint: %w", err)
	}
	return nil
}
