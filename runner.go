package amboy

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// ResizableRunner is a runner whose number of workers can change while it runs.
type ResizableRunner interface {
	Runner

	// Workers is the number of workers that was last requested.
	Workers() int
	// SetWorkers changes the number of workers, to at least 1. Surplus workers
	// end after the job that they are running. SetWorkers does not wait for that.
	SetWorkers(n int) error
}

// Workers returns the number of workers of a queue in this process that was last requested, or
// 0 if the runner of the queue is no ResizableRunner. It does not block.
func Workers(q Queue) int {
	if q == nil {
		return 0
	}
	if runner, ok := q.Runner().(ResizableRunner); ok {
		return runner.Workers()
	}
	return 0
}

// SetWorkers changes the number of workers of a queue in this process, as
// ResizableRunner.SetWorkers does. The error wraps errors.ErrUnsupported if the runner of the
// queue is no ResizableRunner.
func SetWorkers(q Queue, n int) error {
	if q == nil {
		return errors.New("changing the number of workers of a queue: it must not be nil")
	}
	runner, ok := q.Runner().(ResizableRunner)
	if !ok {
		return fmt.Errorf("changing the number of workers of queue %q: its runner %T does not support that: %w", q.ID(), q.Runner(), errors.ErrUnsupported)
	}
	return runner.SetWorkers(n)
}

// JobReleaser is implemented by queues that can take back a job whose run was
// interrupted, so that it runs again. Runners use it at a hard stop.
type JobReleaser interface {
	// Release hands back a job that Next returned. It discards what the
	// interrupted run recorded in the job's status, and does not count the run as
	// an attempt. If the queue stores jobs, the job's own fields are restored to
	// what they were before the run. If the queue holds the job itself, the fields
	// stay as the run left them.
	Release(ctx context.Context, j Job) error
}

// BrokenJobEnder is implemented by queues that can end a job whose own methods panic.
// Runners use it if a method panics that they or the queue call before or after Run.
type BrokenJobEnder interface {
	// EndBroken ends the attempt of a job that Next returned as failed, with the error
	// broken and without a retry. A queue that stores jobs calls no method of the job. The
	// error wraps ErrLeaseLost if the queue does not run the job.
	EndBroken(ctx context.Context, j Job, broken error) error
}

// JobSnoozer is implemented by queues that can take back a job that asked to run
// again later. Runners use it for a SnoozableJob.
type JobSnoozer interface {
	// Snooze hands back a job that Next returned, to run again at until, but not
	// before MinSnooze has passed. Otherwise it works like Release. It clears the
	// job's own request to be snoozed.
	Snooze(ctx context.Context, j Job, until time.Time) error
}

// JobContexter is implemented by queues that can cancel a job while it runs: because
// its lease went stale and another process took it over, or because an operator
// canceled it.
type JobContexter interface {
	// JobContext derives the context for a run of a job that Next returned. The
	// context ends with cause ErrLeaseLost when the lease is lost, and with cause
	// ErrAborted when the job is canceled. The caller must call the cancel
	// function when the run ends.
	JobContext(ctx context.Context, j Job) (context.Context, context.CancelFunc)
}

// JobCompleter is implemented by queues that batch the writes that end jobs. A runner
// that does not need to know whether the write succeeded uses it, and takes its next
// job meanwhile.
type JobCompleter interface {
	// CompleteLater is like Complete, but returns before the end of the job is
	// written. From then on the queue owns the job, and the caller must not change
	// it. wait blocks until the end is written, or until the queue gives up after
	// ctx has ended; the runner's Close must not return before that. The queue logs
	// an error.
	CompleteLater(ctx context.Context, j Job) (wait func())
}

// CloseReporter is implemented by queues and runners whose Close may return while jobs
// still run. The queues and runners of this module return within a second of the end of
// the context of Close. A queue includes the report of its runner if that is a
// CloseReporter, as the runners of package pool are.
type CloseReporter interface {
	// LeftBehind returns the sorted IDs of the jobs that had not finished when Close
	// returned: their Run had not returned, or the call that records their end had not.
	// It returns nil before Close returns, and if there are none. The leases of these
	// jobs are no longer renewed, so another process runs the jobs when the leases
	// expire. The same happens to a job whose end the store did not accept in time; the queue
	// logs that. LeftBehind does not block and is safe for concurrent use.
	LeftBehind() []string
}
