package engine

import (
	"context"
	"fmt"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/core"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/internal/jobstate"
)

var _ amboy.ProgressSetter = (*Queue)(nil)

// SetProgress stores the progress of a job that Next returned, under its lease.
func (q *Queue) SetProgress(ctx context.Context, j amboy.Job, progress amboy.JobProgress) error {
	if amboy.IsNilJob(j) {
		return fmt.Errorf("setting the progress of a job of queue %q: the job must not be nil", q.ID())
	}
	run := q.Engine.runOf(j)
	if run == nil {
		return fmt.Errorf("setting the progress of job %q: it does not run in queue %q: %w", j.ID(), q.ID(), amboy.ErrLeaseLost)
	}
	return q.setProgress(ctx, j, run, progress)
}

// setProgress stores the progress of a run, unless a transaction may have ended it: the store
// would wait for that transaction, whose job may be the caller.
func (q *Queue) setProgress(ctx context.Context, j amboy.Job, run *core.Run, progress amboy.JobProgress) error {
	if q.Engine.isTransacted(j) {
		return nil
	}
	return q.Driver.SetProgress(ctx, run.Lease, progress)
}

// storeProgress stores the progress of a job that is handed back, because the job may
// know newer progress than the store. The job does not wait long for that.
func (q *Queue) storeProgress(ctx context.Context, j amboy.Job, lease driver.Lease) error {
	progress := amboy.ProgressOf(j)
	if progress == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, DriverTimeout)
	defer cancel()
	if err := q.Driver.SetProgress(ctx, lease, *progress); err != nil {
		return fmt.Errorf("storing its progress: %w", err)
	}
	return nil
}

var _ amboy.StuckReporter = (*Queue)(nil)

// ReportStuck stores that the run of a job that Next returned is stuck. The run no longer
// counts towards the number of workers of a group.
func (q *Queue) ReportStuck(ctx context.Context, j amboy.Job, stuck amboy.StuckRun) error {
	if amboy.IsNilJob(j) {
		return fmt.Errorf("reporting a stuck job of queue %q: the job must not be nil", q.ID())
	}
	run := q.Engine.runOf(j)
	if run == nil {
		return fmt.Errorf("reporting stuck job %q: it does not run in queue %q: %w", j.ID(), q.ID(), amboy.ErrLeaseLost)
	}
	q.Engine.Happen(core.Stuck{Run: run})
	if err := q.setProgress(ctx, j, run, jobstate.ShowStuck(j, stuck)); err != nil {
		return fmt.Errorf("reporting stuck job %q: %w", j.ID(), err)
	}
	return nil
}
