package queue

import (
	"context"
	"time"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/contain"
	"github.com/mongodb/amboy/queue/driver"
)

const (
	// recheckInterval is how often callers that wait for jobs to end read the store, because
	// another process may have ended the jobs.
	recheckInterval = time.Second
	// slowRecheckInterval is the same for callers that an endWatch wakes, because
	// notifications can be lost.
	slowRecheckInterval = 30 * time.Second
)

// ended wakes the callers that wait for a job.
func (q *driverQueue) ended(ctx context.Context, id string) {
	q.completeMu.Lock()
	q.complete.ended(id, false)
	q.completeMu.Unlock()
	if q.is(created) {
		q.checkIdle(ctx) // no worker runs that would find the queue idle
	}
}

// checkIdleAfterEnd is checkIdle after the end of a job that ran here. It does nothing if
// a worker claims after each end anyway, and so finds the queue idle.
func (q *driverQueue) checkIdleAfterEnd(ctx context.Context) {
	if q.engine.notified && q.engine.mayBeIdle(q.line) {
		q.checkIdle(ctx)
	}
}

// checkIdle wakes the callers that wait until no work is left, if none is left.
func (q *driverQueue) checkIdle(ctx context.Context) {
	if !q.engine.isWatched(q.line) || !q.idle(ctx) {
		return
	}
	q.completeMu.Lock()
	defer q.completeMu.Unlock()
	q.complete.reachedIdle()
}

// idle reports whether nothing is pending, running or retrying. It returns false if the
// stats can't be read.
func (q *driverQueue) idle(ctx context.Context) bool {
	var stats amboy.QueueStats
	err := contain.Panic(func() (err error) {
		stats, err = q.driver.Stats(ctx, q.name)
		return err
	})
	return err == nil && stats.IsIdle()
}

// subscription registers a waiter. The channel is closed when the condition may have come
// true. The waiter calls leave when it stops waiting.
type subscription func(*completion) (changed <-chan struct{}, leave func())

// WaitComplete waits until nothing is pending, running or retrying.
func (q *driverQueue) WaitComplete(ctx context.Context) bool {
	q.engine.watch(q.line, 1)
	defer q.engine.watch(q.line, -1)
	return q.waitUntil(ctx, recheckInterval, q.idle, func(c *completion) (<-chan struct{}, func()) { return c.untilIdle(false), func() {} })
}

// WaitJobComplete waits until a job has ended for good.
func (q *driverQueue) WaitJobComplete(ctx context.Context, id string) bool {
	if _, err := q.driver.Get(ctx, q.name, id); err != nil {
		return false
	}
	recheck := recheckInterval
	if q.engine.notified {
		recheck = slowRecheckInterval
		q.engine.ends.add(q, 1)
		defer q.engine.ends.add(q, -1)
	}
	hasEnded := func(ctx context.Context) bool { return q.hasEnded(ctx, id) }
	return q.waitUntil(ctx, recheck, hasEnded, func(c *completion) (<-chan struct{}, func()) { return c.untilEnded(id) })
}

// hasEnded reports whether a job that existed has ended for good.
func (q *driverQueue) hasEnded(ctx context.Context, id string) bool {
	r, err := q.driver.Get(ctx, q.name, id)
	if err != nil {
		// The job existed, so it has ended and was removed since.
		return amboy.IsJobNotFoundError(err)
	}
	return hasEnded(r)
}

// hasEnded reports whether the job of a latest attempt has ended for good.
func hasEnded(r *driver.Record) bool { return r.Status.Completed && !r.RetryInfo.ShouldRetry() }

// waitUntil waits until a condition holds. It checks the condition whenever the subscription
// says so, and each time the recheck interval is over because of other processes. A group
// does not prune the queue meanwhile.
func (q *driverQueue) waitUntil(ctx context.Context, recheck time.Duration, holds func(context.Context) bool, subscribe subscription) bool {
	q.waiters.Add(1)
	defer q.waiters.Add(-1)
	for {
		reached, again := q.checkAndWait(ctx, recheck, holds, subscribe)
		if !again {
			return reached
		}
	}
}

// checkAndWait checks the condition once and, if it does not hold, waits until it is time
// to check again.
func (q *driverQueue) checkAndWait(ctx context.Context, recheck time.Duration, holds func(context.Context) bool, subscribe subscription) (reached, again bool) {
	q.completeMu.Lock()
	changed, leave := subscribe(&q.complete)
	q.completeMu.Unlock()
	defer func() {
		q.completeMu.Lock()
		leave()
		q.completeMu.Unlock()
	}()
	if holds(ctx) {
		return true, false
	}
	timer := time.NewTimer(recheck)
	defer timer.Stop()
	select {
	case <-changed:
		return false, true
	case <-timer.C:
		return false, true
	case <-ctx.Done():
		return false, false
	case <-q.open.Done():
		return false, false
	}
}
