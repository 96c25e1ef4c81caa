package engine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/codec"
	"github.com/mongodb/amboy/internal/contain"
	"github.com/mongodb/amboy/internal/logging"
	"github.com/mongodb/amboy/internal/records"
	"github.com/mongodb/amboy/queue/driver"
)

const (
	// forgettingDuty names the duty of the one process that removes finished jobs.
	forgettingDuty = "forgetting"
	// forgetAtOnce is the number of finished jobs that one call removes.
	forgetAtOnce = 1000
	// retriesAtOnce is the page size for reading retrying jobs.
	retriesAtOnce = 1000
)

// forgetIfDue removes jobs whose retention is over, if there may be any.
func (e *Engine) forgetIfDue(ctx context.Context) error {
	now := e.Now()
	if !e.forgetting.isDue(now) {
		return nil
	}
	return e.Forget(ctx, now)
}

// Forget removes jobs whose retention is over, unless another process has the duty. Then
// the next heartbeat tries again.
func (e *Engine) Forget(ctx context.Context, now time.Time) error {
	duty := driver.Duty{Name: forgettingDuty, Owner: e.ID, For: e.heartbeatPeriod()}
	taken, err := e.Driver.TakeDuty(ctx, duty, now)
	if err != nil {
		return fmt.Errorf("taking duty %q: %w", duty.Name, err)
	}
	if !taken {
		return nil
	}
	for more := true; more; {
		var forgotten int
		forgotten, err = e.Driver.Forget(ctx, now, forgetAtOnce)
		if err != nil {
			return err
		}
		more = forgotten == forgetAtOnce
	}
	e.forgetting.done(now)
	return nil
}

// scanRetries hands retrying jobs to the retry handlers of their queues: jobs that the
// handlers already know, and jobs that handlers of other processes left behind.
func (e *Engine) scanRetries(ctx context.Context, all bool) error {
	names := e.queuesToScan(all)
	if len(names) == 0 {
		return nil
	}
	err := e.scanRetriesOf(ctx, names)
	if err != nil {
		e.scanAgain(names)
	}
	return err
}

func (e *Engine) scanRetriesOf(ctx context.Context, names []string) error {
	query := driver.Query{Queues: names, States: []amboy.JobState{amboy.StateRetrying}}
	if len(names) > manyQueues {
		query.Queues = nil
	}
	for record, err := range records.Each(ctx, e.Driver, query, driver.PageRequest{Limit: retriesAtOnce}) {
		if err != nil {
			return err
		}
		q := e.Queue(record.Group)
		if q == nil {
			continue
		}
		var j amboy.Job
		err = contain.Alone(func() (err error) { // the others are scanned even if its code ends the goroutine
			j, err = q.Form.Resolve(record)
			return err
		})
		switch {
		case err == nil:
			q.HandOver(ctx, j)
		case errors.Is(err, codec.ErrKeyUnavailable):
			q.warnOfKey(ctx, record, err) // a process that has the key scans for retries too
		case isUnknown(record, err):
			e.meetUnknown(record) // a process that knows the type scans for retries too
		default:
			logging.Warning(ctx, q.failure("could not decode a retrying job", record.JobID(), err))
		}
	}
	return nil
}

// manyQueues is the largest number of queues that a query names.
const manyQueues = 500

// queuesToScan returns the queues in which to scan for retries: all of them, or the queues that
// have started since the last call.
func (e *Engine) queuesToScan(all bool) []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	names := e.begun
	e.begun = nil
	if all {
		names = slices.Collect(maps.Keys(e.queues))
	}
	return names
}

// scanAgain makes the next call of queuesToScan return these queues too, because their scan
// has failed.
func (e *Engine) scanAgain(names []string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.begun = append(e.begun, names...)
}
