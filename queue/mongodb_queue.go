package queue

import (
	"context"
	"errors"
	"fmt"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/contain"
	"github.com/mongodb/amboy/pool"
	"github.com/mongodb/amboy/queue/driver/mongodb"
)

// MongoDBQueueOptions configure a queue whose jobs are stored in MongoDB. A nil field is
// not set: it has its default, or the value of other options (see
// MongoDBQueueGroupOptions).
type MongoDBQueueOptions struct {
	// DB configures where the jobs are stored. It is required.
	DB *MongoDBOptions
	// NumWorkers is the number of jobs that run at once in this process. It must be at
	// least 1. NumWorkers or WorkerPoolSize is required.
	NumWorkers *int
	// WorkerPoolSize returns the number of workers for a queue name: the name in the
	// group, or the collection if the queue has its own. If it returns 0 or less,
	// NumWorkers is used.
	WorkerPoolSize func(string) int
	// Abortable makes the runner an amboy.AbortableRunner, which lists the jobs that run
	// in this process and can abort them. Default: false.
	Abortable *bool
	// Retryable configures how jobs are retried.
	Retryable *RetryableQueueOptions
	// Middleware wraps the running and the putting of jobs. The first is the
	// outermost.
	Middleware []amboy.Middleware
}

var _ amboy.QueueOptions = (*MongoDBQueueOptions)(nil)

// Validate sets the defaults within DB and Retryable. It returns an error that names
// every field that is missing or out of range.
func (o *MongoDBQueueOptions) Validate() error {
	errs := []error{o.validateWorkers()}
	if o.NumWorkers == nil && o.WorkerPoolSize == nil {
		errs = append(errs, invalidMongoDBQueue("NumWorkers or WorkerPoolSize must be set"))
	}
	if o.DB == nil {
		errs = append(errs, invalidMongoDBQueue("DB must be set"))
	} else if err := o.DB.Validate(); err != nil {
		errs = append(errs, invalidMongoDBQueue("DB: %w", err))
	}
	if o.Retryable != nil {
		if err := o.Retryable.Validate(); err != nil {
			errs = append(errs, invalidMongoDBQueue("Retryable: %w", err))
		}
	}
	return errors.Join(errs...)
}

func invalidMongoDBQueue(format string, args ...any) error {
	return fmt.Errorf("invalid MongoDB queue options: "+format, args...)
}

// validateWorkers returns an error if NumWorkers is out of range.
func (o *MongoDBQueueOptions) validateWorkers() error {
	if o.NumWorkers != nil && *o.NumWorkers < 1 {
		return invalidMongoDBQueue("NumWorkers must be at least 1 (is %d)", *o.NumWorkers)
	}
	return nil
}

// BuildQueue calls NewMongoDBQueue with the options.
func (o *MongoDBQueueOptions) BuildQueue(ctx context.Context) (amboy.Queue, error) {
	return NewMongoDBQueue(ctx, *o)
}

// NewMongoDBQueue returns a queue whose jobs are stored in MongoDB. It is a queue like
// those of NewDriverQueue. It shares its jobs with all processes that open a queue with
// the same database, collection and name, including processes with the legacy library.
// Start on a started queue does nothing.
//
// NewMongoDBQueue blocks until it has connected and has found or built the indexes, or
// until ctx ends. If ctx ends later, the queue closes unless it was started; after Start,
// only the context of Start counts. So do not pass a ctx with a timeout for the call; set
// serverSelectionTimeoutMS in the URI instead. NewMongoDBQueue returns an error if the
// options are not valid, if no server answers, or if the indexes can't be built.
func NewMongoDBQueue(ctx context.Context, opts MongoDBQueueOptions) (amboy.RetryableQueue, error) {
	opts = opts.copied()
	if err := opts.Validate(); err != nil {
		return nil, fmt.Errorf("making a MongoDB queue: %w", err)
	}
	name := opts.DB.Collection
	if opts.DB.UseGroups {
		name = opts.DB.GroupName
	}
	driverOpts, err := opts.driverOptions(name)
	if err != nil {
		return nil, fmt.Errorf("making a MongoDB queue: %w", err)
	}
	driverOpts.Name = opts.DB.queueName()
	store, err := mongodb.Open(ctx, opts.DB.storeOptions())
	if err != nil {
		return nil, fmt.Errorf("making a MongoDB queue: %w", err)
	}
	driverOpts.Driver, driverOpts.CloseDriver = store, true
	q, err := newQueueWithEngine(driverOpts)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("making a MongoDB queue: %w", err), store.Close(ctx))
	}
	q.MadeWith(ctx)
	return q, nil
}

// copied returns a copy that can be validated, which sets defaults, without changing the
// caller's options.
func (o MongoDBQueueOptions) copied() MongoDBQueueOptions {
	if o.DB != nil {
		o.DB = new(*o.DB)
	}
	if o.Retryable != nil {
		o.Retryable = new(*o.Retryable)
	}
	return o
}

// driverOptions returns the options of a queue, except for the driver. o must be valid.
// It returns an error if WorkerPoolSize panics or returns no valid number.
func (o *MongoDBQueueOptions) driverOptions(name string) (DriverQueueOptions, error) {
	workers, err := o.workers(name)
	if err != nil {
		return DriverQueueOptions{}, err
	}
	opts := DriverQueueOptions{
		NumWorkers:   workers,
		Format:       o.DB.Format,
		Codec:        o.DB.Codec,
		LockTimeout:  o.DB.LockTimeout,
		PollInterval: o.DB.WaitInterval,
		Retention:    o.DB.retention(),
		Middleware:   o.Middleware,
		startAgain:   true,
	}
	if o.Retryable != nil {
		opts.Retryable = *o.Retryable
	}
	if o.Abortable != nil && *o.Abortable {
		opts.NewRunner = func(q amboy.Queue) (amboy.Runner, error) { return pool.NewAbortablePool(workers, q), nil }
	}
	return opts, nil
}

// workers returns the number of workers of a queue.
func (o *MongoDBQueueOptions) workers(name string) (workers int, err error) {
	if o.WorkerPoolSize == nil {
		return *o.NumWorkers, nil
	}
	err = contain.Panic(func() error {
		workers = o.WorkerPoolSize(name)
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("calling WorkerPoolSize for queue %q: %w", name, err)
	}
	if workers < 1 && o.NumWorkers != nil {
		return *o.NumWorkers, nil
	}
	if workers < 1 {
		return 0, invalidMongoDBQueue("WorkerPoolSize must be at least 1 if NumWorkers is not set (is %d for queue %q)", workers, name)
	}
	return workers, nil
}
