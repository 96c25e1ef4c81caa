package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/contain"
	"github.com/mongodb/amboy/internal/core"
	"github.com/mongodb/amboy/internal/lazycontext"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/mongodb"
	"github.com/mongodb/amboy/queue/internal/jobstate"
	"github.com/mongodb/amboy/queue/internal/lifecycle"
	"github.com/mongodb/amboy/registry"
)

// Put implements amboy.Queue.
func (q *Queue) Put(ctx context.Context, j amboy.Job) error {
	return q.PutMany(ctx, []amboy.Job{j})
}

// PutMany implements amboy.Queue.
func (q *Queue) PutMany(ctx context.Context, jobs []amboy.Job) error {
	if put := q.Middleware.Put.Load(); put != nil {
		return (*put)(ctx, jobs)
	}
	return q.insert(ctx, jobs)
}

func (q *Queue) insert(ctx context.Context, jobs []amboy.Job) error {
	q.puts.RLock()
	defer q.puts.RUnlock()
	q.PutCalls.Add(1)
	fromRun := q.ServesRun(ctx)
	if err := q.Accepts(true); err != nil && !fromRun {
		return fmt.Errorf("putting jobs: %w", err)
	}
	now := q.Engine.Now()
	var errs jobstate.PutErrors
	var records []*driver.Record
	var recorded []amboy.Job
	for _, j := range jobs {
		var r *driver.Record
		err := contain.Panic(func() (err error) {
			r, err = q.newRecord(j, now)
			return err
		})
		if err != nil {
			errs.Add(j, err)
			continue
		}
		records = append(records, r)
		recorded = append(recorded, j)
	}
	if len(records) == 0 {
		return errs.Collate()
	}
	results, err := q.insertWhileOpen(ctx, records, fromRun)
	if err != nil {
		errs.Add(nil, fmt.Errorf("putting %s: %w", describeRecords(records), err))
		return errs.Collate()
	}
	for i, r := range records {
		if results[i] != nil {
			errs.Add(recorded[i], fmt.Errorf("putting job %q: %w", r.JobID(), results[i]))
			continue
		}
		jobstate.MarkPut(recorded[i], r.TimeInfo.Created)
		q.Publish(amboy.EventPut, recorded[i], now)
		if deadline := r.TimeInfo.DispatchBy; !deadline.IsZero() {
			q.Engine.Happen(core.DueAt{Time: deadline.Add(1)}) // even if no worker is free then
		}
	}
	q.Engine.changed(q)
	return errs.Collate()
}

// describeRecords describes records for an error message.
func describeRecords(records []*driver.Record) string {
	if len(records) == 1 {
		return fmt.Sprintf("job %q", records[0].JobID())
	}
	return fmt.Sprintf("%d jobs, the first of them %q", len(records), records[0].JobID())
}

// ServesRun reports whether ctx is that of a running job for which the queue goes on after it has stopped: a job that
// goes on while its process is replaced may put its next step, which other processes can run. It may be a job of another
// queue of the group.
func (q *Queue) ServesRun(ctx context.Context) bool {
	from := amboy.QueueFromContext(ctx)
	if other, ok := from.(*Queue); ok && other.Engine == q.Engine {
		return other.GoesOn()
	}
	return from != nil && q.GoesOn()
}

// GoesOn reports whether running jobs may put others although the queue may have stopped: its workers have not ended,
// and other processes have its jobs too.
func (q *Queue) GoesOn() bool { return !q.Engine.inline && !q.runsEnded.Load() }

// insertWhileOpen inserts records. It may wait for room until the queue stops, or, from a running job, until ctx ends.
func (q *Queue) insertWhileOpen(ctx context.Context, records []*driver.Record, fromRun bool) ([]error, error) {
	if !fromRun {
		caller := ctx
		open, cancel := lazycontext.New(caller, func() (context.Context, context.CancelFunc) { return q.whileOpen(caller) })
		defer cancel()
		ctx = open
	}
	started := !q.Is(lifecycle.Created)
	if !started {
		ctx = driver.WithoutWaiting(ctx) // no running job makes room
	}
	errs, err := q.Driver.Insert(mongodb.ShowTransaction(ctx), records)
	q.Engine.backlog.noteJobs()
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
	if q.IsStopped() {
		for i, failure := range errs {
			if errors.Is(failure, context.Canceled) || errors.Is(failure, driver.ErrClosed) {
				errs[i] = amboy.ErrQueueClosed
			}
		}
	}
	return errs, err
}

// whileOpen returns a context that also ends when the queue stops.
func (q *Queue) whileOpen(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	ignoreStop := q.OnStop(func() { cancel(amboy.ErrQueueClosed) })
	return ctx, func() {
		ignoreStop()
		cancel(nil)
	}
}

// newRecord encodes a job that is to be put, in the state that MarkPut gives it.
func (q *Queue) newRecord(j amboy.Job, now time.Time) (*driver.Record, error) {
	if err := amboy.ValidateJob(j); err != nil {
		return nil, err
	}
	r, err := q.Record(j)
	if err == nil {
		err = q.Form.Seal(r)
	}
	if err != nil {
		return nil, err
	}
	if !q.Engine.limits {
		for _, scope := range r.RequiredScopes {
			if _, _, limited := amboy.ScopeLimit(scope); limited {
				return nil, &amboy.InvalidJobError{JobID: j.ID(), Field: "scope", Value: scope, Rule: "must not be limited: the store of the queue has no limits"}
			}
		}
	}
	if !jobstate.IsPreset(&r.Status) {
		startAnew(r, now)
		return r, nil
	}
	r.TimeInfo = jobstate.PresetTimes(&r.Status, r.TimeInfo, now)
	r.Status = jobstate.PresetStatus(&r.Status)
	switch {
	case r.Status.InProgress:
		r.LeaseTime = q.Engine.LeaseTime
	case !r.RetryInfo.ShouldRetry():
		r.ForgetAt = q.ForgetAt(j, r, r.TimeInfo.End)
	}
	return r, nil
}

// startAnew resets a record that is to be put to one that has not run.
func startAnew(r *driver.Record, now time.Time) {
	r.Status = jobstate.NewStatus(&r.Status, r.TimeInfo)
	r.TimeInfo = jobstate.NewTimes(r.TimeInfo, now)
}

// Record encodes a job. What is stored must also be sealed.
func (q *Queue) Record(j amboy.Job) (*driver.Record, error) {
	r, err := registry.MakeJobInterchange(j, q.Form.Format)
	if err != nil {
		return nil, err
	}
	r.Group = q.Name
	r.Name = driver.RecordName(q.Name, j.ID(), r.RetryInfo)
	return r, nil
}

// Save implements amboy.Queue.
func (q *Queue) Save(ctx context.Context, j amboy.Job) error {
	if amboy.IsNilJob(j) {
		return fmt.Errorf("saving a job in queue %q: the job must not be nil", q.ID())
	}
	if q.Engine.isTransacted(j) { // the store would wait for that transaction, whose job may be the caller
		return fmt.Errorf("saving job %q: it may have ended in a transaction", j.ID())
	}
	r, err := q.Record(j)
	if err == nil {
		err = q.Form.Seal(r)
	}
	if err == nil {
		if run := q.Engine.runOf(j); run != nil {
			// The job saves itself under the lease of its run, whatever its status says.
			r.Status.Owner, r.Status.ModificationCount, r.Stamp = run.Lease.Owner, run.Lease.Count, run.Lease.Stamp
		}
		err = q.Driver.Save(ctx, r)
	}
	if err != nil {
		return fmt.Errorf("saving job %q: %w", j.ID(), err)
	}
	return nil
}
