package queue

import (
	"context"
	"fmt"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/core"
	"github.com/mongodb/amboy/queue/driver"
)

var _ amboy.ProgressSetter = (*driverQueue)(nil)

// SetProgress stores the progress of a job that Next returned, under its lease.
func (q *driverQueue) SetProgress(ctx context.Context, j amboy.Job, progress amboy.JobProgress) error {
	if amboy.IsNilJob(j) {
		return fmt.Errorf("setting the progress of a job of queue %q: the job must not be nil", q.id)
	}
	run := q.engine.runOf(j)
	if run == nil {
		return fmt.Errorf("setting the progress of job %q: it does not run in queue %q: %w", j.ID(), q.id, amboy.ErrLeaseLost)
	}
	return q.driver.SetProgress(ctx, run.Lease, progress)
}

// storeProgress stores the progress of a job that is handed back, because the job may
// know newer progress than the store.
func (q *driverQueue) storeProgress(ctx context.Context, j amboy.Job, lease driver.Lease) error {
	progress := amboy.ProgressOf(j)
	if progress == nil {
		return nil
	}
	if err := q.driver.SetProgress(ctx, lease, *progress); err != nil {
		return fmt.Errorf("storing its progress: %w", err)
	}
	return nil
}

var _ amboy.StuckReporter = (*driverQueue)(nil)

// ReportStuck stores that the run of a job that Next returned is stuck. The run no longer
// counts against the limit of running jobs.
func (q *driverQueue) ReportStuck(ctx context.Context, j amboy.Job, stuck amboy.StuckRun) error {
	if amboy.IsNilJob(j) {
		return fmt.Errorf("reporting a stuck job of queue %q: the job must not be nil", q.id)
	}
	run := q.engine.runOf(j)
	if run == nil {
		return fmt.Errorf("reporting stuck job %q: it does not run in queue %q: %w", j.ID(), q.id, amboy.ErrLeaseLost)
	}
	q.engine.happen(core.Stuck{Run: run})
	if err := q.driver.SetProgress(ctx, run.Lease, showStuck(j, stuck)); err != nil {
		return fmt.Errorf("reporting stuck job %q: %w", j.ID(), err)
	}
	return nil
}
