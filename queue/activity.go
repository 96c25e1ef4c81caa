package queue

import (
	"time"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/activity"
	"github.com/mongodb/amboy/queue/driver"
)

// count records an attempt that ended for good or was retried in the activity counts.
func (q *driverQueue) count(r *driver.Record) {
	now := q.engine.now()
	outcome := activity.Failed
	switch driver.StateOf(r, now) {
	case amboy.StateRetrying:
		return // Counted when it is retried or ends.
	case amboy.StateSucceeded:
		outcome = activity.Succeeded
	}
	q.countAs(outcome, r, now)
}

func (q *driverQueue) countAs(outcome activity.Outcome, r *driver.Record, now time.Time) {
	wait, run := timesOf(r.TimeInfo)
	if q.engine.activity.Ended(now, q.name, r.Type, outcome, wait, run) {
		q.engine.announcer.activityChanged(now)
	}
}

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

// timesOf returns how long an attempt waited and ran.
func timesOf(times amboy.JobTimeInfo) (wait, run time.Duration) {
	if times.Start.IsZero() {
		return activity.NotRun, activity.NotRun
	}
	return times.Waited(), times.Duration()
}
