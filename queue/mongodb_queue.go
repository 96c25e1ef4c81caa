package queue

import (
	"context"
	"errors"
	"fmt"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/pool"
	"github.com/mongodb/amboy/queue/driver/mongodb"
)

// MongoDBQueueOptions configure a queue whose jobs are in a MongoDB. A field that
// is nil is not set: it has its default, or what other options say (see
// MongoDBQueueGroupOptions).
type MongoDBQueueOptions struct {
	// DB tells where the jobs are. It is required.
	DB *MongoDBOptions
	// NumWorkers is the number of jobs that run at once in this process. It must be
	// at least 1. It, or WorkerPoolSize, is required.
	NumWorkers *int
	// WorkerPoolSize gives that number for the name of a queue: its name in the
	// group, or the collection of a queue that has one for itself. If it gives 0 or
	// less, NumWorkers counts.
	WorkerPoolSize func(string) int
	// Abortable makes the runner an amboy.AbortableRunner, which knows what runs
	// here and can abort it. Default: false.
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

// validateWorkers returns an error where what is set about workers is not valid.
func (o *MongoDBQueueOptions) validateWorkers() error {
	if o.NumWorkers != nil && *o.NumWorkers < 1 {
		return invalidMongoDBQueue("NumWorkers must be at least 1 (is %d)", *o.NumWorkers)
	}
	return nil
}

// BuildQueue is NewMongoDBQueue.
func (o *MongoDBQueueOptions) BuildQueue(ctx context.Context) (amboy.Queue, error) {
	return NewMongoDBQueue(ctx, *o)
}

// NewMongoDBQueue makes a queue whose jobs are in a MongoDB. It is a queue as
// NewDriverQueue makes them, which shares its jobs with all processes that have one
// with the same database, collection and name: those of the former library are
// among them. Start of a queue that is started does nothing.
//
// It blocks while it connects, and finds or builds the indexes, no longer than until
// ctx ends. When ctx ends later, a queue that is not started is closed; once it is
// started, only the context of Start counts. So ctx should not be one that bounds the
// call alone: serverSelectionTimeoutMS in the URI does that. It returns an error for
// options that are not valid, where no server answers, and where the indexes can't be
// built.
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
	q.madeWith(ctx)
	return q, nil
}

// copied returns options that can be validated, which sets defaults, without a change
// to those of the caller.
func (o MongoDBQueueOptions) copied() MongoDBQueueOptions {
	if o.DB != nil {
		o.DB = new(*o.DB)
	}
	if o.Retryable != nil {
		o.Retryable = new(*o.Retryable)
	}
	return o
}

// driverOptions are those of a queue with a name, and valid options, but for the
// driver. It returns an error where WorkerPoolSize panics or gives no valid number.
func (o *MongoDBQueueOptions) driverOptions(name string) (DriverQueueOptions, error) {
	workers, err := o.workers(name)
	if err != nil {
		return DriverQueueOptions{}, err
	}
	opts := DriverQueueOptions{
		NumWorkers:   workers,
		Format:       o.DB.Format,
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

// workers is the number of workers of a queue.
func (o *MongoDBQueueOptions) workers(name string) (workers int, err error) {
	if o.WorkerPoolSize == nil {
		return *o.NumWorkers, nil
	}
	err = errorOfPanic(func() error {
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
		return 0, invalidMongoDBQueue("WorkerPoolSize must be at least 1 where NumWorkers is not set (is %d for queue %q)", workers, name)
	}
	return workers, nil
}
