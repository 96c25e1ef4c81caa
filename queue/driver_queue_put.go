package queue

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/contain"
	"github.com/mongodb/amboy/internal/core"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/mongodb"
	"github.com/mongodb/amboy/registry"
)

func (q *driverQueue) Put(ctx context.Context, j amboy.Job) error {
	return q.PutMany(ctx, []amboy.Job{j})
}

func (q *driverQueue) PutMany(ctx context.Context, jobs []amboy.Job) error {
	if put := q.middleware.put.Load(); put != nil {
		return (*put)(ctx, jobs)
	}
	return q.insert(ctx, jobs)
}

func (q *driverQueue) insert(ctx context.Context, jobs []amboy.Job) error {
	q.puts.RLock()
	defer q.puts.RUnlock()
	q.putCalls.Add(1)
	if err := q.accepts(true); err != nil {
		return fmt.Errorf("putting jobs: %w", err)
	}
	now := q.engine.now()
	var errs putErrors
	var records []*driver.Record
	var recorded []amboy.Job
	for _, j := range jobs {
		var r *driver.Record
		err := contain.Panic(func() (err error) {
			r, err = q.newRecord(j, now)
			return err
		})
		if err != nil {
			errs.add(j, err)
			continue
		}
		records = append(records, r)
		recorded = append(recorded, j)
	}
	if len(records) == 0 {
		return errs.collate()
	}
	results, err := q.insertWhileOpen(ctx, records)
	if err != nil {
		errs.add(nil, fmt.Errorf("putting %s: %w", describeRecords(records), err))
		return errs.collate()
	}
	for i, r := range records {
		if results[i] != nil {
			errs.add(recorded[i], fmt.Errorf("putting job %q: %w", r.JobID(), results[i]))
			continue
		}
		markPut(recorded[i], r.TimeInfo.Created)
		q.publish(amboy.EventPut, recorded[i], now)
		if deadline := r.TimeInfo.DispatchBy; !deadline.IsZero() {
			q.engine.happen(core.DueAt{Time: deadline.Add(1)}) // even if no worker is free then
		}
	}
	q.engine.changed(q)
	return errs.collate()
}

// describeRecords describes records for an error message.
func describeRecords(records []*driver.Record) string {
	if len(records) == 1 {
		return fmt.Sprintf("job %q", records[0].JobID())
	}
	return fmt.Sprintf("%d jobs, the first of them %q", len(records), records[0].JobID())
}

// insertWhileOpen inserts records. It may wait for room until the queue stops.
func (q *driverQueue) insertWhileOpen(ctx context.Context, records []*driver.Record) ([]error, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer q.onStop(func() { cancel(amboy.ErrQueueClosed) })()
	started := !q.is(created)
	if !started {
		ctx = driver.WithoutWaiting(ctx) // no running job makes room
	}
	errs, err := q.driver.Insert(mongodb.ShowTransaction(ctx), records)
	if !started {
		for i, failure := range errs {
			if errors.Is(failure, driver.ErrFull) {
				errs[i] = fmt.Errorf("%w: %w", amboy.ErrQueueNotStarted, failure)
			}
		}
	}
	if err != nil && errors.Is(context.Cause(ctx), amboy.ErrQueueClosed) {
		err = fmt.Errorf("%w: %w", amboy.ErrQueueClosed, err)
	}
	if q.isStopped() {
		for i, failure := range errs {
			if errors.Is(failure, context.Canceled) || errors.Is(failure, driver.ErrClosed) {
				errs[i] = amboy.ErrQueueClosed
			}
		}
	}
	return errs, err
}

// newRecord encodes a job that is to be put, in the state that markPut gives it.
func (q *driverQueue) newRecord(j amboy.Job, now time.Time) (*driver.Record, error) {
	if err := amboy.ValidateJob(j); err != nil {
		return nil, err
	}
	r, err := q.record(j)
	if err == nil {
		err = q.form.seal(r)
	}
	if err != nil {
		return nil, err
	}
	if !q.engine.limits {
		for _, scope := range r.RequiredScopes {
			if _, _, limited := amboy.ScopeLimit(scope); limited {
				return nil, &amboy.InvalidJobError{JobID: j.ID(), Field: "scope", Value: scope, Rule: "must not be limited: the store of the queue has no limits"}
			}
		}
	}
	if !isPreset(&r.Status) {
		startAnew(r, now)
		return r, nil
	}
	r.TimeInfo = presetTimes(&r.Status, r.TimeInfo, now)
	r.Status = presetStatus(&r.Status)
	switch {
	case r.Status.InProgress:
		r.LeaseTime = q.engine.leaseTime
	case !r.RetryInfo.ShouldRetry():
		r.ForgetAt = q.forgetAt(j, r, r.TimeInfo.End)
	}
	return r, nil
}

// startAnew resets a record that is to be put to one that has not run.
func startAnew(r *driver.Record, now time.Time) {
	r.Status = newStatus(&r.Status, r.TimeInfo)
	r.TimeInfo = newTimes(r.TimeInfo, now)
}

// record encodes a job. What is stored must also be sealed.
func (q *driverQueue) record(j amboy.Job) (*driver.Record, error) {
	r, err := registry.MakeJobInterchange(j, q.form.format)
	if err != nil {
		return nil, err
	}
	r.Group = q.name
	r.Name = driver.RecordName(q.name, j.ID(), r.RetryInfo)
	return r, nil
}

func (q *driverQueue) Save(ctx context.Context, j amboy.Job) error {
	if amboy.IsNilJob(j) {
		return fmt.Errorf("saving a job in queue %q: the job must not be nil", q.id)
	}
	r, err := q.record(j)
	if err == nil {
		err = q.form.seal(r)
	}
	if err == nil {
		if run := q.engine.runOf(j); run != nil {
			// The job saves itself under the lease of its run, whatever its status says.
			r.Status.Owner, r.Status.ModificationCount = run.Lease.Owner, run.Lease.Count
		}
		err = q.driver.Save(ctx, r)
	}
	if err != nil {
		return fmt.Errorf("saving job %q: %w", j.ID(), err)
	}
	return nil
}
