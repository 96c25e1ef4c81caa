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
// time is over, in one of the processes that share the store. It comes with each
// heartbeat, so that what a process left behind runs again a heartbeat after its
// leases ran out.
func (e *engine) maintain() {
	period := e.heartbeatPeriod()
	ctx, cancel := context.WithTimeout(context.Background(), max(period, driverTimeout))
	defer cancel()
	defer func() { e.recovery.set(time.Now().Add(period)) }()

	now := time.Now()
	taken, err := e.driver.TakeDuty(ctx, driver.Duty{Name: maintenanceDuty, Owner: e.id, Until: now.Add(period + period/4)}, now)
	if err != nil {
		logging.Error(ctx, e.failure("could not find out who maintains the store", err))
	}
	if taken {
		e.recover(ctx, now)
		e.forget(ctx, now)
	}
}

func (e *engine) recover(ctx context.Context, now time.Time) {
	recovered, err := e.driver.RecoverStale(ctx, now)
	if err != nil {
		logging.Error(ctx, e.failure("could not recover stale jobs", err))
	}
	if recovered > 0 {
		logging.Warning(ctx, message.Fields{"message": "recovered jobs whose worker is gone", "owner": e.id, "jobs": recovered})
		e.claims.signal()
	}
}

func (e *engine) forget(ctx context.Context, now time.Time) {
	for {
		forgotten, err := e.driver.Forget(ctx, now, forgetAtOnce)
		if err != nil {
			logging.Error(ctx, e.failure("could not remove finished jobs", err))
		}
		if err != nil || forgotten < forgetAtOnce || ctx.Err() != nil {
			return
		}
	}
}

// takeUpRetries gives the retry handlers the jobs that await their retry: their
// own, which they know, and those of handlers that are gone.
func (e *engine) takeUpRetries() {
	ctx, cancel := context.WithTimeout(context.Background(), e.lookForRetries)
	defer cancel()
	defer func() { e.handOvers.set(time.Now().Add(e.lookForRetries)) }()
	query := driver.Query{Queues: e.toLookAt(time.Now()), States: []amboy.JobState{amboy.StateRetrying}}
	for record, err := range records(ctx, e.driver, query, retriesAtOnce) {
		if err != nil {
			logging.Error(ctx, e.failure("could not look for jobs to retry", err))
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
