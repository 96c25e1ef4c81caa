package queue

import (
	"context"
	"fmt"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/contain"
)

// CloseIfIdle implements amboy.IdleCloser. Jobs that another process puts meanwhile stay
// in the store.
func (q *driverQueue) CloseIfIdle(ctx context.Context) (closed bool, err error) {
	if !q.puts.TryLock() {
		return false, nil
	}
	idle, err := q.stopIfIdle(ctx)
	q.puts.Unlock()
	if err != nil {
		return false, fmt.Errorf("closing queue %q if it is idle: %w", q.id, err)
	}
	if idle {
		q.Close(ctx)
	}
	return idle, nil
}

// closeIfUnused closes a queue of a group that reopens it when it has work. It does nothing
// if Put was called since putCalls was read, a job runs here, or a caller waits for a job.
func (q *driverQueue) closeIfUnused(ctx context.Context, putCalls int64) (closed bool) {
	if !q.puts.TryLock() {
		return false
	}
	unused := q.putCalls.Load() == putCalls && q.waiters.Load() == 0 && !q.engine.isBusy(q.line)
	if unused {
		q.phase.Store(int32(stopped))
	}
	q.puts.Unlock()
	if unused {
		q.Close(ctx)
	}
	return unused
}

// stopIfIdle makes Put refuse jobs from now on if the queue has no work. The caller holds
// q.puts for writing.
func (q *driverQueue) stopIfIdle(ctx context.Context) (idle bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, driverTimeout)
	defer cancel()
	var stats amboy.QueueStats
	err = contain.Panic(func() (err error) {
		stats, err = q.driver.Stats(ctx, q.name)
		return err
	})
	if err != nil || !stats.IsIdle() {
		return false, err
	}
	q.phase.Store(int32(stopped))
	return true, nil
}
