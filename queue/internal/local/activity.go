package local

import (
	"context"
	"time"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/activity"
	"github.com/mongodb/amboy/queue/internal/jobstate"
)

// countEnd records an attempt that ended for good.
func (q *Queue) countEnd(succeeded bool, j amboy.Job, now time.Time) {
	outcome := activity.Failed
	if succeeded {
		outcome = activity.Succeeded
	}
	q.count(outcome, j, now)
}

// count records an attempt that ended.
func (q *Queue) count(outcome activity.Outcome, j amboy.Job, now time.Time) {
	wait, run := jobstate.TimesOf(j.TimeInfo())
	q.Announcer.Activity.Ended(now, q.ID(), j.Type().Name, outcome, wait, run)
}

// TellSchedules implements amboy.ScheduleTeller.
func (q *Queue) TellSchedules(ctx context.Context, schedules ...amboy.ScheduleInfo) error {
	return q.StoreSchedules(ctx, q.Admin(), q.ID(), time.Now(), schedules)
}

// ForgetSchedules implements amboy.ScheduleTeller.
func (q *Queue) ForgetSchedules(ctx context.Context, names ...string) error {
	return q.DropSchedules(ctx, q.Admin(), q.ID(), names)
}

// Load returns the number of jobs that can run at once, if the queue has started, and the
// number of jobs that do.
func (q *Queue) Load() (workers, running int) {
	if q.IsStarted() {
		workers = q.NumWorkers()
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	return workers, q.schedule.Running()
}
