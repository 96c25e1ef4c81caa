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
	// maintenanceDuty is what the process that maintains a store has.
	maintenanceDuty = "maintenance"
	// forgetAtOnce is the number of finished jobs that one call removes.
	forgetAtOnce = 1000
	// retriesAtOnce is the number of jobs that one page of retries has.
	retriesAtOnce = 1000
)

// maintain hands back the leases of workers that died, and removes jobs whose
// time is over, in one of the processes that share the store. It comes twice in a
// heartbeat, so that what a process left behind runs again less than a heartbeat
// after its leases ran out. By then another has the duty, if the one that died had it.
func (e *engine) maintain(ctx context.Context) {
	period := e.heartbeatPeriod() / 2
	ctx, cancel := context.WithTimeout(ctx, max(period, driverTimeout))
	defer cancel()
	defer func() { e.recovery.set(e.now().Add(period)) }()

	now := e.now()
	taken, err := e.driver.TakeDuty(ctx, driver.Duty{Name: maintenanceDuty, Owner: e.id, Until: now.Add(period + period/4)}, now)
	e.report("could not find out who maintains the store", err)
	if taken {
		e.recover(ctx, now)
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

func (e *engine) forget(ctx context.Context, now time.Time) {
	for {
		forgotten, err := e.driver.Forget(ctx, now, forgetAtOnce)
		e.report("could not remove finished jobs", err)
		if err != nil || forgotten < forgetAtOnce || ctx.Err() != nil {
			return
		}
	}
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
