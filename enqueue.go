package amboy

import (
	"context"
	"errors"
	"fmt"
)

// EnqueueUniqueJob puts a job, and counts it as success where its ID is taken
// already, or its unique key (see UniqueJob). Where one of its enqueue scopes is held that is an error, for which
// IsDuplicateJobScopeError is true. It blocks as Put does and is safe for
// concurrent use.
func EnqueueUniqueJob(ctx context.Context, q Queue, j Job) error {
	return withoutDuplicateJobs(putJob(ctx, q, j))
}

// EnqueueManyUniqueJobs puts jobs, trying all of them, and counts it as success
// where the ID or the unique key of one is taken already. All other errors stay,
// among them those of jobs whose enqueue scopes are held. It blocks as PutMany does
// and is safe for concurrent use.
func EnqueueManyUniqueJobs(ctx context.Context, q Queue, jobs []Job) error {
	if err := withoutDuplicateJobs(q.PutMany(ctx, jobs)); err != nil {
		return fmt.Errorf("putting unique jobs in queue %q: %w", q.ID(), err)
	}
	return nil
}

// PopulateQueue puts every job that the channel gives. It blocks until the
// channel is closed or ctx ends; after ctx has ended nothing reads the channel
// any more, so whoever sends to it must watch ctx too. A job that can't be put
// does not keep the later ones out. The error is that of CollateWriteErrors
// about all the jobs that were not put; it keeps the errors of the first 100 of
// them, and of the others their number and the worst. Where ctx ended first it
// also wraps the cause of that.
func PopulateQueue(ctx context.Context, q Queue, jobs <-chan Job) error {
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
	stopped := fmt.Errorf("populating queue %q: stopped before the end of the jobs: %w", q.ID(), context.Cause(ctx))
	return CollateWriteErrors(append(errs.all(), stopped))
}

// putJob puts a job and says in the error which job and queue it was.
func putJob(ctx context.Context, q Queue, j Job) error {
	if IsNilJob(j) {
		return fmt.Errorf("putting a job in queue %q: %w", q.ID(), errNilJob)
	}
	if err := q.Put(ctx, j); err != nil {
		return fmt.Errorf("putting job %q in queue %q: %w", j.ID(), q.ID(), err)
	}
	return nil
}

// withoutDuplicateJobs leaves out of an error what says only that the ID or the
// unique key of a job is taken, and returns nil where nothing else is in it. Where err is about
// several jobs each of their errors is looked at, so that a duplicate job never
// hides what became of another.
func withoutDuplicateJobs(err error) error {
	for e := err; e != nil; e = errors.Unwrap(e) {
		switch e := e.(type) { //nolint:errorlint // The loop unwraps.
		case *duplicateJobScopeError:
			return err
		case *duplicateJobError:
			if IsDuplicateJobScopeError(e) {
				return err
			}
			return nil
		case interface{ Unwrap() []error }:
			var kept []error
			for _, one := range e.Unwrap() {
				kept = append(kept, withoutDuplicateJobs(one))
			}
			return CollateWriteErrors(kept)
		}
	}
	return err
}

// maxBoundedErrors is the number of errors that boundedErrors keeps.
const maxBoundedErrors = 100

// boundedErrors gathers errors about jobs. It keeps the first ones, and of the
// others their number and the worst.
type boundedErrors struct {
	first []error
	more  int
	worst error
}

// add gathers an error; nil does nothing.
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

// all returns what was kept, of which CollateWriteErrors makes an error of the
// same kind as of all that was gathered.
func (b *boundedErrors) all() []error {
	if b.more == 0 {
		return b.first
	}
	return append(b.first, fmt.Errorf("%d more errors, of which the worst: %w", b.more, b.worst))
}
