package amboytest

import (
	"context"
	"time"
)

// Scheduler is what RunSchedule needs of a *schedule.Scheduler of the queue, which
// must not be started.
type Scheduler interface {
	// PutDue puts the jobs that are due, and tells when the next will be.
	PutDue(ctx context.Context) (next time.Time, err error)
}

// RunSchedule is RunUntil, and puts the jobs of a schedule at their times. It ends
// with the first error of the schedule.
func (q *Queue) RunSchedule(ctx context.Context, s Scheduler, t time.Time) (ran int, err error) {
	for {
		next, err := s.PutDue(ctx)
		if err != nil {
			return ran, err
		}
		if next.IsZero() || next.After(t) {
			return ran + q.RunUntil(ctx, t), nil
		}
		ran += q.RunUntil(ctx, next)
	}
}
