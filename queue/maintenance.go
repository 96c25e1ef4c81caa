package queue

import (
	"context"
	"time"

	"github.com/mongodb/grip/message"

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

// maintain hands back the leases of workers that died, with each heartbeat, so that
// what a process left behind runs again less than a heartbeat after its leases ran
// out. Each process on the store does so: to agree on one would cost more than the
// look, which finds nothing most of the time. It removes jobs whose time is over.
func (e *engine) maintain(ctx context.Context) {
	period := e.heartbeatPeriod()
	ctx, cancel := context.WithTimeout(ctx, max(period, driverTimeout))
	defer cancel()
	defer func() { e.recovery.set(e.now().Add(period)) }()

	now := e.now()
	e.recover(ctx, now)
	if e.forgetting.isDue(now) {
		e.forget(ctx, now)
	}
}

func (e *engine) recover(ctx context.Context, now time.Time) {
	recovered, err := e.driver.RecoverStale(ctx, now)
	e.report("could not recover stale jobs", err)
	if recovered > 0 {
		logging.Warning(ctx, message.Fields{"message": "recovered jobs whose worker is gone", "owner": e.id, "jobs": recovered})
		e.claims.signal()
	}
}

// forget removes jobs whose time is over, unless another process is at it; then it is
// tried again with the next heartbeat.
func (e *engine) forget(ctx context.Context, now time.Time) {
	duty := driver.Duty{Name: forgettingDuty, Owner: e.id, Until: now.Add(e.heartbeatPeriod())}
	taken, err := e.driver.TakeDuty(ctx, duty, now)
	e.report("could not find out who removes finished jobs", err)
	if !taken {
		return
	}
	for more := true; more; {
		var forgotten int
		forgotten, err = e.driver.Forget(ctx, now, forgetAtOnce)
		e.report("could not remove finished jobs", err)
		if err != nil || ctx.Err() != nil {
			return
		}
		more = forgotten == forgetAtOnce
	}
	e.forgetting.done(now)
}

// takeUpRetries gives the retry handlers the jobs that await their retry: their
// own, which they know, and those of handlers that are gone.
func (e *engine) takeUpRetries(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, e.lookForRetries)
	defer cancel()
	defer func() { e.handOvers.set(e.now().Add(e.lookForRetries)) }()
	names := e.toLookAt(e.now())
	if len(names) == 0 {
		return
	}
	query := driver.Query{Queues: names, States: []amboy.JobState{amboy.StateRetrying}}
	if len(names) > manyQueues {
		query.Queues = nil
	}
	for record, err := range records(ctx, e.driver, query, retriesAtOnce) {
		if err != nil {
			e.report("could not look for jobs to retry", err)
			return
		}
		q := e.queue(record.Group)
		if q == nil {
			continue
		}
		if j := q.resolve(ctx, record); j != nil {
			q.handOver(ctx, j)
		}
	}
}
