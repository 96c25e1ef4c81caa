package amboy

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"
)

// Clock is implemented by queues that do not use the system's time, such as the queues of
// package amboytest, whose time a test controls.
type Clock interface {
	// Now returns the queue's current time.
	Now() time.Time
}

// Now returns a queue's current time: the queue's own if it is a Clock, the system's
// otherwise. Delays of its jobs must be measured from it. It is safe for concurrent use.
func Now(q Queue) time.Time {
	if c, ok := q.(Clock); ok {
		return c.Now()
	}
	return time.Now()
}

// NamedQueue is implemented by queues with a name in their store or group, such as that of a
// tenant. Their ID names this instance, in this process.
type NamedQueue interface {
	// QueueName returns the name. It may be empty.
	QueueName() string
}

// NameOf returns the name of a queue, or its ID if it has none. It is safe for concurrent use.
func NameOf(q Queue) string {
	if named, ok := q.(NamedQueue); ok && named.QueueName() != "" {
		return named.QueueName()
	}
	return q.ID()
}

// QueueControl holds an operator's settings for a queue.
type QueueControl struct {
	// Paused keeps jobs from running. Jobs that expire still end.
	Paused bool
	// Draining makes Put refuse jobs. Existing jobs still run and are retried.
	Draining bool
	// MaxRunning is the number of jobs that may run at once, over all processes; 0
	// means no limit.
	MaxRunning int
	// Rate limits how fast jobs start, over all processes; nil means no limit. It
	// must not be changed in place.
	Rate *Rate
	// Types holds the limits of job types, by the name of the type; nil if there are none. It
	// must not be changed in place.
	Types map[string]TypeLimit
}

// IsZero reports whether nothing is set.
func (c QueueControl) IsZero() bool {
	return !c.Paused && !c.Draining && c.MaxRunning == 0 && c.Rate == nil && len(c.Types) == 0
}

// IsStopped reports whether no job may start: the queue is paused, or its rate is 0.
func (c QueueControl) IsStopped() bool {
	return c.Paused || c.Rate != nil && c.Rate.PerSecond == 0
}

// QueueController is implemented by queues that an operator can control. If the queue has
// a store, the settings are kept there and apply to all processes that share it. The
// methods block for the calls to the store, return its errors, and are safe for
// concurrent use. Repeating a setting does nothing.
type QueueController interface {
	// Control returns the settings.
	Control(ctx context.Context) (QueueControl, error)
	// Pause keeps jobs from running. Running jobs go on, and jobs can still be put.
	Pause(ctx context.Context) error
	// Drain makes Put fail with an error that wraps ErrQueueDraining. Jobs that the
	// queue already holds are run and retried.
	Drain(ctx context.Context) error
	// Resume undoes Pause and Drain.
	Resume(ctx context.Context) error
	// SetMaxRunning limits the number of jobs that run at once, over all processes;
	// 0 removes the limit. n must not be negative.
	SetMaxRunning(ctx context.Context, n int) error
}

// ControlOf returns the settings of a queue, as QueueController.Control does. The error wraps
// errors.ErrUnsupported if the queue is no QueueController.
func ControlOf(ctx context.Context, q Queue) (QueueControl, error) {
	c, err := as[QueueController](q, "reading the settings of")
	if err != nil {
		return QueueControl{}, err
	}
	return c.Control(ctx)
}

// Pause keeps the jobs of a queue from running, as QueueController.Pause does. The error
// wraps errors.ErrUnsupported if the queue is no QueueController.
func Pause(ctx context.Context, q Queue) error {
	return control(q, "pausing", func(c QueueController) error { return c.Pause(ctx) })
}

// Drain makes a queue refuse new jobs, as QueueController.Drain does. The error wraps
// errors.ErrUnsupported if the queue is no QueueController.
func Drain(ctx context.Context, q Queue) error {
	return control(q, "draining", func(c QueueController) error { return c.Drain(ctx) })
}

// Resume undoes Pause and Drain, as QueueController.Resume does. The error wraps
// errors.ErrUnsupported if the queue is no QueueController.
func Resume(ctx context.Context, q Queue) error {
	return control(q, "resuming", func(c QueueController) error { return c.Resume(ctx) })
}

// SetMaxRunning limits the number of jobs of a queue that run at once, over all processes,
// as QueueController.SetMaxRunning does. The error wraps errors.ErrUnsupported if the queue
// is no QueueController.
func SetMaxRunning(ctx context.Context, q Queue, n int) error {
	return control(q, "limiting", func(c QueueController) error { return c.SetMaxRunning(ctx, n) })
}

func control(q Queue, doing string, do func(QueueController) error) error {
	c, err := as[QueueController](q, doing)
	if err != nil {
		return err
	}
	return do(c)
}

// as returns a queue as one of the interfaces that not all queues implement.
func as[T any](q Queue, doing string) (T, error) {
	t, ok := q.(T)
	switch {
	case ok:
		return t, nil
	case q == nil:
		return t, fmt.Errorf("%s a queue: it must not be nil", doing)
	default:
		return t, fmt.Errorf("%s queue %q: its type %T does not support that: %w", doing, q.ID(), q, errors.ErrUnsupported)
	}
}

// JobQuery selects jobs by their current properties. Empty fields match everything;
// non-empty fields are ANDed.
type JobQuery struct {
	// States lists the states to match.
	States []JobState
	// Types lists the names of the job types to match.
	Types []string
	// Tag is a tag that the job must have (see TaggedJob).
	Tag string
}

// JobFinder is implemented by queues that can find jobs by more than their ID. For a
// retryable job they use its latest attempt. The methods are safe for concurrent use.
type JobFinder interface {
	// FindJobs yields a description of each matching job, in the order in which the
	// jobs were put; a retry counts as a new put. It reads the store while it yields,
	// so jobs may change meanwhile. A job that exists and matches from start to end is
	// yielded at least once. After an error FindJobs yields nothing more.
	FindJobs(ctx context.Context, q JobQuery) iter.Seq2[JobInfo, error]
	// CountJobs counts the matching jobs. It blocks for the calls to the store, and
	// returns its errors.
	CountJobs(ctx context.Context, q JobQuery) (int, error)
}

// FindJobs yields a description of each matching job of a queue, as JobFinder.FindJobs does.
// If the queue is no JobFinder, it yields an error that wraps errors.ErrUnsupported.
func FindJobs(ctx context.Context, q Queue, query JobQuery) iter.Seq2[JobInfo, error] {
	finder, err := as[JobFinder](q, "finding jobs of")
	if err != nil {
		return func(yield func(JobInfo, error) bool) { yield(JobInfo{}, err) }
	}
	return finder.FindJobs(ctx, query)
}

// CountJobs counts the matching jobs of a queue, as JobFinder.CountJobs does. The error
// wraps errors.ErrUnsupported if the queue is no JobFinder.
func CountJobs(ctx context.Context, q Queue, query JobQuery) (int, error) {
	finder, err := as[JobFinder](q, "counting jobs of")
	if err != nil {
		return 0, err
	}
	return finder.CountJobs(ctx, query)
}

// ErrForeignTransaction is wrapped by the error of a call that puts or ends a job if the
// transaction in its context belongs to another store than the queue.
var ErrForeignTransaction = errors.New("the transaction belongs to another store than the queue")

// ErrNotCommitted is wrapped by the error of an attempt that was to end in a transaction
// which was not committed.
var ErrNotCommitted = errors.New("the transaction that was to end the job was not committed")

// TransactionalCompleter is implemented by queues that can end a running job in a transaction
// of the job. Jobs use it by job.CompleteIn.
type TransactionalCompleter interface {
	// CompleteIn ends a job that Next returned as succeeded, in the transaction that ctx
	// carries, which also checks the job's lease: the job ends if that is committed, and goes
	// on if it is rolled back. The error wraps ErrLeaseLost if the lease is not the job's any
	// more, and ErrForeignTransaction if the transaction belongs to another store; the caller
	// must roll back after any error. It returns an error if ctx carries no transaction, if the
	// store can't end jobs in one, if the job has reported an error, asked for a retry or set an
	// outcome, if its result is too large to be stored, or if it does not run here. In MongoDB it
	// also does so, with the label TransientTransactionError, if the stored job has changed since
	// the transaction began; then the transaction can be repeated.
	//
	// From then on the lease is not renewed, so that what is left of it, three quarters at
	// least, bounds the transaction and the rest of the run. A runner passes the job to Complete even if
	// the lease is lost then, because the transaction may have been committed.
	CompleteIn(ctx context.Context, j Job) error
}

// QueueMarker is implemented by queues that keep marks: named times that record what has
// been done. For instance, a schedule marks the last tick whose job it put, so that no
// process puts a job for that tick again.
type QueueMarker interface {
	// Mark raises a mark to a time and returns its previous value, or the zero time if
	// it did not exist. It never lowers a mark: an earlier time changes nothing, and the
	// zero time only reads. Marks have millisecond resolution. If the queue has a store,
	// they are kept there, for all processes that share it; otherwise they live as long
	// as the queue. Marks are never removed. Mark blocks for the call to the store,
	// returns its errors and an error if the queue is closed, and is safe for concurrent
	// use.
	Mark(ctx context.Context, name string, at time.Time) (last time.Time, err error)
}

// ScheduleTeller is implemented by queues that can show operators which schedules put jobs
// in them. A schedule works without it.
type ScheduleTeller interface {
	// TellSchedules records that this process runs schedules, and their progress. It
	// replaces earlier records of the same schedules, including those of other processes.
	// A record that is not renewed within a day is dropped. TellSchedules blocks for the
	// call to the store, returns its errors and an error if the queue is closed, and is
	// safe for concurrent use.
	TellSchedules(ctx context.Context, schedules ...ScheduleInfo) error
	// ForgetSchedules removes the records of the named schedules, until a process that
	// runs one records it again. It ignores unknown names. It blocks and returns errors
	// as TellSchedules does, and is safe for concurrent use.
	ForgetSchedules(ctx context.Context, names ...string) error
}

// ScheduleInfo describes a schedule that puts jobs in a queue.
type ScheduleInfo struct {
	// Name is unique among the schedules of the queue.
	Name string
	// Spec describes when it ticks, for operators.
	Spec string
	// CatchUp describes what happens to missed ticks.
	CatchUp string
	// Last is the last tick whose job was put, and Next is the next tick; zero if there
	// is none.
	Last, Next time.Time
	// Error is why the job of the tick Next could not be put; empty if it was put or has
	// not been tried yet.
	Error string
}

// IdleCloser is implemented by queues that can be closed only if they have no work, with
// no Put in between. Groups use it to prune queues.
type IdleCloser interface {
	// CloseIfIdle closes the queue as Close does, unless a job is pending, running,
	// retrying or being put. In that case it changes nothing and returns false. If it
	// can't determine that, it closes nothing and returns an error. It blocks as Stats
	// and Close do, and is safe for concurrent use.
	CloseIfIdle(ctx context.Context) (closed bool, err error)
}
