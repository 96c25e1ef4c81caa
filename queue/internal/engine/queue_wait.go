package engine

import (
	"context"
	"time"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/internal/lifecycle"
)

const (
	// recheckInterval is how often callers that wait for jobs to end read the store, because
	// another process may have ended the jobs.
	recheckInterval = time.Second
	// slowRecheckInterval is the same for callers that an endWatch wakes, because
	// notifications can be lost.
	slowRecheckInterval = 30 * time.Second
)

// Ended wakes the callers that wait for a job.
func (q *Queue) Ended(ctx context.Context, id string) {
	q.completeMu.Lock()
	q.complete.Ended(id, false)
	q.completeMu.Unlock()
	if q.Is(lifecycle.Created) {
		q.checkIdle(ctx) // no worker runs that would find the queue idle
	}
}

// checkIdleAfterEnd is checkIdle after the end of a job that ran here. It does nothing if
// a worker claims after each end anyway, and so finds the queue idle. It does not wait for a
// store that takes time, because the ends of other jobs may have to be reported next.
func (q *Queue) checkIdleAfterEnd(ctx context.Context) {
	switch {
	case !q.Engine.Notified || !q.Engine.mayBeIdle(q.Line):
	case q.Engine.inline:
		q.checkIdle(ctx)
	default:
		q.Engine.drained(q.Line)
	}
}

// checkIdle wakes the callers that wait until no work is left, if none is left.
func (q *Queue) checkIdle(ctx context.Context) {
	if !q.Engine.isWatched(q.Line) || !q.Idle(ctx) {
		return
	}
	q.completeMu.Lock()
	defer q.completeMu.Unlock()
	q.complete.ReachedIdle()
}

// Idle reports whether nothing is pending, running or retrying. It returns false if that
// can't be read.
func (q *Queue) Idle(ctx context.Context) bool {
	isIdle, err := q.isIdle(ctx)
	return err == nil && isIdle
}

// subscription registers a waiter. The channel is closed when the condition may have come
// true. The waiter calls leave when it stops waiting.
type subscription func(*lifecycle.Completion) (changed <-chan struct{}, leave func())

// WaitComplete waits until nothing is pending, running or retrying.
func (q *Queue) WaitComplete(ctx context.Context) bool {
	q.Engine.watch(q.Line, 1)
	defer q.Engine.watch(q.Line, -1)
	return q.waitUntil(ctx, recheckInterval, q.Idle, func(c *lifecycle.Completion) (<-chan struct{}, func()) { return c.UntilIdle(false), func() {} })
}

// WaitJobComplete waits until a job has ended for good.
func (q *Queue) WaitJobComplete(ctx context.Context, id string) bool {
	if !q.exists(ctx, id) {
		return false
	}
	recheck := recheckInterval
	if q.Engine.Notified {
		recheck = slowRecheckInterval
		q.Engine.ends.add(q, 1)
		defer q.Engine.ends.add(q, -1)
	}
	hasEnded := func(ctx context.Context) bool { return q.HasEnded(ctx, id) }
	return q.waitUntil(ctx, recheck, hasEnded, func(c *lifecycle.Completion) (<-chan struct{}, func()) { return c.UntilEnded(id) })
}

// exists reports whether a job exists. It tries again until the store answers, and returns false if
// ctx, or for others than running jobs the queue, ends first.
func (q *Queue) exists(ctx context.Context, id string) bool {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if !q.ServesRun(ctx) {
		defer q.OnStop(cancel)()
	}
	_, err := q.rereadUntil(ctx, id)
	return err == nil
}

// HasEnded reports whether a job that existed has ended for good.
func (q *Queue) HasEnded(ctx context.Context, id string) bool {
	r, err := q.Driver.Get(ctx, q.Name, id)
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
// does not prune the queue meanwhile. A running job waits until ctx ends: what it waits for
// may end in this process, or in another, although the queue has stopped.
func (q *Queue) waitUntil(ctx context.Context, recheck time.Duration, holds func(context.Context) bool, subscribe subscription) bool {
	q.waiters.Add(1)
	defer q.waiters.Add(-1)
	for {
		reached, again := q.checkAndWait(ctx, recheck, holds, subscribe)
		if !again {
			return reached
		}
	}
}

// withinTimeout checks a condition. It takes a condition that can't be read in time for false: the
// connection may be dead, and ctx may end much later.
func withinTimeout(ctx context.Context, holds func(context.Context) bool) bool {
	ctx, cancel := context.WithTimeout(ctx, DriverTimeout)
	defer cancel()
	return holds(ctx)
}

// checkAndWait checks the condition once and, if it does not hold, waits until it is time
// to check again.
func (q *Queue) checkAndWait(ctx context.Context, recheck time.Duration, holds func(context.Context) bool, subscribe subscription) (reached, again bool) {
	q.completeMu.Lock()
	changed, leave := subscribe(&q.complete)
	q.completeMu.Unlock()
	defer func() {
		q.completeMu.Lock()
		leave()
		q.completeMu.Unlock()
	}()
	if withinTimeout(ctx, holds) {
		return true, false
	}
	stopped := q.Open.Done()
	if q.ServesRun(ctx) {
		stopped = nil
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
	case <-stopped:
		return false, false
	}
}
