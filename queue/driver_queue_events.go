package queue

import (
	"context"
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

// TellSchedules implements amboy.ScheduleTeller.
func (q *driverQueue) TellSchedules(ctx context.Context, schedules ...amboy.ScheduleInfo) error {
	return q.storeSchedules(ctx, q.driver, q.name, q.engine.now(), schedules)
}

// ForgetSchedules implements amboy.ScheduleTeller.
func (q *driverQueue) ForgetSchedules(ctx context.Context, names ...string) error {
	return q.forgetSchedules(ctx, q.driver, q.name, names)
}

// publishEnd publishes how an attempt ended. It publishes nothing for the last attempt of a
// job that asks for another: the retry handler ends that job, and publishes its end.
func (q *driverQueue) publishEnd(j amboy.Job) {
	if !q.events.Subscribed() {
		return
	}
	now := q.engine.now()
	info := amboy.NewJobInfo(j)
	state := amboy.StateOf(info, now)
	if state == amboy.StateRetrying && info.Retry.GetRemainingAttempts() == 0 {
		return
	}
	q.send(amboy.EventKind(state), j, now)
}

// publishParked publishes that a job was parked because it can't be decoded.
func (q *driverQueue) publishParked(r *driver.Record, err error) {
	if !q.events.Subscribed() {
		return
	}
	q.events.Send(amboy.Event{
		Kind:    amboy.EventParked,
		Queue:   q.id,
		Time:    q.engine.now(),
		JobID:   r.JobID(),
		JobType: amboy.JobType{Name: r.Type, Version: r.Version},
		Attempt: r.RetryInfo.CurrentAttempt,
		Err:     err,
	})
}
