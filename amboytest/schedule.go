package amboytest

import (
	"context"
	"errors"
	"time"
)

// errOtherTime means that a scheduler follows another clock than the queue's, by which its
// next tick does not come.
var errOtherTime = errors.New("the scheduler does not follow the queue's time: make it with schedule.New and this queue")

// Scheduler is implemented by *schedule.Scheduler. It must be a scheduler of the queue and
// must not be started.
type Scheduler interface {
	// PutDue puts the jobs that are due, and returns when the next ones will be.
	PutDue(ctx context.Context) (next time.Time, err error)
}

// RunSchedule is like RunUntil, and also puts the jobs of a schedule at their times. It
// stops at the first error of the schedule. It returns an error if the scheduler does not
// follow the queue's time: schedulers of schedule.NewInGroup and schedule.NewTenants follow
// the system's.
func (q *Queue) RunSchedule(ctx context.Context, s Scheduler, t time.Time) (ran int, err error) {
	for {
		next, err := s.PutDue(ctx)
		if err != nil {
			return ran, err
		}
		if next.IsZero() || next.After(t) {
			return ran + q.RunUntil(ctx, t), nil
		}
		if !next.After(q.Now()) {
			return ran, errOtherTime
		}
		ran += q.RunUntil(ctx, next)
	}
}
