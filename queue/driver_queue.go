package queue

import (
	"errors"
	"fmt"
	"time"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/driver"
)

// DriverQueueOptions configure a queue over a storage driver.
type DriverQueueOptions struct {
	// Driver stores the jobs. It is required.
	Driver driver.Driver
	// CloseDriver makes the queue's Close close the driver too. Otherwise the
	// driver may serve other queues, and whoever made it closes it.
	CloseDriver bool
	// NumWorkers is the number of jobs that run at once. It must be at least 1.
	NumWorkers int
	// Format is the form in which jobs are stored. Default: BSON.
	Format amboy.Format
	// LockTimeout is the age at which the lease of a running job is stale, so
	// that another queue takes the job over. Leases are renewed every quarter
	// of it. Default: amboy.LockTimeout.
	LockTimeout time.Duration
	// PollInterval is how often a queue with a free worker asks a driver that is
	// no driver.Notifier for jobs that other processes put. The waits vary
	// between half of it and one and a half, so that many processes do not ask
	// at once. Default: one second.
	PollInterval time.Duration
	// Retryable configures how jobs are retried.
	Retryable RetryableQueueOptions
}

const defaultPollInterval = time.Second

// Validate sets the defaults. It returns an error that names every field that
// is missing or out of range.
func (o *DriverQueueOptions) Validate() error {
	var errs []error
	if o.Driver == nil {
		errs = append(errs, errors.New("invalid driver queue options: Driver must not be nil"))
	}
	if o.NumWorkers < 1 {
		errs = append(errs, fmt.Errorf("invalid driver queue options: NumWorkers must be at least 1 (is %d)", o.NumWorkers))
	}
	if !o.Format.IsValid() {
		errs = append(errs, fmt.Errorf("invalid driver queue options: Format must be BSON, BSON2 or JSON (is %d)", o.Format))
	}
	if o.LockTimeout < 0 {
		errs = append(errs, fmt.Errorf("invalid driver queue options: LockTimeout must not be negative (is %s)", o.LockTimeout))
	}
	if o.PollInterval < 0 {
		errs = append(errs, fmt.Errorf("invalid driver queue options: PollInterval must not be negative (is %s)", o.PollInterval))
	}
	if o.LockTimeout == 0 {
		o.LockTimeout = amboy.LockTimeout
	}
	if o.PollInterval == 0 {
		o.PollInterval = defaultPollInterval
	}
	if err := o.Retryable.Validate(); err != nil {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// NewDriverQueue returns a queue that holds jobs in their stored form, in the
// store that a driver gives. Their types must be registered, what a job does to
// itself is seen by others when it has ended, and Get returns a copy. It retries
// jobs. Jobs may be put before it is started. It returns an error for options
// that are not valid.
func NewDriverQueue(opts DriverQueueOptions) (amboy.RetryableQueue, error) {
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	return newEngine(opts)
}

// RetryableQueueOptions configure how a queue retries jobs.
type RetryableQueueOptions struct {
	// RetryHandler configures the handler that replaces a job by its next
	// attempt.
	RetryHandler amboy.RetryHandlerOptions
	// StaleRetryingMonitorInterval is how often the queue looks for jobs that
	// a retry handler, or a worker, left behind. Default: one minute.
	StaleRetryingMonitorInterval time.Duration
}

const defaultMonitorInterval = time.Minute

// Validate sets the defaults. It returns an error that names every field that
// is out of range.
func (o *RetryableQueueOptions) Validate() error {
	var errs []error
	if err := o.RetryHandler.Validate(); err != nil {
		errs = append(errs, err)
	}
	if o.StaleRetryingMonitorInterval < 0 {
		errs = append(errs, fmt.Errorf("invalid retryable queue options: StaleRetryingMonitorInterval must not be negative (is %s)", o.StaleRetryingMonitorInterval))
	}
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	if o.StaleRetryingMonitorInterval == 0 {
		o.StaleRetryingMonitorInterval = defaultMonitorInterval
	}
	return nil
}
