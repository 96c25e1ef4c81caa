package amboy

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// RunFunc runs an attempt of a job, and returns its error. That of a job that
// reported errors wraps what its Error method returns; that of one that is to run
// again later is a *SnoozeError.
type RunFunc func(ctx context.Context, j Job) error

// PutFunc puts jobs, one for Put and several for PutMany. Its error is that of
// PutMany: it wraps that of every job that was not added.
type PutFunc func(ctx context.Context, jobs []Job) error

// Middleware wraps the running of a queue's jobs, the putting, or both. Either
// field may be nil. A queue calls the fields, in any goroutine, when it is made
// and at each Use, to wrap what comes after; what they return is called for each
// job, and must be safe for concurrent use.
//
// What Run returns is called by runners around each attempt, with the context that
// the job is to have. It may pass another one on. An error that it returns on its
// own account, without wrapping that of next, is added to the job's, as by
// AddRetryableError, and so is a panic. An error that it marks with NonRetryable,
// and a *CancelError, keep the job from being retried; a *SnoozeError makes it run
// again later. It can't take back an error of the job's. Where it does not call
// next the job does not run, and ends as what is returned says.
//
// What Put returns is called once for each Put and PutMany, also for jobs that the
// queue is about to refuse, but for nil ones. It may change the jobs, and put others,
// fewer or more. The next attempts of jobs are not put again.
type Middleware struct {
	Run func(next RunFunc) RunFunc
	Put func(next PutFunc) PutFunc
}

// MiddlewareQueue is implemented by queues that have middleware.
type MiddlewareQueue interface {
	// Use adds middleware inside of what the queue has. The first is the
	// outermost. It returns an error that wraps ErrAlreadyStarted once the queue
	// has started, and one for middleware that returns a nil function or panics;
	// then nothing is added.
	Use(mw ...Middleware) error
	// RunFunc is what runners call in the place of RunAttempt; nil where there is
	// no middleware for that. It does not change once the queue has started.
	RunFunc() RunFunc
}

// Use adds middleware to a queue that has not started, inside of what it has. The
// first is the outermost. It returns an error where the queue can't have
// middleware, and that of MiddlewareQueue.Use. It is safe for concurrent use.
func Use(q Queue, mw ...Middleware) error {
	user, ok := q.(MiddlewareQueue)
	if !ok {
		return fmt.Errorf("adding middleware to queue %q: a %T can't have any", q.ID(), q)
	}
	return user.Use(mw...)
}

// RunFuncOf is how runners run the jobs of a queue: RunAttempt inside of its
// middleware, where it has some.
func RunFuncOf(q Queue) RunFunc {
	if m, ok := q.(MiddlewareQueue); ok {
		if run := m.RunFunc(); run != nil {
			return run
		}
	}
	return RunAttempt
}

// ChainRun returns a RunFunc that runs jobs inside of middleware, of which the first
// is the outermost; nil where none of it has a Run. It is for implementations of
// MiddlewareQueue. It returns an error for middleware that returns nil or panics.
func ChainRun(mw ...Middleware) (RunFunc, error) {
	run, wrapped := RunFunc(RunAttempt), false
	for i, m := range slices.Backward(mw) {
		if m.Run == nil {
			continue
		}
		inner := run
		err := recoverPanic(func() error {
			run = m.Run(inner)
			return nil
		})
		if err == nil && run == nil {
			err = errors.New("it must not be nil")
		}
		if err != nil {
			return nil, fmt.Errorf("asking middleware %d of %d for its RunFunc: %w", i+1, len(mw), err)
		}
		wrapped = true
	}
	if !wrapped {
		return nil, nil
	}
	return func(ctx context.Context, j Job) error {
		err := recoverPanic(func() error { return run(ctx, j) })
		if err != nil {
			settleRun(j, err)
		}
		return err
	}, nil
}

// settleRun tells a job what its middleware made of its attempt.
func settleRun(j Job, err error) {
	var ofJob *attemptError
	var snooze *SnoozeError
	switch {
	case errors.As(err, &snooze):
		if s, ok := j.(SnoozableJob); ok {
			s.Snooze(snooze.Time())
			return
		}
		j.AddRetryableError(fmt.Errorf("a job of Go type %T can't be snoozed: %w", j, err))
	case !errors.As(err, &ofJob):
		j.AddRetryableError(err)
	case IsNonRetryable(err) && j.RetryInfo().NeedsRetry:
		j.UpdateRetryInfo(JobRetryOptions{NeedsRetry: new(false)})
	}
}

// ChainPut returns a PutFunc that calls next inside of middleware, of which the
// first is the outermost; nil where none of it has a Put. A panic of middleware is
// an error of what it returns. It is for implementations of MiddlewareQueue. It
// returns an error for middleware that returns nil or panics.
func ChainPut(next PutFunc, mw ...Middleware) (PutFunc, error) {
	put, wrapped := next, false
	for i, m := range slices.Backward(mw) {
		if m.Put == nil {
			continue
		}
		inner := put
		err := recoverPanic(func() error {
			put = m.Put(inner)
			return nil
		})
		if err == nil && put == nil {
			err = errors.New("it must not be nil")
		}
		if err != nil {
			return nil, fmt.Errorf("asking middleware %d of %d for its PutFunc: %w", i+1, len(mw), err)
		}
		wrapped = true
	}
	if !wrapped {
		return nil, nil
	}
	return func(ctx context.Context, jobs []Job) error {
		if !slices.ContainsFunc(jobs, IsNilJob) {
			return recoverPanic(func() error { return put(ctx, jobs) })
		}
		jobs = slices.DeleteFunc(slices.Clone(jobs), IsNilJob)
		errs := []error{errNilJob}
		if len(jobs) > 0 {
			errs = append(errs, recoverPanic(func() error { return put(ctx, jobs) }))
		}
		return CollateWriteErrors(errs)
	}, nil
}

// queueKey is the key of the queue in contexts.
type queueKey struct{}

// ContextWithQueue returns a context that carries the queue whose jobs run under
// it. It is for runners, which call it once.
func ContextWithQueue(ctx context.Context, q Queue) context.Context {
	return context.WithValue(ctx, queueKey{}, q)
}

// QueueFromContext returns the queue of the job that runs under a context, for a
// job that puts others; nil under any other context, such as that of RunJob.
func QueueFromContext(ctx context.Context) Queue {
	q, _ := ctx.Value(queueKey{}).(Queue)
	return q
}
