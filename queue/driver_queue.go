package queue

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mongodb/grip/message"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/codec"
	"github.com/mongodb/amboy/internal/core"
	"github.com/mongodb/amboy/pool"
	"github.com/mongodb/amboy/queue/driver"
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
	// Rate limits how many jobs of the queue start in a time in all processes. Start stores
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
	if o.LockTimeout < 0 {
		errs = append(errs, fmt.Errorf("invalid driver queue options: LockTimeout must not be negative (is %s)", o.LockTimeout))
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
func newQueueWithEngine(opts DriverQueueOptions) (*driverQueue, error) {
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	e := newEngine(opts, 0)
	q, err := newDriverQueue(e, e.id, opts)
	if err != nil {
		e.leaveStore()
		return nil, err
	}
	q.ownsEngine = true
	return q, nil
}

// driverQueue is a queue on an engine. It decodes claimed records to jobs, and writes how
// they ended.
type driverQueue struct {
	lifecycle
	name       string
	engine     *engine
	ownsEngine bool // if true, closeAll closes the engine
	driver     driver.Driver
	line       *core.Line
	form       storedForm
	retention  Retention
	maxRunning int
	typeLimits map[string]amboy.TypeLimit
	rate       *amboy.Rate
	startAgain bool

	// Each call that inserts jobs holds puts for reading, so that CloseIfIdle can keep
	// inserts out.
	puts sync.RWMutex
	// putCalls counts these calls.
	putCalls atomic.Int64
	// keyWarned is when leaveForKey last logged, in nanoseconds since 1970.
	keyWarned atomic.Int64
	// waiters is the number of callers that wait for jobs to end.
	waiters atomic.Int64

	// replacing holds a channel for the ID of each job that is being replaced; see replace.
	replacing sync.Map

	handlerMu sync.Mutex
	handler   amboy.RetryHandler

	completeMu sync.Mutex
	complete   completion
}

var (
	_ amboy.RetryableQueue   = (*driverQueue)(nil)
	_ amboy.JobReleaser      = (*driverQueue)(nil)
	_ amboy.JobSnoozer       = (*driverQueue)(nil)
	_ amboy.JobContexter     = (*driverQueue)(nil)
	_ amboy.JobCompleter     = (*driverQueue)(nil)
	_ amboy.CompletionWaiter = (*driverQueue)(nil)
	_ amboy.QueueController  = (*driverQueue)(nil)
)

// newDriverQueue makes a queue. The options must be valid.
func newDriverQueue(e *engine, id string, opts DriverQueueOptions) (*driverQueue, error) {
	q := &driverQueue{
		lifecycle:  newLifecycle(id),
		name:       opts.Name,
		line:       &core.Line{Queue: opts.Name, MaxInterruptions: opts.Retryable.MaxInterruptions},
		engine:     e,
		driver:     e.driver,
		form:       storedForm{opts.Format, opts.Codec},
		retention:  opts.Retention,
		maxRunning: opts.MaxRunning,
		typeLimits: opts.TypeLimits,
		rate:       opts.Rate,
		startAgain: opts.startAgain,
	}
	q.shut = q.closeAll
	q.middleware.insert = q.insert
	err := q.Use(opts.Middleware...)
	if err != nil {
		return nil, err
	}
	err = q.makeRunner(opts)
	if err != nil {
		return nil, err
	}
	q.handler, err = NewBasicRetryHandler(q, opts.Retryable.RetryHandler)
	if err != nil {
		return nil, err
	}
	e.add(q)
	return q, nil
}

func (q *driverQueue) makeRunner(opts DriverQueueOptions) error {
	if opts.NewRunner == nil {
		q.runner = pool.NewLocalWorkers(opts.NumWorkers, q)
		return nil
	}
	var made amboy.Runner
	err := errorOfPanic(func() (err error) {
		made, err = opts.NewRunner(q)
		return err
	})
	if err != nil {
		return fmt.Errorf("making the runner of queue %q: %w", q.name, err)
	}
	return q.SetRunner(made)
}

// QueueName returns the queue's name in the store.
func (q *driverQueue) QueueName() string { return q.name }

func (q *driverQueue) Info() amboy.QueueInfo {
	return amboy.QueueInfo{Started: q.isStarted(), LockTimeout: q.engine.leaseTime}
}

func (q *driverQueue) SetRunner(r amboy.Runner) error { return q.setRunner(r, q) }

func (q *driverQueue) RetryHandler() amboy.RetryHandler {
	q.handlerMu.Lock()
	defer q.handlerMu.Unlock()
	return q.handler
}

func (q *driverQueue) SetRetryHandler(h amboy.RetryHandler) error {
	if h == nil {
		return fmt.Errorf("setting the retry handler of queue %q: handler must not be nil", q.id)
	}
	q.handlerMu.Lock()
	defer q.handlerMu.Unlock()
	if !q.is(created) {
		return fmt.Errorf("setting the retry handler of queue %q: %w", q.id, amboy.ErrAlreadyStarted)
	}
	if err := h.SetQueue(q); err != nil {
		return fmt.Errorf("setting the retry handler of queue %q: %w", q.id, err)
	}
	q.handler = h
	return nil
}

// Start starts the runner and the retry handler. The queue also resumes jobs that earlier
// processes left behind.
func (q *driverQueue) Start(ctx context.Context) error {
	err := q.startOnce(ctx)
	if q.startAgain && q.isStarted() && errors.Is(err, amboy.ErrAlreadyStarted) {
		return nil
	}
	return err
}

// storeLimits stores the limits that the options set.
func (q *driverQueue) storeLimits(ctx context.Context) error {
	if q.maxRunning > 0 {
		if err := q.SetMaxRunning(ctx, q.maxRunning); err != nil {
			return err
		}
	}
	if q.rate != nil {
		if err := q.SetRate(ctx, q.rate); err != nil {
			return err
		}
	}
	for jobType, limit := range q.typeLimits {
		if err := q.LimitType(ctx, jobType, limit); err != nil {
			return err
		}
	}
	return nil
}

func (q *driverQueue) startOnce(ctx context.Context) error {
	if q.is(created) {
		if err := q.storeLimits(ctx); err != nil {
			return fmt.Errorf("starting queue %q: %w", q.id, err)
		}
	}
	if err := q.start(ctx); err != nil {
		return err
	}
	if err := q.RetryHandler().Start(ctx); err != nil {
		q.Close(ctx)
		return fmt.Errorf("starting the retry handler of queue %q: %w", q.id, err)
	}
	q.engine.begin(q)
	q.endWith(ctx)
	return nil
}

func (q *driverQueue) stopClaiming() { q.engine.note(core.Stopped{Line: q.line}) }

func (q *driverQueue) closeAll(ctx context.Context) {
	late, cancel := afterEnd(ctx, closeGrace)
	defer cancel()
	left := q.close(ctx, late, q.stopClaiming)
	q.engine.settle(late, func() bool { return q.engine.core.QuietFor(q.line) })
	last, cancelLast := afterEnd(late, lastGrace)
	defer cancelLast()
	left.add("retry handler", inTime(last, func() error {
		q.RetryHandler().Close(ctx)
		return nil
	}))
	q.engine.remove(q)
	if q.ownsEngine {
		left.parts = append(left.parts, q.engine.close(late).parts...)
	}
	q.noteLeft(ctx, left)
	q.closeEvents(q.engine.now())
}

// failure returns the log fields of an error. The field job_id is left out if id is
// empty.
func (q *driverQueue) failure(what, id string, err error) message.Fields {
	fields := message.Fields{"message": what, "queue": amboy.NameOf(q), "error": err.Error()}
	if id != "" {
		fields["job_id"] = id
	}
	return fields
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
