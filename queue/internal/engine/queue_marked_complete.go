package engine

import (
	"context"
	"time"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/core"
	"github.com/mongodb/amboy/queue/driver"
)

// MarkedComplete notifies the engine and the waiters that an operator ended a job.
func (q *Queue) MarkedComplete(ctx context.Context, before, ended *driver.Record, now time.Time) {
	if before.Status.InProgress {
		q.Engine.Happen(core.Lost{Lease: driver.LeaseOf(before)})
	}
	q.recordEnded(ctx, ended, now)
}

// recordEnded notifies the engine, waiters and subscribers that a record ended whose job
// was not decoded here.
func (q *Queue) recordEnded(ctx context.Context, ended *driver.Record, now time.Time) {
	q.count(ended)
	q.Ended(ctx, ended.JobID())
	q.publishRecord(amboy.EventKind(driver.StateOf(ended, now)), ended, now, nil)
	q.Engine.Happen(core.Changed{Line: q.Line})
}
