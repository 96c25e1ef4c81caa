package queue

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/registry"
)

func (q *engine) Put(ctx context.Context, j amboy.Job) error {
	return q.insert(ctx, []amboy.Job{j})
}

func (q *engine) PutMany(ctx context.Context, jobs []amboy.Job) error {
	return q.insert(ctx, jobs)
}

func (q *engine) insert(ctx context.Context, jobs []amboy.Job) error {
	if err := q.accepts(true); err != nil {
		return fmt.Errorf("putting jobs: %w", err)
	}
	now := time.Now()
	var errs []error
	var records []*driver.Record
	var marked []amboy.Job // by the record; nil where the creation time was set
	for _, j := range jobs {
		r, unset, err := q.newRecord(j, now)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		records = append(records, r)
		if !unset {
			j = nil
		}
		marked = append(marked, j)
	}
	results, err := q.insertWhileOpen(ctx, records)
	for i, r := range records {
		failure := err
		if err == nil {
			failure = results[i]
		}
		if failure == nil {
			if deadline := r.TimeInfo.DispatchBy; !deadline.IsZero() {
				q.claims.timer.set(deadline.Add(1)) // even where no worker will look
			}
			continue
		}
		errs = append(errs, fmt.Errorf("putting job %q: %w", r.JobID(), failure))
		if marked[i] != nil {
			unmarkCreated(marked[i])
		}
	}
	q.claims.signal()
	return amboy.CollateWriteErrors(errs)
}

// insertWhileOpen inserts records, which may mean to wait for room, until the
// queue stops.
func (q *engine) insertWhileOpen(ctx context.Context, records []*driver.Record) ([]error, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer q.onStop(func() { cancel(amboy.ErrQueueClosed) })()
	errs, err := q.driver.Insert(ctx, records)
	if errors.Is(context.Cause(ctx), amboy.ErrQueueClosed) {
		for i, failure := range errs {
			if errors.Is(failure, context.Canceled) {
				errs[i] = amboy.ErrQueueClosed
			}
		}
	}
	return errs, err
}

// newRecord encodes a job that is to be put. It tells whether it set the job's
// creation time.
func (q *engine) newRecord(j amboy.Job, now time.Time) (r *driver.Record, unset bool, err error) {
	err = amboy.ValidateJob(j)
	if err != nil {
		return nil, false, err
	}
	unset = markCreated(j, now)
	r, err = q.record(j)
	if err != nil {
		if unset {
			unmarkCreated(j)
		}
		return nil, false, err
	}
	// A job that comes from elsewhere starts anew, with its history.
	r.Status = amboy.JobStatusInfo{Attempts: r.Status.Attempts, DroppedErrors: r.Status.DroppedErrors}
	return r, unset, nil
}

// record encodes a job.
func (q *engine) record(j amboy.Job) (*driver.Record, error) {
	r, err := registry.MakeJobInterchange(j, q.format)
	if err != nil {
		return nil, err
	}
	r.Name = driver.RecordName(j.ID(), r.RetryInfo)
	return r, nil
}

func (q *engine) Save(ctx context.Context, j amboy.Job) error {
	if amboy.IsNilJob(j) {
		return fmt.Errorf("saving a job in queue %q: the job must not be nil", q.id)
	}
	r, err := q.record(j)
	if err == nil {
		err = q.driver.Save(ctx, r)
	}
	if err != nil {
		return fmt.Errorf("saving job %q: %w", j.ID(), err)
	}
	return nil
}
