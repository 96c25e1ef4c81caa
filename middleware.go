package amboy

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// RunFunc runs an attempt of a job and returns its error. If the job reported errors, the
// error wraps the result of its Error method. If the job asked to run again later, the
// error is a *SnoozeError.
type RunFunc func(ctx context.Context, j Job) error

// PutFunc puts jobs: one for Put, several for PutMany. Like PutMany, it returns an error
// that wraps the error of every job that was not added.
type PutFunc func(ctx context.Context, jobs []Job) error

// Middleware wraps how a queue runs jobs, how it puts them, or both. Either field may be
// nil. A queue calls the fields when it is made and at each Use, in any goroutine. The
// functions that they return are called for each job and must be safe for concurrent use.
//
// Runners call the function that Run returns around each attempt, with the job's context.
// It may pass another context on. If it returns an error that does not wrap the error of
// next, or panics, that is added to the job's errors as by AddRetryableError. An error
// marked by NonRetryable and a *CancelError prevent a retry; a *SnoozeError makes the job
// run again later. The function can't remove an error that the job reported. If it does
// not call next, the job does not run and ends according to the returned error.
//
// The function that Put returns is called once for each Put and PutMany, with all jobs
// except nil ones, even jobs that the queue will refuse. It may change the jobs, and put
// different, fewer or more jobs. It is not called for the next attempt of a job.
type Middleware struct {
	Run func(next RunFunc) RunFunc
	Put func(next PutFunc) PutFunc
}

// MiddlewareQueue is implemented by queues that support middleware.
type MiddlewareQueue interface {
	// Use adds middleware inside the middleware that the queue already has. The first
	// argument is the outermost. It adds nothing and returns an error if the queue has
	// started, which wraps ErrAlreadyStarted, and if middleware returns a nil function
	// or panics.
	Use(mw ...Middleware) error
	// RunFunc is what runners call instead of RunAttempt. It is nil if no middleware
	// wraps runs. It does not change after the queue has started.
	RunFunc() RunFunc
}

// Use adds middleware to a queue that has not started, inside the middleware that it
// already has. The first argument is the outermost. It returns an error if the queue is
// not a MiddlewareQueue, and otherwise the error of its Use method. It is safe for
// concurrent use.
func Use(q Queue, mw ...Middleware) error {
	user, err := as[MiddlewareQueue](q, "adding middleware to")
	if err != nil {
		return err
	}
	return user.Use(mw...)
}

// RunFuncOf returns the function with which runners run the jobs of a queue: RunAttempt,
// wrapped in the queue's middleware if it has any.
func RunFuncOf(q Queue) RunFunc {
	if m, ok := q.(MiddlewareQueue); ok {
		if run := m.RunFunc(); run != nil {
			return run
		}
	}
	return RunAttempt
}

// ChainRun wraps RunAttempt in middleware, of which the first is the outermost. It returns
// nil if no middleware has a Run, and an error if one returns nil or panics. It is for
// implementations of MiddlewareQueue.
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

// settleRun records on the job the error that its middleware returned.
func settleRun(j Job, err error) {
	var jobErr *attemptError
	var snooze *SnoozeError
	switch {
	case errors.As(err, &snooze):
		if s, ok := j.(SnoozableJob); ok {
			s.Snooze(snooze.Time())
			return
		}
		j.AddRetryableError(fmt.Errorf("a job of Go type %T can't be snoozed: %w", j, err))
	case !errors.As(err, &jobErr):
		j.AddRetryableError(err)
	case IsNonRetryable(err) && j.RetryInfo().NeedsRetry:
		j.UpdateRetryInfo(JobRetryOptions{NeedsRetry: new(false)})
	}
}

// ChainPut wraps next in middleware, of which the first is the outermost. It returns nil if
// no middleware has a Put, and an error if one returns nil or panics. The returned function
// turns a panic of middleware into an error. It is for implementations of MiddlewareQueue.
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

// queueKey is the context key of the queue.
type queueKey struct{}

// ContextWithQueue returns a context that carries the queue whose jobs run under it. It is
// for runners, which call it once.
func ContextWithQueue(ctx context.Context, q Queue) context.Context {
	return context.WithValue(ctx, queueKey{}, q)
}

// QueueFromContext returns the queue of the job that runs under ctx, for a job that puts
// other jobs. It returns nil for any other context, including that of RunJob.
func QueueFromContext(ctx context.Context) Queue {
	q, _ := ctx.Value(queueKey{}).(Queue)
	return q
}
