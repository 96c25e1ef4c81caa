package queue

import (
	"errors"
	"fmt"
	"time"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/driver/memory"
)

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

// LocalLimitedSizeSerializableOptions configure a queue in memory that holds
// jobs in their stored form.
type LocalLimitedSizeSerializableOptions struct {
	// NumWorkers is the number of jobs that run at once. It must be at least 1.
	NumWorkers int
	// Capacity is the number of jobs that may wait at a time, and the number of
	// finished jobs that are remembered. It must be at least 1.
	Capacity int
	// Retryable configures how jobs are retried.
	Retryable RetryableQueueOptions
}

// Validate sets the defaults. It returns an error that names every field that
// is out of range.
func (o *LocalLimitedSizeSerializableOptions) Validate() error {
	var errs []error
	if o.NumWorkers < 1 {
		errs = append(errs, fmt.Errorf("invalid serializable queue options: NumWorkers must be at least 1 (is %d)", o.NumWorkers))
	}
	if o.Capacity < 1 {
		errs = append(errs, fmt.Errorf("invalid serializable queue options: Capacity must be at least 1 (is %d)", o.Capacity))
	}
	if err := o.Retryable.Validate(); err != nil {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// NewLocalLimitedSizeSerializable is
// NewLocalLimitedSizeSerializableWithOptions with the default options for
// retries.
func NewLocalLimitedSizeSerializable(workers, capacity int) (amboy.RetryableQueue, error) {
	return NewLocalLimitedSizeSerializableWithOptions(LocalLimitedSizeSerializableOptions{
		NumWorkers: workers,
		Capacity:   capacity,
	})
}

// NewLocalLimitedSizeSerializableWithOptions returns a queue in memory that
// holds jobs in their stored form, as the queues do that share a database: their
// types must be registered, what a job does to itself is seen by others when it
// has ended, and Get returns a copy. It retries jobs. While as many jobs wait as
// it has capacity for, Put waits. It returns an error for options that are not
// valid.
func NewLocalLimitedSizeSerializableWithOptions(opts LocalLimitedSizeSerializableOptions) (amboy.RetryableQueue, error) {
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	store, err := memory.New(memory.Options{Capacity: opts.Capacity, KeepFinished: opts.Capacity})
	if err != nil {
		return nil, fmt.Errorf("making a serializable queue: %w", err)
	}
	return newEngine("serializable", engineOptions{
		driver:      store,
		ownsDriver:  true,
		format:      amboy.JSON,
		workers:     opts.NumWorkers,
		lockTimeout: amboy.LockTimeout,
		retryable:   opts.Retryable,
	})
}
