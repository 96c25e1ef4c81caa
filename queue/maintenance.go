package queue

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/logging"
	"github.com/mongodb/amboy/queue/driver"
)

const (
	// forgettingDuty is what the process has that removes finished jobs.
	forgettingDuty = "forgetting"
	// forgetAtOnce is the number of finished jobs that one call removes.
	forgetAtOnce = 1000
	// retriesAtOnce is the number of jobs that one page of retries has.
	retriesAtOnce = 1000
)

// forgetIfDue removes jobs whose time is over, where there may be some.
func (e *engine) forgetIfDue(ctx context.Context) error {
	now := e.now()
	if !e.forgetting.isDue(now) {
		return nil
	}
	return e.forget(ctx, now)
}

// forget removes jobs whose time is over, unless another process is at it; then it is
// tried again with the next heartbeat.
func (e *engine) forget(ctx context.Context, now time.Time) error {
	duty := driver.Duty{Name: forgettingDuty, Owner: e.id, For: e.heartbeatPeriod()}
	taken, err := e.driver.TakeDuty(ctx, duty, now)
	if err != nil {
		return fmt.Errorf("finding out who does so: %w", err)
	}
	if !taken {
		return nil
	}
	for more := true; more; {
		var forgotten int
		forgotten, err = e.driver.Forget(ctx, now, forgetAtOnce)
		if err != nil {
			return err
		}
		more = forgotten == forgetAtOnce
	}
	e.forgetting.done(now)
	return nil
}

// scanRetries gives the retry handlers the jobs that await their retry: their
// own, which they know, and those of handlers that are gone.
func (e *engine) scanRetries(ctx context.Context) error {
	names := e.queuesToScan(e.now())
	if len(names) == 0 {
		return nil
	}
	query := driver.Query{Queues: names, States: []amboy.JobState{amboy.StateRetrying}}
	if len(names) > manyQueues {
		query.Queues = nil
	}
	for record, err := range records(ctx, e.driver, query, retriesAtOnce) {
		if err != nil {
			return err
		}
		q := e.queue(record.Group)
		if q == nil {
			continue
		}
		j, err := record.Resolve(q.format)
		switch {
		case err == nil:
			q.handOver(ctx, j)
		case isUnknown(record, err):
			e.meetUnknown(record) // a process that knows it looks for retries too
		default:
			logging.Warning(ctx, q.failure("a job that awaits its retry can't be read", record.JobID(), err))
		}
	}
	return nil
}

// manyQueues is the number of queues from which on a query does not name them.
const manyQueues = 500

// queuesToScan are the queues in which to look for retries: those that have begun since
// the last time or, where it is time for that, all of them.
func (e *engine) queuesToScan(now time.Time) []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	names := e.begun
	e.begun = nil
	if now.Sub(e.scannedAt) >= e.retryScan {
		e.scannedAt = now
		names = slices.Collect(maps.Keys(e.queues))
	}
	return names
}
