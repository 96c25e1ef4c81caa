package queue

import (
	"errors"
	"fmt"

	"github.com/mongodb/amboy"
)

// LocalOptions configure a local queue.
type LocalOptions struct {
	// NumWorkers is the number of jobs that run at once. It must be at least 1.
	NumWorkers int
	// Capacity is the number of jobs that may wait at a time (running and
	// finished ones are not counted); Put waits while there are as many. 0
	// means that there is no limit.
	Capacity int
	// KeepFinished is the number of finished jobs that the queue remembers, for
	// Get, Results and JobInfo. The default is Capacity, and 10,000 where that
	// is 0.
	KeepFinished int
	// PutBeforeStart lets jobs be put before the queue is started, so that the
	// first job to run is the first of all of them.
	PutBeforeStart bool
	// ForwardEdges lets a job depend on one that is put later. Start returns an
	// error while there are edges to jobs that were not put, and after Start
	// they are refused. It needs PutBeforeStart.
	ForwardEdges bool
	// RetryPolicy says how long the next attempt waits of a job that does not say
	// it itself (see amboy.RetryDelay). Default: nil, for not at all.
	RetryPolicy amboy.RetryPolicy
	// Middleware wraps the running and the putting of jobs. The first is the
	// outermost.
	Middleware []amboy.Middleware
}

const defaultKeepFinished = 10_000

// Validate sets the defaults. It returns an error that names every field that
// is out of range, and then changes nothing.
func (o *LocalOptions) Validate() error {
	var errs []error
	if o.NumWorkers < 1 {
		errs = append(errs, fmt.Errorf("invalid local queue options: NumWorkers must be at least 1 (is %d)", o.NumWorkers))
	}
	if o.Capacity < 0 {
		errs = append(errs, fmt.Errorf("invalid local queue options: Capacity must not be negative (is %d)", o.Capacity))
	}
	if o.KeepFinished < 0 {
		errs = append(errs, fmt.Errorf("invalid local queue options: KeepFinished must not be negative (is %d)", o.KeepFinished))
	}
	if o.ForwardEdges && !o.PutBeforeStart {
		errs = append(errs, errors.New("invalid local queue options: ForwardEdges needs PutBeforeStart"))
	}
	if err := amboy.ValidateRetryPolicy(o.RetryPolicy); err != nil {
		errs = append(errs, fmt.Errorf("invalid local queue options: RetryPolicy: %w", err))
	}
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	if o.KeepFinished == 0 {
		o.KeepFinished = o.Capacity
	}
	if o.KeepFinished == 0 {
		o.KeepFinished = defaultKeepFinished
	}
	return nil
}

// NewLocal returns a queue that holds jobs by reference, in this process. It
// honors priorities, schedules, deadlines, scopes and dependencies, and retries
// jobs: the next attempt of a job is the job itself. It returns an error for options
// that are not valid.
func NewLocal(opts LocalOptions) (amboy.Queue, error) {
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	q := newLocal(opts, nil)
	if err := q.Use(opts.Middleware...); err != nil {
		return nil, err
	}
	return q, nil
}

// NewLocalLimitedSize returns a local queue for a number of workers, which holds
// at most capacity waiting jobs and remembers as many finished ones. It must be
// started before jobs are put. Where a number is less than 1, Start and Put
// return an error that says so.
func NewLocalLimitedSize(workers, capacity int) amboy.Queue {
	return newBounded(LocalOptions{NumWorkers: workers, Capacity: capacity})
}

// NewLocalPriority is NewLocalLimitedSize for a queue that can be filled before
// it is started, so that the job with the highest priority of all runs first.
func NewLocalPriority(workers, capacity int) amboy.Queue {
	return newBounded(LocalOptions{NumWorkers: workers, Capacity: capacity, PutBeforeStart: true})
}

// NewLocalOrdered is NewLocalPriority for jobs that depend on each other: until
// the queue is started they may be put in any order. Start returns an error
// while a job depends on one that was not put.
func NewLocalOrdered(workers, capacity int) amboy.Queue {
	return newBounded(LocalOptions{NumWorkers: workers, Capacity: capacity, PutBeforeStart: true, ForwardEdges: true})
}

// newBounded makes a queue whose constructor has no error to return: a queue
// with invalid options refuses to start.
func newBounded(opts LocalOptions) *local {
	err := opts.Validate()
	if err == nil && opts.Capacity == 0 {
		err = errors.New("invalid local queue options: capacity must be at least 1 (is 0)")
	}
	return newLocal(opts, err)
}
