package queue

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/mongodb/grip/message"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/contain"
	"github.com/mongodb/amboy/internal/core"
	"github.com/mongodb/amboy/queue/driver"
)

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
	retention  amboy.Retention
	maxRunning int
	typeLimits map[string]amboy.TypeLimit
	rate       *amboy.Rate
	startAgain bool
	// policyAtEnd is that of the options.
	policyAtEnd func(h amboy.RetryHandler) (policy amboy.RetryPolicy, ok bool)

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
	_ amboy.ScheduleTeller   = (*driverQueue)(nil)
	_ amboy.IdleCloser       = (*driverQueue)(nil)
	_ amboy.CloseReporter    = (*driverQueue)(nil)
	_ amboy.EventSource      = (*driverQueue)(nil)
	_ amboy.MiddlewareQueue  = (*driverQueue)(nil)
)

// queueOptions configure a queue on an engine. They must be valid.
type queueOptions struct {
	name             string
	form             storedForm
	retention        amboy.Retention
	maxInterruptions int
	// maxRunning, rate and typeLimits are stored at Start if they are set.
	maxRunning int
	rate       *amboy.Rate
	typeLimits map[string]amboy.TypeLimit
	middleware []amboy.Middleware
	// startAgain makes Start on a started queue return nil instead of an error.
	startAgain bool
	// newRunner and newRetryHandler make the parts of the queue.
	newRunner       func(q amboy.Queue) (amboy.Runner, error)
	newRetryHandler func(q amboy.RetryableQueue) (amboy.RetryHandler, error)
	// policyAtEnd returns the policy of a retry handler whose next attempts the queue may
	// write together with the end of the attempt before. It returns false for others.
	policyAtEnd func(h amboy.RetryHandler) (policy amboy.RetryPolicy, ok bool)
}

// newDriverQueue makes a queue. The options must be valid.
func newDriverQueue(e *engine, id string, opts queueOptions) (*driverQueue, error) {
	q := &driverQueue{
		lifecycle:   newLifecycle(id),
		name:        opts.name,
		line:        &core.Line{Queue: opts.name, MaxInterruptions: opts.maxInterruptions},
		engine:      e,
		driver:      e.driver,
		form:        opts.form,
		retention:   opts.retention,
		maxRunning:  opts.maxRunning,
		typeLimits:  opts.typeLimits,
		rate:        opts.rate,
		startAgain:  opts.startAgain,
		policyAtEnd: opts.policyAtEnd,
	}
	q.shut = q.closeAll
	q.middleware.insert = q.insert
	err := q.Use(opts.middleware...)
	if err != nil {
		return nil, err
	}
	var runner amboy.Runner
	err = contain.Panic(func() (err error) {
		runner, err = opts.newRunner(q)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("making the runner of queue %q: %w", q.name, err)
	}
	if err = q.SetRunner(runner); err != nil {
		return nil, err
	}
	q.handler, err = opts.newRetryHandler(q)
	if err != nil {
		return nil, err
	}
	e.add(q)
	return q, nil
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
