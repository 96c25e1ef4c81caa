package queue

import (
	"context"
	"time"

	"github.com/mongodb/amboy"
)

// recheckInterval is how often those who wait for jobs to end look themselves,
// because another process may have ended them.
const recheckInterval = time.Second

// ended wakes those who wait for a job, or for all of them.
func (q *engine) ended(ctx context.Context, id string) {
	q.completeMu.Lock()
	wanted := q.complete.idle != nil
	q.completeMu.Unlock()
	idle := wanted && q.idle(ctx)

	q.completeMu.Lock()
	defer q.completeMu.Unlock()
	q.complete.ended(id, idle)
}

// idle is true where nothing is pending, running or retrying.
func (q *engine) idle(ctx context.Context) bool {
	stats, err := q.driver.Stats(ctx)
	return err == nil && stats.IsComplete()
}

// WaitComplete waits until nothing is pending, running or retrying.
func (q *engine) WaitComplete(ctx context.Context) bool {
	return q.waitUntil(ctx, func(c *completion) <-chan struct{} { return c.untilIdle(false) }, q.idle)
}

// WaitJobComplete waits until a job has ended for good.
func (q *engine) WaitJobComplete(ctx context.Context, id string) bool {
	if _, err := q.driver.Get(ctx, id); err != nil {
		return false
	}
	return q.waitUntil(ctx,
		func(c *completion) <-chan struct{} { return c.untilEnded(id, false) },
		func(ctx context.Context) bool {
			r, err := q.driver.Get(ctx, id)
			if err != nil {
				// It was there, so that it has ended and was forgotten since.
				return amboy.IsJobNotFoundError(err)
			}
			return r.Status.Completed && !r.RetryInfo.ShouldRetry()
		})
}

// waitUntil waits until a condition holds. It looks when something ended here,
// and now and then because of other processes.
func (q *engine) waitUntil(ctx context.Context, subscribe func(*completion) <-chan struct{}, holds func(context.Context) bool) bool {
	timer := time.NewTimer(recheckInterval)
	defer timer.Stop()
	for {
		q.completeMu.Lock()
		changed := subscribe(&q.complete)
		q.completeMu.Unlock()
		if holds(ctx) {
			return true
		}
		select {
		case <-changed:
			return true
		case <-timer.C:
			timer.Reset(recheckInterval)
		case <-ctx.Done():
			return false
		case <-q.open.Done():
			return false
		}
	}
}
