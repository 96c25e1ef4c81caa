package amboy

import (
	"context"
	"errors"
	"fmt"
)

// EnqueueUniqueJob puts a job. It returns nil if the job's ID or unique key (see
// UniqueJob) is already taken. If another job holds one of its enqueue scopes, it returns
// an error for which IsDuplicateJobScopeError is true. It blocks as Put does and is safe
// for concurrent use.
func EnqueueUniqueJob(ctx context.Context, q Queue, j Job) error {
	return withoutDuplicateJobs(putJob(ctx, q, j))
}

// EnqueueManyUniqueJobs puts jobs. It tries all of them, and ignores jobs whose ID or
// unique key is already taken. It returns all other errors, including those of jobs whose
// enqueue scopes are held. It blocks as PutMany does and is safe for concurrent use.
func EnqueueManyUniqueJobs(ctx context.Context, q Queue, jobs []Job) error {
	if q == nil {
		return fmt.Errorf("putting unique jobs: %w", errNilQueue)
	}
	if err := withoutDuplicateJobs(q.PutMany(ctx, jobs)); err != nil {
		return fmt.Errorf("putting unique jobs in queue %q: %w", q.ID(), err)
	}
	return nil
}

// PopulateQueue puts every job that it receives from the channel. It blocks until the
// channel is closed or ctx ends. After ctx has ended nothing reads the channel, so a
// sender must stop when ctx ends too. If a job can't be put, PopulateQueue continues with
// the next. It returns the result of CollateWriteErrors for all jobs that were not put: it
// keeps the first 100 errors, and the number and the worst of the others. If ctx ended
// first, the error also wraps the cause.
func PopulateQueue(ctx context.Context, q Queue, jobs <-chan Job) error {
	if q == nil {
		return fmt.Errorf("populating a queue: %w", errNilQueue)
	}
	if jobs == nil {
		return fmt.Errorf("populating queue %q: the channel of jobs must not be nil", q.ID())
	}
	var errs boundedErrors
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case j, open := <-jobs:
			if !open {
				return CollateWriteErrors(errs.all())
			}
			errs.add(putJob(ctx, q, j))
		}
	}
	stopped := fmt.Errorf("populating queue %q: stopped before the channel was closed: %w", q.ID(), context.Cause(ctx))
	return CollateWriteErrors(append(errs.all(), stopped))
}

// putJob puts a job. Its error names the job and the queue.
func putJob(ctx context.Context, q Queue, j Job) error {
	if q == nil {
		return fmt.Errorf("putting a job: %w", errNilQueue)
	}
	if IsNilJob(j) {
		return fmt.Errorf("putting a job in queue %q: %w", q.ID(), errNilJob)
	}
	if err := q.Put(ctx, j); err != nil {
		return fmt.Errorf("putting job %q in queue %q: %w", j.ID(), q.ID(), err)
	}
	return nil
}

// withoutDuplicateJobs removes from err the errors that only say that the ID or the unique
// key of a job is taken, and returns nil if nothing is left. If err is about several jobs,
// it checks the error of each, so that a duplicate job never hides another job's error.
func withoutDuplicateJobs(err error) error {
	for one := err; one != nil; one = errors.Unwrap(one) {
		switch e := one.(type) { //nolint:errorlint // The loop unwraps.
		case *DuplicateJobError, *duplicateJobError, *duplicateJobScopeError:
			if IsDuplicateJobScopeError(one) {
				return err
			}
			return nil
		case interface{ Unwrap() []error }:
			var kept []error
			for _, part := range e.Unwrap() {
				kept = append(kept, withoutDuplicateJobs(part))
			}
			return CollateWriteErrors(kept)
		}
	}
	return err
}

// maxBoundedErrors is the number of errors that boundedErrors keeps.
const maxBoundedErrors = 100

// boundedErrors collects errors about jobs. It keeps the first ones, and the number and
// the worst of the others.
type boundedErrors struct {
	first []error
	more  int
	worst error
}

// add collects an error; it ignores nil.
func (b *boundedErrors) add(err error) {
	switch {
	case err == nil:
	case len(b.first) < maxBoundedErrors:
		b.first = append(b.first, err)
	default:
		b.more++
		if b.worst == nil || severityOf(err) > severityOf(b.worst) {
			b.worst = err
		}
	}
}

// all returns the collected errors. CollateWriteErrors of them has the same kind as
// CollateWriteErrors of all errors that were added.
func (b *boundedErrors) all() []error {
	if b.more == 0 {
		return b.first
	}
	return append(b.first, fmt.Errorf("%d more errors, the worst of which is: %w", b.more, b.worst))
}
