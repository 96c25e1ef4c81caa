package job

import (
	"context"
	"fmt"
	"time"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/load"
)

// Wait blocks until a job of a queue has ended for good, and returns nil if it succeeded. It
// returns a *NoResultError with the state and the error of a job that did not succeed, a
// *WrongTypeError for a job of another definition, an error for which
// amboy.IsJobNotFoundError is true if the queue does not hold the job, the error of ctx if
// that ends first, and amboy.ErrQueueClosed if the queue is closed first. A queue.Inline, whose
// time is controlled by its user, does not wait for a job that can't run, for instance because
// the queue is paused: then the error is a *NoResultError with a state that is not final. Give
// ctx a deadline to wait for a limited time. If another process ends the job, Wait may return
// up to a second later.
func (d *Definition[A]) Wait(ctx context.Context, q amboy.Queue, id string) error {
	_, err := d.wait(ctx, q, id)
	return err
}

// PutAndWait is Put and then Wait. If ctx ends, the job stays in the queue.
func (d *Definition[A]) PutAndWait(ctx context.Context, q amboy.Queue, args A, opts ...Option) error {
	id, err := d.Put(ctx, q, args, opts...)
	if err != nil {
		return err
	}
	return d.Wait(ctx, q, id)
}

// wait returns a job that has succeeded.
func (d *Definition[A]) wait(ctx context.Context, q amboy.Queue, id string) (amboy.Job, error) {
	if err := d.checkQueue("waiting for a job", q); err != nil {
		return nil, err
	}
	j, err := d.getOwn(ctx, q, id)
	if err != nil {
		return nil, err
	}
	if !amboy.WaitJob(ctx, j, q) {
		err = ctx.Err()
		if err == nil && !q.Info().Started {
			err = amboy.ErrQueueClosed
		}
		if err != nil {
			return nil, fmt.Errorf("waiting for job %q of queue %q: %w", id, q.ID(), err)
		}
		// The queue has removed the job, or nothing makes the job run, as in a paused queue.Inline.
	}
	if j, err = d.getOwn(ctx, q, id); err != nil {
		return nil, err
	}
	info := amboy.JobInfo{Status: j.Status(), Time: j.TimeInfo(), Retry: j.RetryInfo()}
	if state := amboy.StateOf(info, time.Now()); state != amboy.StateSucceeded {
		return nil, &NoResultError{JobID: id, State: state, Err: j.Error()}
	}
	return j, nil
}

// getOwn returns a job of this definition.
func (d *Definition[A]) getOwn(ctx context.Context, q amboy.Queue, id string) (amboy.Job, error) {
	j, err := load.Job(ctx, q, id)
	if err == nil {
		_, err = d.own(j)
		return j, err
	}
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	return nil, fmt.Errorf("waiting for job %q of queue %q: %w", id, q.ID(), err)
}

// Wait is like Definition.Wait, and returns the job's result. It returns a *NoResultError
// also for a job that succeeded without a result, and a *ResultTypeError if the result can't
// be decoded as an R.
func (d *ResultDefinition[A, R]) Wait(ctx context.Context, q amboy.Queue, id string) (r R, err error) {
	j, err := d.wait(ctx, q, id)
	if err != nil {
		return r, err
	}
	return d.ResultOf(j)
}

// PutAndWait is Put and then Wait. If ctx ends, the job stays in the queue.
func (d *ResultDefinition[A, R]) PutAndWait(ctx context.Context, q amboy.Queue, args A, opts ...Option) (r R, err error) {
	id, err := d.Put(ctx, q, args, opts...)
	if err != nil {
		return r, err
	}
	return d.Wait(ctx, q, id)
}
