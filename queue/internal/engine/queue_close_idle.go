package engine

import (
	"context"
	"fmt"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/contain"
	"github.com/mongodb/amboy/queue/internal/lifecycle"
)

// CloseIfIdle implements amboy.IdleCloser. Jobs that another process puts meanwhile stay
// in the store.
func (q *Queue) CloseIfIdle(ctx context.Context) (closed bool, err error) {
	if !q.puts.TryLock() {
		return false, nil
	}
	idle, err := q.stopIfIdle(ctx)
	q.puts.Unlock()
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
	if !q.puts.TryLock() {
		return false
	}
	unused := q.PutCalls.Load() == putCalls && q.waiters.Load() == 0 && !q.Engine.isBusy(q.Line)
	if unused {
		q.Phase.Store(int32(lifecycle.Stopped))
	}
	q.puts.Unlock()
	if unused {
		q.Close(ctx)
	}
	return unused
}

// stopIfIdle makes Put refuse jobs from now on if the queue has no work. The caller holds
// q.puts for writing.
func (q *Queue) stopIfIdle(ctx context.Context) (idle bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, DriverTimeout)
	defer cancel()
	var stats amboy.QueueStats
	err = contain.Panic(func() (err error) {
		stats, err = q.Driver.Stats(ctx, q.Name)
		return err
	})
	if err != nil || !stats.IsIdle() {
		return false, err
	}
	q.Phase.Store(int32(lifecycle.Stopped))
	return true, nil
}
