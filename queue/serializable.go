package queue

import (
	"errors"
	"fmt"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/driver/memory"
)

// LocalLimitedSizeSerializableOptions configure a queue in memory that holds jobs in
// their stored form.
type LocalLimitedSizeSerializableOptions struct {
	// NumWorkers is the number of jobs that run at once. It must be at least 1.
	NumWorkers int
	// Capacity is the maximum number of waiting jobs, and the number of finished jobs
	// that are kept. It must be at least 1.
	Capacity int
	// Retryable configures how jobs are retried.
	Retryable RetryableQueueOptions
	// Middleware wraps the running and the putting of jobs. The first is the
	// outermost.
	Middleware []amboy.Middleware
}

// Validate sets the defaults. It returns an error that names every field that is out of
// range.
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

// NewLocalLimitedSizeSerializable is NewLocalLimitedSizeSerializableWithOptions with the
// default options for retries.
func NewLocalLimitedSizeSerializable(workers, capacity int) (amboy.RetryableQueue, error) {
	return NewLocalLimitedSizeSerializableWithOptions(LocalLimitedSizeSerializableOptions{
		NumWorkers: workers,
		Capacity:   capacity,
	})
}

// NewLocalLimitedSizeSerializableWithOptions returns a queue in memory that holds jobs in
// their stored form, like queues on a database. Job types must be registered, changes
// that a job makes to itself are visible to other callers only after the job has ended,
// and Get returns a copy. Jobs are retried. While the queue is full, Put blocks; before
// Start it returns an error instead. NewLocalLimitedSizeSerializableWithOptions returns
// an error if the options are not valid.
func NewLocalLimitedSizeSerializableWithOptions(opts LocalLimitedSizeSerializableOptions) (amboy.RetryableQueue, error) {
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	store, err := memory.New(memory.Options{Capacity: opts.Capacity, KeepFinished: opts.Capacity})
	if err != nil {
		return nil, fmt.Errorf("making a serializable queue: %w", err)
	}
	return NewDriverQueue(DriverQueueOptions{
		Driver:      store,
		CloseDriver: true,
		NumWorkers:  opts.NumWorkers,
		Format:      amboy.JSON,
		LockTimeout: amboy.LockTimeout,
		Retryable:   opts.Retryable,
		Middleware:  opts.Middleware,
	})
}
