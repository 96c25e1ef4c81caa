package queue

import (
	"context"
	"errors"
	"fmt"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/core"
	"github.com/mongodb/amboy/queue/driver"
)

// EndLost ends the attempt of a job as failed if its lease, which must be of an AttemptOwner,
// was found to have run out. It changes nothing if the job has ended or was leased again.
// over is false while the job still runs under the lease.
func (l *Leases) EndLost(ctx context.Context, id string, lease driver.Lease) (over bool, err error) {
	r, err := l.driver.Get(ctx, lease.Queue, id)
	switch {
	case amboy.IsJobNotFoundError(err):
		return true, nil
	case err != nil:
		return false, fmt.Errorf("reading job %q of queue %q, whose lease may have run out: %w", id, lease.Queue, err)
	case r.Status.InProgress:
		return driver.LeaseOf(r) != lease, nil
	case r.Status.Completed || r.Name != lease.Name || !hasLostAttempt(r):
		return true, nil
	}
	if err = l.endLost(ctx, r); err != nil && !errors.Is(err, amboy.ErrLeaseLost) {
		return false, fmt.Errorf("ending the attempt of job %q of queue %q, whose lease ran out: %w", id, lease.Queue, err)
	}
	return true, nil
}

func (l *Leases) endLost(ctx context.Context, r *driver.Record) error {
	q, err := l.queue(ctx, r.Group)
	if err != nil {
		return err
	}
	j, err := q.ResolveSafely(r)
	if err != nil {
		return err
	}
	failLost(j)
	run := &core.Run{Record: r, Lease: driver.LeaseOf(r)}
	done := q.Engine.Result()
	endOutside(ctx, q, j, run, func(err error) { done <- err })
	return q.Engine.WaitForEnd(ctx, run, done)
}

// failLost fails the attempt of a job whose lease ran out.
func failLost(j amboy.Job) {
	if retry := j.RetryInfo(); retry.Retryable && retry.GetRemainingAttempts() > 0 {
		j.AddRetryableError(ErrLeaseRanOut)
		return
	}
	j.AddError(ErrLeaseRanOut)
}
