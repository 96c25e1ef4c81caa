package local

import (
	"context"
	"fmt"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/contain"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/internal/schedule"
)

// MarkAllComplete ends jobs for good, as queue.Store.MarkComplete describes.
func (q *Queue) MarkAllComplete(ctx context.Context, records []*driver.Record) []error {
	errs := make([]error, len(records))
	for i, r := range records {
		errs[i] = contain.Panic(func() error { return q.markComplete(ctx, r) })
	}
	return errs
}

// markComplete ends a job, unless it changed since its record was read.
func (q *Queue) markComplete(ctx context.Context, r *driver.Record) error {
	q.mu.Lock()
	e, ok := q.schedule.Get(r.JobID())
	ended := ok && e.Place() == schedule.Finished
	q.mu.Unlock()
	switch {
	case !ok:
		return amboy.NewJobNotFoundErrorf("not found in queue %q", q.ID())
	case ended:
		return fmt.Errorf("already ended: %w", amboy.ErrLeaseLost)
	}
	j := e.Job.job
	status := j.Status()
	if status.InProgress != r.Status.InProgress || status.ModificationCount != r.Status.ModificationCount ||
		j.RetryInfo().CurrentAttempt != r.RetryInfo.CurrentAttempt {
		return fmt.Errorf("job changed since it was read: %w", amboy.ErrLeaseLost)
	}
	// The job must not ask for a retry any more, even if it still runs and fails.
	j.UpdateRetryInfo(amboy.JobRetryOptions{Retryable: new(false), NeedsRetry: new(false)})
	return q.Complete(ctx, j)
}
