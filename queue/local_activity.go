package queue

import (
	"context"
	"time"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/activity"
)

// countEnd records an attempt that ended for good.
func (q *local) countEnd(succeeded bool, j amboy.Job, now time.Time) {
	outcome := activity.Failed
	if succeeded {
		outcome = activity.Succeeded
	}
	q.count(outcome, j, now)
}

// count records an attempt that ended.
func (q *local) count(outcome activity.Outcome, j amboy.Job, now time.Time) {
	wait, run := timesOf(j.TimeInfo())
	q.announcer.activity.Ended(now, q.id, j.Type().Name, outcome, wait, run)
}

// TellSchedules implements amboy.ScheduleTeller.
func (q *local) TellSchedules(ctx context.Context, schedules ...amboy.ScheduleInfo) error {
	return q.storeSchedules(ctx, q.admin(), q.id, time.Now(), schedules)
}

// ForgetSchedules implements amboy.ScheduleTeller.
func (q *local) ForgetSchedules(ctx context.Context, names ...string) error {
	return q.forgetSchedules(ctx, q.admin(), q.id, names)
}

// load returns the number of jobs that can run at once, if the queue has started, and the
// number of jobs that do.
func (q *local) load() (workers, running int) {
	if q.isStarted() {
		workers = q.numWorkers()
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	return workers, q.schedule.Running()
}
