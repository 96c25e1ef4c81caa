package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mongodb/grip/message"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/contain"
	"github.com/mongodb/amboy/internal/core"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/internal/lifecycle"
)

// Queue is a queue on an engine. It decodes claimed records to jobs, and writes how
// they ended.
type Queue struct {
	lifecycle.Base
	Name       string
	Engine     *Engine
	OwnsEngine bool // if true, closeAll closes the engine
	Driver     driver.Driver
	Line       *core.Line
	Form       StoredForm
	Retention  amboy.Retention
	maxRunning int
	typeLimits map[string]amboy.TypeLimit
	rate       *amboy.Rate
	startAgain bool
	// policyAtEnd is that of the options.
	policyAtEnd func(h amboy.RetryHandler) (policy amboy.RetryPolicy, ok bool)

	// Each call that inserts jobs holds puts for reading, so that CloseIfIdle can keep
	// inserts out.
	puts sync.RWMutex
	// PutCalls counts these calls.
	PutCalls atomic.Int64
	// runsEnded is true when the workers have ended, or were left behind. Until then running jobs may put others.
	runsEnded atomic.Bool
	// keyWarned is when LeaveForKey last logged, in nanoseconds since 1970.
	keyWarned atomic.Int64
	// waiters is the number of callers that wait for jobs to end.
	waiters atomic.Int64
	// idleChecks counts the requests for a check that is under way; see Engine.drained.
	idleChecks atomic.Int64

	// replacing holds a channel for the ID of each job that is being replaced; see replace.
	replacing sync.Map

	handlerMu sync.Mutex
	handler   amboy.RetryHandler

	completeMu sync.Mutex
	complete   lifecycle.Completion
}

var (
	_ amboy.RetryableQueue   = (*Queue)(nil)
	_ amboy.JobReleaser      = (*Queue)(nil)
	_ amboy.JobSnoozer       = (*Queue)(nil)
	_ amboy.JobContexter     = (*Queue)(nil)
	_ amboy.JobCompleter     = (*Queue)(nil)
	_ amboy.CompletionWaiter = (*Queue)(nil)
	_ amboy.QueueController  = (*Queue)(nil)
	_ amboy.ScheduleTeller   = (*Queue)(nil)
	_ amboy.IdleCloser       = (*Queue)(nil)
	_ amboy.CloseReporter    = (*Queue)(nil)
	_ amboy.EventSource      = (*Queue)(nil)
	_ amboy.MiddlewareQueue  = (*Queue)(nil)
)

// QueueOptions configure a queue on an engine. They must be valid.
type QueueOptions struct {
	Name             string
	Form             StoredForm
	Retention        amboy.Retention
	MaxInterruptions int
	// MaxRunning, Rate and TypeLimits are stored at Start if they are set.
	MaxRunning int
	Rate       *amboy.Rate
	TypeLimits map[string]amboy.TypeLimit
	Middleware []amboy.Middleware
	// StartAgain makes Start on a started queue return nil instead of an error.
	StartAgain bool
	// NewRunner and NewRetryHandler make the parts of the queue.
	NewRunner       func(q amboy.Queue) (amboy.Runner, error)
	NewRetryHandler func(q amboy.RetryableQueue) (amboy.RetryHandler, error)
	// PolicyAtEnd returns the policy of a retry handler whose next attempts the queue may
	// write together with the end of the attempt before. It returns false for others.
	PolicyAtEnd func(h amboy.RetryHandler) (policy amboy.RetryPolicy, ok bool)
}

// NewQueue makes a queue. The options must be valid.
func NewQueue(e *Engine, id string, opts QueueOptions) (*Queue, error) {
	q := &Queue{
		Base:        lifecycle.New(id),
		Name:        opts.Name,
		Line:        &core.Line{Queue: opts.Name, MaxInterruptions: opts.MaxInterruptions},
		Engine:      e,
		Driver:      e.Driver,
		Form:        opts.Form,
		Retention:   opts.Retention,
		maxRunning:  opts.MaxRunning,
		typeLimits:  opts.TypeLimits,
		rate:        opts.Rate,
		startAgain:  opts.StartAgain,
		policyAtEnd: opts.PolicyAtEnd,
	}
	q.Shut = q.closeAll
	q.Middleware.Insert = q.insert
	err := q.Use(opts.Middleware...)
	if err != nil {
		return nil, err
	}
	var runner amboy.Runner
	err = contain.Panic(func() (err error) {
		runner, err = opts.NewRunner(q)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("making the runner of queue %q: %w", q.Name, err)
	}
	err = q.SetRunner(runner)
	if err != nil {
		return nil, err
	}
	q.handler, err = opts.NewRetryHandler(q)
	if err != nil {
		return nil, err
	}
	e.add(q)
	return q, nil
}

// QueueName returns the queue's name in the store.
func (q *Queue) QueueName() string { return q.Name }

// Info implements amboy.Queue.
func (q *Queue) Info() amboy.QueueInfo {
	return amboy.QueueInfo{Started: q.IsStarted(), LockTimeout: q.Engine.LeaseTime}
}

// SetRunner implements amboy.Queue.
func (q *Queue) SetRunner(r amboy.Runner) error { return q.ReplaceRunner(r, q) }

// RetryHandler implements amboy.RetryableQueue.
func (q *Queue) RetryHandler() amboy.RetryHandler {
	q.handlerMu.Lock()
	defer q.handlerMu.Unlock()
	return q.handler
}

// SetRetryHandler implements amboy.RetryableQueue.
func (q *Queue) SetRetryHandler(h amboy.RetryHandler) error {
	if h == nil {
		return fmt.Errorf("setting the retry handler of queue %q: handler must not be nil", q.ID())
	}
	q.handlerMu.Lock()
	defer q.handlerMu.Unlock()
	if !q.Is(lifecycle.Created) {
		return fmt.Errorf("setting the retry handler of queue %q: %w", q.ID(), amboy.ErrAlreadyStarted)
	}
	if err := h.SetQueue(q); err != nil {
		return fmt.Errorf("setting the retry handler of queue %q: %w", q.ID(), err)
	}
	q.handler = h
	return nil
}

// Start starts the runner and the retry handler. The queue also resumes jobs that earlier
// processes left behind.
func (q *Queue) Start(ctx context.Context) error {
	err := q.startOnce(ctx)
	if q.startAgain && q.IsStarted() && errors.Is(err, amboy.ErrAlreadyStarted) {
		return nil
	}
	return err
}

// limitsTimeout is how long a queue tries to store its limits when it starts. A store needs less to
// find a new primary. The context of Start often has no end.
const limitsTimeout = time.Minute

// storeLimits stores the limits that the options set.
func (q *Queue) storeLimits(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, limitsTimeout)
	defer cancel()
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

func (q *Queue) startOnce(ctx context.Context) error {
	if q.Is(lifecycle.Created) {
		if err := q.storeLimits(ctx); err != nil {
			return fmt.Errorf("starting queue %q: %w", q.ID(), err)
		}
	}
	if err := q.StartRunner(ctx); err != nil {
		return err
	}
	if err := q.RetryHandler().Start(ctx); err != nil {
		q.Close(ctx)
		return fmt.Errorf("starting the retry handler of queue %q: %w", q.ID(), err)
	}
	q.Engine.begin(q)
	q.EndWith(ctx)
	return nil
}

func (q *Queue) stopClaiming() { q.Engine.Note(core.Stopped{Line: q.Line}) }

func (q *Queue) closeAll(ctx context.Context) {
	late, cancel := lifecycle.AfterEnd(ctx, lifecycle.CloseGrace)
	defer cancel()
	left := q.CloseParts(ctx, late, q.stopClaiming)
	q.runsEnded.Store(true)
	q.Engine.settle(late, func() bool { return q.Engine.core.QuietFor(q.Line) })
	last, cancelLast := lifecycle.AfterEnd(late, lifecycle.LastGrace)
	defer cancelLast()
	left.Add("retry handler", lifecycle.InTime(last, func() error {
		q.RetryHandler().Close(ctx)
		return nil
	}))
	q.Engine.remove(q)
	if q.OwnsEngine {
		left.Parts = append(left.Parts, q.Engine.Close(late).Parts...)
	}
	q.NoteLeft(ctx, amboy.NameOf(q), left)
	q.CloseEvents(q.Engine.Now())
}

// failure returns the log fields of an error. The field job_id is left out if id is
// empty.
func (q *Queue) failure(what, id string, err error) message.Fields {
	fields := message.Fields{"message": what, "queue": amboy.NameOf(q), "error": err.Error()}
	if id != "" {
		fields["job_id"] = id
	}
	return fields
}
