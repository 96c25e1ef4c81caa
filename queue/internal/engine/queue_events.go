package engine

import (
	"context"
	"time"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/activity"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/internal/jobstate"
)

// count records an attempt that ended for good or was retried in the activity counts.
func (q *Queue) count(r *driver.Record) {
	now := q.Engine.Now()
	outcome := activity.Failed
	switch driver.StateOf(r, now) {
	case amboy.StateRetrying:
		return // Counted when it is retried or ends.
	case amboy.StateSucceeded:
		outcome = activity.Succeeded
	}
	q.countAs(outcome, r, now)
}

func (q *Queue) countAs(outcome activity.Outcome, r *driver.Record, now time.Time) {
	wait, run := jobstate.TimesOf(r.TimeInfo)
	if q.Engine.Activity.Ended(now, q.Name, r.Type, outcome, wait, run) {
		q.Engine.Announcer.activityChanged(now)
	}
}

// TellSchedules implements amboy.ScheduleTeller.
func (q *Queue) TellSchedules(ctx context.Context, schedules ...amboy.ScheduleInfo) error {
	return q.StoreSchedules(ctx, q.Driver, q.Name, q.Engine.Now(), schedules)
}

// ForgetSchedules implements amboy.ScheduleTeller.
func (q *Queue) ForgetSchedules(ctx context.Context, names ...string) error {
	return q.DropSchedules(ctx, q.Driver, q.Name, names)
}

// publishEnd publishes how an attempt ended. It publishes nothing for the last attempt of a
// job that asks for another: the retry handler ends that job, and publishes its end.
func (q *Queue) publishEnd(j amboy.Job) {
	if !q.Events.Subscribed() {
		return
	}
	now := q.Engine.Now()
	info := amboy.NewJobInfo(j)
	state := amboy.StateOf(info, now)
	if state == amboy.StateRetrying && info.Retry.GetRemainingAttempts() == 0 {
		return
	}
	q.Send(amboy.EventKind(state), j, now)
}

// publishRecord publishes an event of a job that was not decoded here.
func (q *Queue) publishRecord(kind amboy.EventKind, r *driver.Record, now time.Time, err error) {
	if !q.Events.Subscribed() {
		return
	}
	q.Events.Send(amboy.Event{
		Kind:    kind,
		Queue:   q.ID(),
		Time:    now,
		JobID:   r.JobID(),
		JobType: amboy.JobType{Name: r.Type, Version: r.Version},
		Attempt: r.RetryInfo.CurrentAttempt,
		Err:     err,
	})
}
