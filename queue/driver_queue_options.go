package queue

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/codec"
	"github.com/mongodb/amboy/pool"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/internal/engine"
)

// DriverQueueOptions configure a queue over a storage driver.
type DriverQueueOptions struct {
	// Driver stores the jobs. It is required.
	Driver driver.Driver
	// Name is the name of the queue in the store. A store holds any number of queues with
	// different names. Queues with the same name share their jobs, even in different
	// processes. Default: empty, which is a valid name.
	Name string
	// CloseDriver makes the queue close the driver when it closes, by a call of Close or
	// because its context ended. Otherwise the driver may serve other queues, and the
	// caller that made it closes it.
	CloseDriver bool
	// NumWorkers is the number of jobs that run at once in this process. It must be at
	// least 1, unless NewRunner is set.
	NumWorkers int
	// NewRunner makes the runner of the queue, for instance one whose jobs can be
	// aborted, or one that limits their rate. NumWorkers is ignored if it is set.
	// Default: pool.NewLocalWorkers.
	NewRunner func(q amboy.Queue) (amboy.Runner, error)
	// MaxRunning is the number of jobs of the queue that run at once in all processes.
	// Start stores it (see amboy.QueueController). If it is 0, Start leaves the stored
	// limit unchanged. It must not be negative.
	MaxRunning int
	// Rate limits how fast jobs of the queue start, over all processes. Start stores
	// it (see amboy.RateController). If it is nil, Start leaves the stored rate unchanged.
	Rate *amboy.Rate
	// TypeLimits limits jobs of some types in all processes, by the name of the type. Start
	// stores these limits (see amboy.TypeLimiter), and leaves those of other types unchanged.
	TypeLimits map[string]amboy.TypeLimit
	// Format is the form in which jobs are stored. Default: amboy.BSON, which stores the jobs
	// of definitions as JSON. Jobs of all formats can be read with any setting.
	Format amboy.Format
	// Codec encodes the arguments and results of jobs on their way to the store, for instance
	// to encrypt them: see package codec for what it covers. Jobs that were stored without a
	// codec stay readable. Jobs whose key the codec does not have are left to other processes.
	// Default: none.
	Codec codec.Codec
	// LockTimeout is how long the lease of a running job lasts. The lease is renewed
	// every quarter of it. If a lease runs out, because its process died for instance,
	// the job runs again within another quarter. Default: DefaultLockTimeout.
	LockTimeout time.Duration
	// PollInterval is how often a queue with a free worker asks a driver without
	// notifications for jobs that other processes put. Each wait varies between half of
	// PollInterval and all of it, so that processes do not ask in step. Default: one
	// second.
	PollInterval time.Duration
	// Retention configures how long finished jobs are kept.
	Retention Retention
	// Retryable configures how jobs are retried.
	Retryable RetryableQueueOptions
	// Middleware wraps the running and the putting of jobs. The first is the
	// outermost.
	Middleware []amboy.Middleware

	// startAgain makes Start on a started queue return nil instead of an error.
	startAgain bool
	// now is the clock of an Inline queue. Default: time.Now.
	now func() time.Time
}

// DefaultLockTimeout is the LockTimeout of driver-backed queues and groups whose options set
// none: the jobs of a process that was killed wait about as long. The options of the legacy
// library keep amboy.LockTimeout.
const DefaultLockTimeout = time.Minute

// checkLockTimeout returns an error for a time that leaves none to renew a lease; nil for 0.
func checkLockTimeout(timeout time.Duration) error {
	switch {
	case timeout < 0:
		return fmt.Errorf("LockTimeout must not be negative (is %s)", timeout)
	case timeout > 0 && timeout < time.Millisecond:
		return fmt.Errorf("LockTimeout must be at least 1ms, or 0 for the default (is %s)", timeout)
	default:
		return nil
	}
}

const defaultPollInterval = time.Second

// Validate sets the defaults. It returns an error that names every field that is missing
// or out of range.
func (o *DriverQueueOptions) Validate() error {
	var errs []error
	if o.Driver == nil {
		errs = append(errs, errors.New("invalid driver queue options: Driver must not be nil"))
	}
	if o.NumWorkers < 0 || (o.NumWorkers == 0 && o.NewRunner == nil) {
		errs = append(errs, fmt.Errorf("invalid driver queue options: NumWorkers must be at least 1 (is %d)", o.NumWorkers))
	}
	if o.MaxRunning < 0 {
		errs = append(errs, fmt.Errorf("invalid driver queue options: MaxRunning must not be negative (is %d)", o.MaxRunning))
	}
	if o.Rate != nil {
		if err := o.Rate.Validate(); err != nil {
			errs = append(errs, fmt.Errorf("invalid driver queue options: %w", err))
		}
	}
	if err := validateTypeLimits(o.TypeLimits); err != nil {
		errs = append(errs, fmt.Errorf("invalid driver queue options: %w", err))
	}
	if !o.Format.IsValid() {
		errs = append(errs, fmt.Errorf("invalid driver queue options: Format must be BSON, BSON2 or JSON (is %d)", o.Format))
	}
	if err := checkLockTimeout(o.LockTimeout); err != nil {
		errs = append(errs, fmt.Errorf("invalid driver queue options: %w", err))
	}
	if o.PollInterval < 0 {
		errs = append(errs, fmt.Errorf("invalid driver queue options: PollInterval must not be negative (is %s)", o.PollInterval))
	}
	if o.LockTimeout == 0 {
		o.LockTimeout = DefaultLockTimeout
	}
	if o.PollInterval == 0 {
		o.PollInterval = defaultPollInterval
	}
	for _, nested := range []interface{ Validate() error }{&o.Retention, &o.Retryable} {
		if err := nested.Validate(); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// validateTypeLimits returns an error if a limit is out of range.
func validateTypeLimits(limits map[string]amboy.TypeLimit) error {
	if len(limits) > amboy.MaxTypeLimits {
		return fmt.Errorf("TypeLimits must have at most %d types (has %d)", amboy.MaxTypeLimits, len(limits))
	}
	for _, jobType := range slices.Sorted(maps.Keys(limits)) {
		if err := amboy.ValidateTypeLimit(jobType, limits[jobType]); err != nil {
			return fmt.Errorf("TypeLimits of %q: %w", jobType, err)
		}
	}
	return nil
}

// NewDriverQueue returns a queue that holds jobs in their stored form, in the store of a
// driver. Job types must be registered. Changes that a job makes to itself are visible to
// other callers only after the job has ended, and Get returns a copy. Failed jobs are
// retried as their retry options say. Jobs may be put before the queue is started.
// NewDriverQueue returns an error if the options are not valid, or if NewRunner fails;
// the driver stays open then.
//
// A queue that is never started ends only with Close. A queue made by
// DriverQueueOptions.BuildQueue also ends with the context of that call.
func NewDriverQueue(opts DriverQueueOptions) (amboy.RetryableQueue, error) {
	q, err := newQueueWithEngine(opts)
	if err != nil {
		return nil, err
	}
	return q, nil
}

// newQueueWithEngine makes a queue with an engine of its own.
func newQueueWithEngine(opts DriverQueueOptions) (*engine.Queue, error) {
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	e := engine.New(opts.ofEngine(0))
	q, err := engine.NewQueue(e, e.ID, opts.ofQueue())
	if err != nil {
		e.LeaveStore()
		return nil, err
	}
	q.OwnsEngine = true
	return q, nil
}

// ofEngine returns the options that concern the store, for an engine with a number of
// workers.
func (o *DriverQueueOptions) ofEngine(workers int) engine.Options {
	return engine.Options{
		Driver:       o.Driver,
		OwnsDriver:   o.CloseDriver,
		LeaseTime:    o.LockTimeout,
		PollInterval: o.PollInterval,
		RetryScan:    o.Retryable.StaleRetryingMonitorInterval,
		Workers:      workers,
		Now:          o.now,
	}
}

// ofQueue returns the options that concern one queue.
func (o *DriverQueueOptions) ofQueue() engine.QueueOptions {
	newRunner, retry := o.NewRunner, o.Retryable.RetryHandler
	if newRunner == nil {
		workers := o.NumWorkers
		newRunner = func(q amboy.Queue) (amboy.Runner, error) { return pool.NewLocalWorkers(workers, q), nil }
	}
	return engine.QueueOptions{
		Name:             o.Name,
		Form:             engine.StoredForm{Format: o.Format, Codec: o.Codec},
		Retention:        o.Retention,
		MaxInterruptions: o.Retryable.MaxInterruptions,
		MaxRunning:       o.MaxRunning,
		Rate:             o.Rate,
		TypeLimits:       o.TypeLimits,
		Middleware:       o.Middleware,
		StartAgain:       o.startAgain,
		NewRunner:        newRunner,
		NewRetryHandler: func(q amboy.RetryableQueue) (amboy.RetryHandler, error) {
			return NewBasicRetryHandler(q, retry)
		},
		PolicyAtEnd: policyAtEnd,
	}
}

// RetryableQueueOptions configure how a queue retries jobs.
type RetryableQueueOptions struct {
	// RetryHandler configures the handler that replaces a job by its next attempt.
	RetryHandler amboy.RetryHandlerOptions
	// StaleRetryingMonitorInterval is how often the queue checks for jobs that a retry
	// handler or a worker left behind. Default: one minute.
	StaleRetryingMonitorInterval time.Duration
	// MaxInterruptions is how often an attempt of a job may be interrupted, unless the
	// job itself sets a limit. An attempt is interrupted if its lease runs out while it
	// runs, for instance because its process died. A job that exceeds the limit is
	// parked. From the third interruption on, the job runs alone in its process, so that
	// it does not interrupt other jobs. Default: amboy.DefaultMaxInterruptions.
	MaxInterruptions int
}

const defaultMonitorInterval = time.Minute

// Validate sets the defaults. It returns an error that names every field that is out of
// range.
func (o *RetryableQueueOptions) Validate() error {
	var errs []error
	if err := o.RetryHandler.Validate(); err != nil {
		errs = append(errs, err)
	}
	if o.StaleRetryingMonitorInterval < 0 {
		errs = append(errs, fmt.Errorf("invalid retryable queue options: StaleRetryingMonitorInterval must not be negative (is %s)", o.StaleRetryingMonitorInterval))
	}
	if o.MaxInterruptions < 0 {
		errs = append(errs, fmt.Errorf("invalid retryable queue options: MaxInterruptions must not be negative (is %d)", o.MaxInterruptions))
	}
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	if o.MaxInterruptions == 0 {
		o.MaxInterruptions = amboy.DefaultMaxInterruptions
	}
	if o.StaleRetryingMonitorInterval == 0 {
		o.StaleRetryingMonitorInterval = defaultMonitorInterval
	}
	return nil
}

// isSet reports whether any field is set. The retry policy is compared with nil only,
// because its type may not be comparable.
func (o RetryableQueueOptions) isSet() bool {
	hasPolicy := o.RetryHandler.RetryPolicy != nil
	o.RetryHandler.RetryPolicy = nil
	return hasPolicy || o != (RetryableQueueOptions{})
}

// KeepForever in a Retention keeps jobs for as long as the store has room for them.
const KeepForever = amboy.KeepForever

// The default retention of jobs, used if the fields of a Retention are 0.
const (
	DefaultKeepSucceeded = amboy.DefaultKeepSucceeded
	DefaultKeepOthers    = amboy.DefaultKeepOthers
)

// Retention configures how long a finished job stays in the store.
type Retention = amboy.Retention
