package queue

import (
	"context"
	"time"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/core"
	"github.com/mongodb/amboy/queue/driver"
)

// markedComplete notifies the engine and the waiters that an operator ended a job.
func (q *driverQueue) markedComplete(ctx context.Context, before, ended *driver.Record, now time.Time) {
	if before.Status.InProgress {
		q.engine.happen(core.Lost{Lease: driver.LeaseOf(before)})
	}
	q.recordEnded(ctx, ended, now)
}

// recordEnded notifies the engine, waiters and subscribers that a record ended whose job
// was not decoded here.
func (q *driverQueue) recordEnded(ctx context.Context, ended *driver.Record, now time.Time) {
	q.count(ended)
	q.ended(ctx, ended.JobID())
	if q.events.Subscribed() {
		q.events.Send(amboy.Event{
			Kind:    amboy.EventKind(driver.StateOf(ended, now)),
			Queue:   q.id,
			Time:    now,
			JobID:   ended.JobID(),
			JobType: amboy.JobType{Name: ended.Type, Version: ended.Version},
			Attempt: ended.RetryInfo.CurrentAttempt,
		})
	}
	q.engine.happen(core.Changed{Line: q.line})
}
