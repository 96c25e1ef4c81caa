package amboy

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mongodb/grip/message"

	"github.com/mongodb/amboy/internal/logging"
	"github.com/mongodb/amboy/internal/sleep"
)

// QueueOperation is work on a queue, such as putting jobs into it. It should
// return soon after its context ends.
type QueueOperation func(context.Context, Queue) error

// QueueOperationConfig configures how a periodic operation runs.
type QueueOperationConfig struct {
	// ContinueOnError continues after an error. Otherwise the first error stops the
	// operation for good.
	ContinueOnError bool `bson:"continue_on_error" json:"continue_on_error" yaml:"continue_on_error"`
	// LogErrors logs every error at error level. Otherwise only an error that stops the
	// operation is logged, as a warning.
	LogErrors bool `bson:"log_errors" json:"log_errors" yaml:"log_errors"`
	// DebugLogging logs every run and every skipped run at debug level.
	DebugLogging bool `bson:"debug_logging" json:"debug_logging" yaml:"debug_logging"`
	// RespectThreshold skips a run if more than Threshold jobs of the queue are
	// pending. If they can't be counted, that is an error of the run.
	RespectThreshold bool `bson:"respect_threshold" json:"respect_threshold" yaml:"respect_threshold"`
	// EnableDuplicateJobReporting makes it an error if the ID or the unique key of a job is
	// taken. Otherwise such a job is neither logged nor counted as an error. A held
	// enqueue scope is always an error.
	EnableDuplicateJobReporting bool `bson:"enable_duplicate_reporting" json:"enable_duplicate_reporting" yaml:"enable_duplicate_reporting"`
	// Threshold is the number of pending jobs for RespectThreshold.
	Threshold int `bson:"threshold" json:"threshold" yaml:"threshold"`
}

// GroupQueueOperation is an operation on a queue of a group.
type GroupQueueOperation struct {
	// Operation is called with the queue.
	Operation QueueOperation
	// Queue is the name of the queue. The group makes it if it does not exist.
	Queue string
	// Check reports, before each run, whether to run at all. nil means always.
	Check func(context.Context) bool
}

// IntervalQueueOperation runs an operation on a queue at startAt and then at every interval
// after it, until ctx ends. If startAt has passed, the first run is at the next of those
// times, so a restarted process keeps the same times. Intervals that pass while the
// operation runs are skipped. A panic of the operation is an error of that run, and so is a call of
// runtime.Goexit; conf configures how errors are handled. IntervalQueueOperation returns at once. If the
// interval is a microsecond or less, or the queue or the operation is nil, it starts
// nothing and logs an error.
func IntervalQueueOperation(ctx context.Context, q Queue, interval time.Duration, startAt time.Time, conf QueueOperationConfig, op QueueOperation) {
	err := errors.Join(
		validateInterval(interval),
		refuseNil("the queue", q == nil),
		refuseNil("the operation", op == nil),
	)
	if err != nil {
		logRefusal(ctx, err)
		return
	}
	go every(ctx, interval, firstRun(startAt, interval), func() bool {
		return conf.run(ctx, q.ID(), func() error { return conf.operate(ctx, q, op) })
	})
}

// IntervalGroupQueueOperation is like IntervalQueueOperation, for queues of a group. At
// each interval it runs the operations in order, each with the same conf, and skips an
// operation whose Check returns false. If the group can't return a queue, that is an error
// of the operation. An error does not prevent the other operations of that interval;
// without conf.ContinueOnError all of them stop afterwards. If the interval is a
// microsecond or less, the group or an operation is nil, or there are no operations, it
// starts nothing and logs an error.
func IntervalGroupQueueOperation(ctx context.Context, group QueueGroup, interval time.Duration, startAt time.Time, conf QueueOperationConfig, ops ...GroupQueueOperation) {
	err := errors.Join(
		validateInterval(interval),
		refuseNil("the queue group", group == nil),
		validateGroupOperations(ops),
	)
	if err != nil {
		logRefusal(ctx, err)
		return
	}
	go every(ctx, interval, firstRun(startAt, interval), func() bool {
		proceed := true
		for _, op := range ops {
			if ctx.Err() != nil {
				return false
			}
			step := func() error { return conf.operateInGroup(ctx, group, op) }
			proceed = conf.run(ctx, op.Queue, step) && proceed
		}
		return proceed
	})
}

func validateInterval(interval time.Duration) error {
	if interval <= time.Microsecond {
		return fmt.Errorf("the interval must be longer than a microsecond (is %s)", interval)
	}
	return nil
}

func validateGroupOperations(ops []GroupQueueOperation) error {
	if len(ops) == 0 {
		return errors.New("at least one operation is required")
	}
	var errs []error
	for _, op := range ops {
		errs = append(errs, refuseNil(fmt.Sprintf("the operation on queue %q", op.Queue), op.Operation == nil))
	}
	return errors.Join(errs...)
}

func refuseNil(what string, isNil bool) error {
	if isNil {
		return fmt.Errorf("%s must not be nil", what)
	}
	return nil
}

func logRefusal(ctx context.Context, err error) {
	logging.Error(ctx, message.Fields{
		"message": "refused to start a periodic queue operation",
		"error":   err.Error(),
	})
}

// firstRun returns startAt or, if that has passed, the next time that is a whole number of
// intervals after it. It is computed from the present time, so it keeps the monotonic
// reading: changing the system's time moves no run.
func firstRun(startAt time.Time, interval time.Duration) time.Time {
	now := time.Now()
	if !startAt.Before(now) {
		return now.Add(startAt.Sub(now))
	}
	// The time since startAt may be too long for a Duration, but its remainder is not.
	passed := sinceMultiple(now, interval) - sinceMultiple(startAt, interval)
	if passed < 0 {
		passed += interval
	}
	if passed == 0 {
		return now
	}
	return now.Add(interval - passed)
}

// sinceMultiple is the time from the last multiple of interval (counted from the zero time)
// to t.
func sinceMultiple(t time.Time, interval time.Duration) time.Duration {
	return t.Sub(t.Truncate(interval))
}

// every calls run at the time first and at each interval after it, until run returns false
// or ctx ends.
func every(ctx context.Context, interval time.Duration, first time.Time, run func() bool) {
	next := first
	for sleep.For(ctx, time.Until(next)) == nil && run() {
		passed := time.Since(first) / interval
		next = first.Add((passed + 1) * interval)
	}
}

// run runs a step of a periodic operation, handles its error, and reports whether the
// operation continues.
func (c QueueOperationConfig) run(ctx context.Context, queue string, step func() error) bool {
	err := alone(step)
	if !c.EnableDuplicateJobReporting {
		err = withoutDuplicateJobs(err)
	}
	if err == nil {
		return true
	}
	c.logError(ctx, queue, err)
	return c.ContinueOnError
}

// errOperationExited is the error of an operation that calls runtime.Goexit.
var errOperationExited = errors.New("the operation's goroutine ended before it returned")

// alone calls a function in a goroutine of its own, which the function may end, and returns its error or its panic.
func alone(call func() error) error {
	err := errOperationExited
	done := make(chan struct{})
	go func() {
		defer close(done)
		err = recoverPanic(call)
	}()
	<-done
	return err
}

// operate runs an operation, unless the queue has too many pending jobs.
func (c QueueOperationConfig) operate(ctx context.Context, q Queue, op QueueOperation) error {
	if c.RespectThreshold {
		stats := q.Stats(ctx)
		if stats.Err != nil {
			return fmt.Errorf("counting the pending jobs of queue %q: %w", q.ID(), stats.Err)
		}
		if pending := stats.Pending; pending > c.Threshold {
			c.logDebug(ctx, func() message.Fields {
				return message.Fields{
					"message":   "skipped a periodic queue operation, because too many jobs are pending",
					"queue":     q.ID(),
					"pending":   pending,
					"threshold": c.Threshold,
				}
			})
			return nil
		}
	}
	start := time.Now()
	err := op(ctx, q)
	c.logDebug(ctx, func() message.Fields {
		return message.Fields{
			"message": "ran a periodic queue operation",
			"queue":   q.ID(),
			"took":    time.Since(start).String(),
			"failed":  err != nil,
		}
	})
	return err
}

func (c QueueOperationConfig) operateInGroup(ctx context.Context, group QueueGroup, op GroupQueueOperation) error {
	if op.Check != nil && !op.Check(ctx) {
		return nil
	}
	q, err := group.Get(ctx, op.Queue)
	if err != nil {
		return fmt.Errorf("getting queue %q of the group: %w", op.Queue, err)
	}
	return c.operate(ctx, q, op.Operation)
}

func (c QueueOperationConfig) logDebug(ctx context.Context, build func() message.Fields) {
	if c.DebugLogging {
		logging.Debug(ctx, build)
	}
}

func (c QueueOperationConfig) logError(ctx context.Context, queue string, err error) {
	fields := message.Fields{
		"message": "periodic queue operation failed",
		"queue":   queue,
		"error":   err.Error(),
		"stops":   !c.ContinueOnError,
	}
	var panicked *PanicError
	if errors.As(err, &panicked) {
		fields["stack"] = string(panicked.Stack)
	}
	switch {
	case c.LogErrors:
		logging.Error(ctx, fields)
	case !c.ContinueOnError:
		logging.Warning(ctx, fields)
	}
}

// GroupQueueOperationFactory combines several operations into one. It runs all of them in
// order, even if one fails, and combines their errors. A nil operation, a panic and a call
// of runtime.Goexit are errors too.
func GroupQueueOperationFactory(first QueueOperation, rest ...QueueOperation) QueueOperation {
	ops := append([]QueueOperation{first}, rest...)
	return func(ctx context.Context, q Queue) error {
		var errs []error
		for i, op := range ops {
			if op == nil {
				errs = append(errs, fmt.Errorf("operation %d of %d must not be nil", i+1, len(ops)))
				continue
			}
			errs = append(errs, alone(func() error { return op(ctx, q) }))
		}
		// Unlike the result of errors.Join, this error is a duplicate job only if no
		// operation failed in another way.
		return CollateWriteErrors(errs)
	}
}

// ScheduleJobFactory returns an operation that puts the job that makeJob returns. A nil
// function and a nil job are errors of the operation.
func ScheduleJobFactory(makeJob func() Job) QueueOperation {
	return func(ctx context.Context, q Queue) error {
		if makeJob == nil {
			return errors.New("scheduling a job: the function that makes it must not be nil")
		}
		return putJob(ctx, q, makeJob())
	}
}

// ScheduleManyJobsFactory returns an operation that puts the jobs that makeJobs returns. It
// tries all of them. A nil function and a nil job are errors of the operation.
func ScheduleManyJobsFactory(makeJobs func() []Job) QueueOperation {
	return func(ctx context.Context, q Queue) error {
		if makeJobs == nil {
			return errors.New("scheduling jobs: the function that makes them must not be nil")
		}
		if err := q.PutMany(ctx, makeJobs()); err != nil {
			return fmt.Errorf("putting jobs in queue %q: %w", q.ID(), err)
		}
		return nil
	}
}

// ScheduleJobsFromGeneratorFactory returns an operation that puts the jobs of the channel
// that generate returns. Like PopulateQueue it runs until the channel is closed or the
// operation's context ends. The generator must stop with that context too, since nothing
// reads its channel afterwards. A nil function, a nil channel and a nil job are errors of
// the operation.
func ScheduleJobsFromGeneratorFactory(generate func() <-chan Job) QueueOperation {
	return func(ctx context.Context, q Queue) error {
		if generate == nil {
			return errors.New("scheduling jobs: the function that generates them must not be nil")
		}
		return PopulateQueue(ctx, q, generate())
	}
}
