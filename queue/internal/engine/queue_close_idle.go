package engine

import (
	"context"
	"fmt"

	"github.com/mongodb/amboy/internal/contain"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/internal/lifecycle"
)

// CloseIfIdle implements amboy.IdleCloser. Jobs that another process puts meanwhile stay
// in the store.
func (q *Queue) CloseIfIdle(ctx context.Context) (closed bool, err error) {
	// Put must not wait while the store is searched for jobs of the queue.
	if !q.puts.TryLock() {
		return false, nil
	}
	putCalls := q.PutCalls.Load()
	q.puts.Unlock()
	idle, err := q.isIdle(ctx)
	if idle {
		idle = q.stopIf(func() bool { return q.PutCalls.Load() == putCalls })
	}
	if err != nil {
		return false, fmt.Errorf("closing queue %q if it is idle: %w", q.ID(), err)
	}
	if idle {
		q.Close(ctx)
	}
	return idle, nil
}

// CloseIfUnused closes a queue of a group that reopens it when it has work. It does nothing
// if Put was called since putCalls was read, a job runs here, or a caller waits for a job.
func (q *Queue) CloseIfUnused(ctx context.Context, putCalls int64) (closed bool) {
	unused := q.stopIf(func() bool { return q.PutCalls.Load() == putCalls && q.waiters.Load() == 0 })
	if unused {
		q.Close(ctx)
	}
	return unused
}

// stopIf stops the queue if a condition holds, no Put is under way and no job runs here: from
// then on Put refuses jobs, and none starts.
func (q *Queue) stopIf(holds func() bool) (stopped bool) {
	if !q.puts.TryLock() {
		return false
	}
	defer q.puts.Unlock()
	stopped = holds() && q.Engine.stopUnlessBusy(q.Line)
	if stopped {
		q.Phase.Store(int32(lifecycle.Stopped))
	}
	return stopped
}

// isIdle reports whether the queue has no work in the store.
func (q *Queue) isIdle(ctx context.Context) (idle bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, DriverTimeout)
	defer cancel()
	err = contain.Panic(func() (err error) {
		if prober, ok := q.Driver.(driver.IdleProber); ok {
			idle, err = prober.IsIdle(ctx, q.Name)
			return err
		}
		stats, err := q.Driver.Stats(ctx, q.Name)
		idle = stats.IsIdle()
		return err
	})
	return err == nil && idle, err
}
