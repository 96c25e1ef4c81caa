package queue

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/pool"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/memory"
	"github.com/mongodb/amboy/queue/internal/engine"
	"github.com/mongodb/amboy/queue/internal/lifecycle"
)

// InlineOptions configure an Inline queue.
type InlineOptions struct {
	// Time is the initial time of the queue's clock. Default: the system's time.
	Time time.Time
	// Format is the form in which jobs are stored. Default: amboy.BSON, as in driver-backed
	// queues.
	Format amboy.Format
	// Retention configures how long finished jobs are kept.
	Retention Retention
	// Retryable configures how jobs are retried.
	Retryable RetryableQueueOptions
	// Middleware wraps the running and the putting of jobs. The first is the
	// outermost.
	Middleware []amboy.Middleware
}

// Inline is a queue in memory, for tests, that does nothing by itself. A job runs on the
// goroutine that calls RunNext, or that waits for jobs to end. Time passes only when a
// method advances it. Otherwise Inline behaves as a driver-backed queue: jobs are held in
// their stored form, and are retried. It does not have to be started: the first RunNext
// starts it. It is safe for concurrent use. amboytest.Queue is an Inline queue with
// assertions.
type Inline struct {
	inlineQueue
	inner   *engine.Queue // inlineQueue
	clock   *inlineClock
	runs    *pool.Inline
	retries *inlineRetries
}

// inlineQueue lists what an Inline queue can do as a driver-backed queue.
type inlineQueue interface {
	amboy.NamedQueue
	amboy.RetryableQueue
	amboy.JobReleaser
	amboy.BrokenJobEnder
	amboy.JobSnoozer
	amboy.JobContexter
	amboy.JobCompleter
	amboy.TransactionalCompleter
	amboy.JobFinder
	amboy.QueueController
	amboy.RateController
	amboy.TypeLimiter
	amboy.ProgressSetter
	amboy.StuckReporter
	amboy.QueueMarker
	amboy.ScheduleTeller
	amboy.MiddlewareQueue
	amboy.EventSource
	amboy.CompletionWaiter
	amboy.IdleCloser
	amboy.CloseReporter
}

var (
	_ amboy.RetryableQueue   = (*Inline)(nil)
	_ amboy.CompletionWaiter = (*Inline)(nil)
	_ amboy.Clock            = (*Inline)(nil)
)

// NewInline returns an empty queue. It returns an error for options that are not
// valid.
func NewInline(opts InlineOptions) (*Inline, error) {
	q := &Inline{clock: newInlineClock(opts.Time), runs: pool.NewInline()}
	start := q.clock.Now()
	store, err := memory.New(memory.Options{
		KeepFinished: defaultKeepFinished,
		Now:          q.clock.Now,
		RateElapsed:  func() time.Duration { return q.clock.Now().Sub(start) },
	})
	if err != nil {
		return nil, fmt.Errorf("making an inline queue: %w", err)
	}
	made, err := NewDriverQueue(DriverQueueOptions{
		Driver:      store,
		CloseDriver: true,
		NewRunner:   func(amboy.Queue) (amboy.Runner, error) { return q.runs, nil },
		Format:      opts.Format,
		Retention:   opts.Retention,
		Retryable:   opts.Retryable,
		Middleware:  opts.Middleware,
		now:         q.clock.Now,
	})
	if err != nil {
		return nil, fmt.Errorf("making an inline queue: %w", err)
	}
	q.inner = made.(*engine.Queue)
	q.inlineQueue = q.inner
	err = q.setParts(opts)
	return q, err
}

// setParts sets the runner and the retry handler of this queue.
func (q *Inline) setParts(opts InlineOptions) error {
	handler, err := NewBasicRetryHandler(nil, opts.Retryable.RetryHandler)
	if err != nil {
		return fmt.Errorf("making an inline queue: %w", err)
	}
	handler.now = q.clock.Now
	q.retries = &inlineRetries{BasicRetryHandler: handler}
	if err := q.inner.SetRetryHandler(q.retries); err != nil {
		return err
	}
	return q.runs.SetQueue(q)
}

var errInlineParts = errors.New("an inline queue uses its own")

// SetRunner always returns an error: an Inline queue runs its jobs itself.
func (q *Inline) SetRunner(amboy.Runner) error {
	return fmt.Errorf("setting the runner of queue %q: %w", q.ID(), errInlineParts)
}

// SetRetryHandler always returns an error: an Inline queue retries its jobs itself.
func (q *Inline) SetRetryHandler(amboy.RetryHandler) error {
	return fmt.Errorf("setting the retry handler of queue %q: %w", q.ID(), errInlineParts)
}

// Next returns a job to run and marks it as running. Unlike Next of other queues it does
// not wait: it returns nil if no job may run now. On the way it ends the jobs that have
// expired, or whose dependency has passed or can't be resolved.
func (q *Inline) Next(ctx context.Context) amboy.Job {
	for ctx.Err() == nil && !q.inner.IsStopped() {
		run := q.inner.Engine.TryNext(q.inner.Line)
		if run == nil {
			return nil
		}
		if j := q.inner.DecodeAndStart(ctx, run); j != nil {
			return j
		}
	}
	return nil
}

// RunNext runs the next job that may run now, on the caller's goroutine, and handles its
// retry. It returns false if no job may run now, for instance because all are scheduled
// for later, or if the queue is closed. It starts the queue if needed.
func (q *Inline) RunNext(ctx context.Context) bool {
	if q.inner.Is(lifecycle.Created) {
		if err := q.Start(context.WithoutCancel(ctx)); err != nil && !errors.Is(err, amboy.ErrAlreadyStarted) {
			return false
		}
	}
	return q.runs.RunNext(ctx)
}

// RunAll runs jobs until none may run now, and returns how many it ran. This includes
// jobs that are put meanwhile, and retries without a delay.
func (q *Inline) RunAll(ctx context.Context) (ran int) {
	for q.RunNext(ctx) {
		ran++
	}
	return ran
}

// RunUntil runs jobs, each at its time, until the queue's time is t or ctx ends. It
// returns how many it ran.
func (q *Inline) RunUntil(ctx context.Context, t time.Time) (ran int) {
	for {
		ran += q.RunAll(ctx)
		if ctx.Err() != nil {
			return ran
		}
		due, ok := q.NextTime()
		if !ok || due.After(t) {
			break
		}
		q.AdvanceTo(due)
	}
	q.AdvanceTo(t)
	return ran + q.RunAll(ctx)
}

// Now returns the queue's time. Times of jobs that are put should be relative to it.
func (q *Inline) Now() time.Time { return q.clock.Now() }

// NextTime returns the earliest time at which a scheduled job, a retry or a job that waits for the
// queue's rate may run. It returns false if there is none. The time is known once RunNext has
// returned false.
func (q *Inline) NextTime() (time.Time, bool) {
	due := q.inner.Engine.NextDue()
	if retry, ok := q.retries.nextDue(); ok && (due.IsZero() || retry.Before(due)) {
		due = retry
	}
	return due, due.After(q.Now())
}

// AdvanceTo advances the queue's time to t, and removes the jobs whose retention is over
// by then. It runs no job. It does nothing if t is not after the queue's time.
func (q *Inline) AdvanceTo(t time.Time) {
	if !q.clock.advance(t) {
		return
	}
	q.inner.Engine.Report("could not remove finished jobs", q.inner.Engine.Forget(q.inner.Open, t))
	q.retries.run()
}

// WaitComplete runs jobs, each at its time, until all have ended, and then returns true.
// It returns false if ctx ends first, the queue is closed, or the jobs that are left
// can't run, for instance because they are parked or the queue is paused, or because their
// dependency has said for an hour, by the queue's clock, that they must wait.
func (q *Inline) WaitComplete(ctx context.Context) bool { return q.runWhile(ctx, q.inner.Idle) }

// WaitJobComplete is WaitComplete for one job. It returns false if the job does not
// exist.
func (q *Inline) WaitJobComplete(ctx context.Context, id string) bool {
	if _, err := q.inner.Driver.Get(ctx, q.inner.Name, id); err != nil {
		return false
	}
	return q.runWhile(ctx, func(ctx context.Context) bool { return q.inner.HasEnded(ctx, id) })
}

// blockedPatience is how long, by the queue's clock, blocked jobs are waited for if nothing else is
// left: their dependency is asked again and again, and its answer may never change.
const blockedPatience = time.Hour

// runWhile runs jobs until a condition holds.
func (q *Inline) runWhile(ctx context.Context, done func(context.Context) bool) bool {
	for ran := q.Now(); ctx.Err() == nil && !q.inner.IsStopped(); {
		if done(ctx) {
			return true
		}
		if q.RunNext(ctx) {
			ran = q.Now()
			continue
		}
		due, ok := q.NextTime()
		if !ok || q.Now().Sub(ran) > blockedPatience && q.hasOnlyBlocked(ctx) {
			return done(ctx)
		}
		q.AdvanceTo(due)
	}
	return false
}

// hasOnlyBlocked reports whether all jobs that have not ended are blocked or parked.
func (q *Inline) hasOnlyBlocked(ctx context.Context) bool {
	others := driver.Query{Queues: []string{q.inner.Name}, States: []amboy.JobState{
		amboy.StateScheduled, amboy.StatePending, amboy.StateRunning, amboy.StateRetrying,
	}}
	n, err := q.inner.Driver.Count(ctx, others, 1)
	return err == nil && n == 0
}

func (q *Inline) overDriver() *engine.Queue { return q.inner }
