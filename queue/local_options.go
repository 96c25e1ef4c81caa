package queue

import (
	"errors"
	"fmt"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/internal/local"
)

// LocalOptions configure a local queue.
type LocalOptions struct {
	// NumWorkers is the number of jobs that run at once. It must be at least 1.
	NumWorkers int
	// Capacity is the maximum number of waiting jobs; running and finished jobs are not
	// counted. Put blocks while the queue is full. 0 means no limit.
	Capacity int
	// KeepFinished is the number of finished jobs that the queue keeps for Get, Results
	// and JobInfo. The default is Capacity, or 10,000 if Capacity is 0.
	KeepFinished int
	// PutBeforeStart allows Put before Start, so that the first job to run is chosen
	// among all of them.
	PutBeforeStart bool
	// ForwardEdges allows a job to depend on a job that is put later. Start returns an
	// error while edges to missing jobs exist. After Start such edges are refused. It
	// requires PutBeforeStart.
	ForwardEdges bool
	// RetryPolicy decides how long the next attempt waits if the job itself does not
	// decide (see amboy.RetryDelay). Default: nil, which means no wait.
	RetryPolicy amboy.RetryPolicy
	// Middleware wraps the running and the putting of jobs. The first is the
	// outermost.
	Middleware []amboy.Middleware
}

const defaultKeepFinished = 10_000

// Validate sets the defaults. It returns an error that names every field that is out of
// range; it changes nothing then.
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
		errs = append(errs, errors.New("invalid local queue options: ForwardEdges requires PutBeforeStart"))
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

// NewLocal returns a queue that holds jobs by reference, in this process. It honors
// priorities, schedules, deadlines, scopes and dependencies, and retries jobs: the next
// attempt of a job is the same job value. It returns an error if the options are not
// valid.
func NewLocal(opts LocalOptions) (amboy.Queue, error) {
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	q := local.New(local.Options(opts), nil)
	if err := q.Use(opts.Middleware...); err != nil {
		return nil, err
	}
	return q, nil
}

// NewLocalLimitedSize returns a local queue with a number of workers. It holds at most
// capacity waiting jobs, and keeps the same number of finished jobs. It must be started
// before jobs are put. If an argument is less than 1, Start and Put return an error that
// says so.
func NewLocalLimitedSize(workers, capacity int) amboy.Queue {
	return newBounded(LocalOptions{NumWorkers: workers, Capacity: capacity})
}

// NewLocalPriority is NewLocalLimitedSize for a queue to which jobs can be put before
// Start, so that the job with the highest priority of all runs first.
func NewLocalPriority(workers, capacity int) amboy.Queue {
	return newBounded(LocalOptions{NumWorkers: workers, Capacity: capacity, PutBeforeStart: true})
}

// NewLocalOrdered is NewLocalPriority for jobs that depend on each other: before Start
// they may be put in any order. Start returns an error while a job depends on a job that
// was not put.
func NewLocalOrdered(workers, capacity int) amboy.Queue {
	return newBounded(LocalOptions{NumWorkers: workers, Capacity: capacity, PutBeforeStart: true, ForwardEdges: true})
}

// newBounded makes a queue for constructors that return no error. A queue with invalid
// options refuses jobs and Start.
func newBounded(opts LocalOptions) *local.Queue {
	err := opts.Validate()
	if err == nil && opts.Capacity == 0 {
		err = errors.New("invalid local queue options: capacity must be at least 1 (is 0)")
	}
	return local.New(local.Options(opts), err)
}
