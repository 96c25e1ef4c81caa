package job

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/mongodb/amboy"
)

// ErrNoJob is wrapped by the errors of functions that need the context of a job's run and
// are called with another.
var ErrNoJob = errors.New("the context does not belong to a running job")

// runContext is the context of a job's run.
type runContext struct {
	context.Context
	job amboy.Job

	mu     sync.Mutex
	stored time.Time // when the progress was last stored
}

type runContextKey struct{}

// Value returns the runContext itself for its own key.
func (c *runContext) Value(key any) any {
	if key == (runContextKey{}) {
		return c
	}
	return c.Context.Value(key)
}

// NewContext returns a context for the run of a job, for FromContext and the other
// functions of this package that take a context. Typed jobs already have it. A
// hand-written job begins its Run with
//
//	ctx = job.NewContext(ctx, j)
func NewContext(ctx context.Context, j amboy.Job) context.Context {
	return &runContext{Context: ctx, job: j}
}

func runOf(ctx context.Context) *runContext {
	run, _ := ctx.Value(runContextKey{}).(*runContext)
	return run
}

// FromContext returns the job that runs under ctx, and false if there is none.
func FromContext(ctx context.Context) (amboy.Job, bool) {
	run := runOf(ctx)
	if run == nil {
		return nil, false
	}
	return run.job, true
}

// IDFrom returns the ID of the job that runs under ctx, or "" if there is none.
func IDFrom(ctx context.Context) string {
	if j, ok := FromContext(ctx); ok {
		return j.ID()
	}
	return ""
}

// AttemptFrom returns the number of the attempt, from 0, of the job that runs under ctx,
// or 0 if there is none.
func AttemptFrom(ctx context.Context) int {
	if j, ok := FromContext(ctx); ok {
		return j.RetryInfo().CurrentAttempt
	}
	return 0
}

// Checkpoint replaces the arguments of the typed job that runs under ctx, and stores them.
// Every later run of the job begins with them: the next attempt, and the next run after a
// crash, a hard stop or Snooze. The running function keeps the arguments that it was called
// with.
//
// It returns an error that wraps ErrNoJob if there is no job, an *amboy.InvalidJobError if
// A is not the type of the job's arguments, the cause if ctx has ended, and the error of
// the queue's Save. After an error the arguments are unchanged. It blocks as Save does. It
// is not safe for concurrent use.
func Checkpoint[A any](ctx context.Context, args A) error {
	j, ok := FromContext(ctx)
	if !ok {
		return fmt.Errorf("saving a checkpoint: %w", ErrNoJob)
	}
	own, ok := j.(*typed[A])
	if !ok {
		return &amboy.InvalidJobError{JobID: j.ID(), Field: "type of the checkpoint", Value: fmt.Sprintf("%T", args), Rule: "must be the type of the arguments of the job's definition"}
	}
	if ctx.Err() != nil {
		return fmt.Errorf("saving a checkpoint of job %q: %w", j.ID(), context.Cause(ctx))
	}
	before, payload := own.Arguments, own.payload
	own.Arguments, own.payload = args, nil
	q := amboy.QueueFromContext(ctx)
	if q == nil {
		return nil
	}
	if err := q.Save(ctx, j); err != nil {
		own.Arguments, own.payload = before, payload
		return fmt.Errorf("saving a checkpoint: %w", err)
	}
	return nil
}

// CompleteIn ends the job that runs under a context as succeeded, in the transaction that the
// context carries, so that the job ends if, and only if, what else the transaction does is
// committed:
//
//	if err := job.CompleteIn(postgres.WithTx(ctx, tx)); err != nil {
//		return err
//	}
//	return tx.Commit(ctx)
//
// In MongoDB the context is that of a session, and the function of its WithTransaction returns the error
// as it is, so that the transaction is repeated if the lease was renewed since it began.
//
// The transaction also checks the job's lease. After an error the caller must roll back. After
// CompleteIn the function should commit and return: its lease is not renewed any more, so that
// the transaction and the rest of the run must not take longer than half of the queue's lock
// timeout. Progress and lines that it reports from then on are stored only if the job does not
// end in the transaction. Once the transaction is committed the job has succeeded, whatever the
// function returns. If it is not committed and the function returns nil the attempt fails with an
// error that wraps amboy.ErrNotCommitted, and is retried if the job may be. A job of DefineResult
// leaves no result; see CompleteWithResultIn.
//
// The error wraps ErrNoJob if there is no job, and errors.ErrUnsupported if the queue is not an
// amboy.TransactionalCompleter; otherwise it is the queue's. Without a queue, as in amboy.RunJob,
// CompleteIn does nothing. It blocks as a statement of the transaction does.
func CompleteIn(ctx context.Context) error {
	j, ok := FromContext(ctx)
	if !ok {
		return fmt.Errorf("completing a job in a transaction: %w", ErrNoJob)
	}
	q := amboy.QueueFromContext(ctx)
	if q == nil {
		return nil
	}
	completer, ok := q.(amboy.TransactionalCompleter)
	if !ok {
		return fmt.Errorf("completing job %q in a transaction: queue %q of type %T does not support that: %w", j.ID(), q.ID(), q, errors.ErrUnsupported)
	}
	return completer.CompleteIn(ctx, j)
}

// CompleteWithResultIn is CompleteIn for a job of DefineResult, which leaves a result. It also
// returns an *amboy.InvalidJobError if R is not the type of the results of the job's definition.
func CompleteWithResultIn[R any](ctx context.Context, result R) error {
	j, ok := FromContext(ctx)
	if !ok {
		return fmt.Errorf("completing a job in a transaction: %w", ErrNoJob)
	}
	own, ok := j.(interface{ leave(result any) bool })
	if !ok || !own.leave(&result) {
		return &amboy.InvalidJobError{JobID: j.ID(), Field: "type of the result", Value: fmt.Sprintf("%T", result), Rule: "must be that of the results of the job's definition"}
	}
	return CompleteIn(ctx)
}
