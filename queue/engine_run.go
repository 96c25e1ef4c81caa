package queue

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/dependency"
	"github.com/mongodb/amboy/internal/logging"
	"github.com/mongodb/amboy/queue/driver"
)

// claim claims records. Their leases are renewed from now on, also while they
// wait for a worker.
func (q *engine) claim(ctx context.Context, limit int) (claimed driver.Claimed, err error) {
	err = errorOfPanic(func() error {
		claimed, err = q.driver.Claim(ctx, driver.ClaimRequest{Owner: q.id, Limit: limit, Now: time.Now()})
		return err
	})
	if err != nil && ctx.Err() == nil {
		logging.Error(ctx, q.failure("could not claim jobs", "", err))
	}
	for _, r := range claimed.Records {
		q.leases.add(r.JobID(), driver.LeaseOf(r))
	}
	return claimed, err
}

// timeCame lets a worker look for jobs that are due. Where all are busy it ends
// the jobs that have expired, for which no worker is needed.
func (q *engine) timeCame() {
	if q.claims.signal() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), driverTimeout)
	defer cancel()
	claimed, err := q.claim(ctx, 0)
	if err != nil {
		q.claims.timer.set(time.Now().Add(claimRetry))
		return
	}
	for _, r := range claimed.Records {
		q.revive(ctx, r)
	}
	if !claimed.Next.IsZero() {
		q.claims.timer.set(claimed.Next)
	}
}

func (q *engine) Next(ctx context.Context) amboy.Job {
	for {
		r := q.claims.next(ctx)
		if r == nil {
			return nil
		}
		if j := q.revive(ctx, r); j != nil {
			return j
		}
	}
}

// revive makes a job of a claimed record. It returns nil where the job is not to
// run: one that can't be read is parked, and one that expired, or whose
// dependency says so, is ended or handed back.
func (q *engine) revive(ctx context.Context, r *driver.Record) amboy.Job {
	// What was claimed must be dealt with, whatever becomes of the worker.
	ctx = context.WithoutCancel(ctx)
	lease := driver.LeaseOf(r)
	j, err := r.Resolve(q.format)
	if err != nil {
		logging.Error(ctx, q.failure("parked a job that can't be read", r.JobID(), err))
		q.handBack(ctx, r.JobID(), driver.HandBack{Lease: lease, Park: true, Reason: err.Error()})
		return nil
	}
	if r.TimeInfo.IsStale() {
		markExpired(j)
		q.endUnrun(ctx, j, lease)
		return nil
	}
	var failed []string
	if r.Dependency != nil {
		failed = r.Dependency.Failed
	}
	switch state, reason := consult(j.Dependency(), failed); state {
	case dependency.Ready:
		if q.leases.holds(j.ID(), lease) {
			j.UpdateTimeInfo(amboy.JobTimeInfo{Start: time.Now()})
			return j
		}
	case dependency.Blocked:
		// The longer a job has waited, the longer it waits until it is asked
		// again.
		pause := nextRecheck(time.Since(r.TimeInfo.Created))
		q.handBack(ctx, j.ID(), driver.HandBack{Lease: lease, NotBefore: time.Now().Add(pause), Reason: "its dependency says that it must wait"})
	case dependency.Unresolved:
		j.AddError(reason)
		doNotRetry(j)
		q.endUnrun(ctx, j, lease)
	case dependency.Passed:
		q.endUnrun(ctx, j, lease)
	}
	return nil
}

// endUnrun ends a job for good that was claimed and is not run.
func (q *engine) endUnrun(ctx context.Context, j amboy.Job, lease driver.Lease) {
	if err := q.end(ctx, j, lease); err != nil {
		logging.Error(ctx, q.failure("could not end a job that is not to run", j.ID(), err))
	}
}

// handBack gives the lease of a job back that was claimed and is not run.
func (q *engine) handBack(ctx context.Context, id string, h driver.HandBack) {
	errs, err := q.driver.Release(ctx, []driver.HandBack{h})
	if err == nil {
		err = errs[0]
	}
	if err != nil {
		logging.Error(ctx, q.failure("could not hand a job back", h.Lease.Name, err))
	}
	q.leases.remove(id, h.Lease)
	q.claims.signal()
}

// JobContext derives a context that ends when the job's lease is lost.
func (q *engine) JobContext(ctx context.Context, j amboy.Job) (context.Context, context.CancelFunc) {
	return q.leases.context(ctx, j.ID())
}

// Complete ends an attempt of a job, under the lease that the job has here, or
// else the one that is stored.
func (q *engine) Complete(ctx context.Context, j amboy.Job) error {
	if amboy.IsNilJob(j) {
		return fmt.Errorf("completing a job of queue %q: the job must not be nil", q.id)
	}
	lease, ok := q.leases.get(j.ID())
	if !ok {
		r, err := q.driver.Get(ctx, j.ID())
		if err != nil {
			return fmt.Errorf("completing job %q: %w", j.ID(), err)
		}
		lease = driver.LeaseOf(r)
	}
	if err := q.end(ctx, j, lease); err != nil {
		return fmt.Errorf("completing job %q: %w", j.ID(), err)
	}
	if j.RetryInfo().ShouldRetry() {
		q.handOver(ctx, j)
	}
	return nil
}

// end writes that an attempt ended. Whatever comes of that, the lease is not
// renewed any more: a job whose end could not be written is run again.
func (q *engine) end(ctx context.Context, j amboy.Job, lease driver.Lease) error {
	defer q.leases.remove(j.ID(), lease)
	markComplete(j, time.Now())
	r, err := q.recordOrLast(ctx, j)
	if err != nil {
		return err
	}
	if r.Name != lease.Name {
		// The job changed in its run what its attempts are named after, so that
		// there can be no next one.
		doNotRetry(j)
		r.Name, r.RetryInfo.NeedsRetry = lease.Name, false
	}
	errs, err := q.driver.Complete(ctx, []driver.Completion{{Lease: lease, Record: r}})
	if err == nil {
		err = errs[0]
	}
	if err == nil && !r.RetryInfo.ShouldRetry() {
		q.ended(ctx, j.ID())
	}
	q.claims.signal()
	return err
}

// recordOrLast encodes a job that ended. Where that is impossible, because of
// what the job made of itself, the job fails for that, and its last stored form
// is used.
func (q *engine) recordOrLast(ctx context.Context, j amboy.Job) (*driver.Record, error) {
	r, err := q.record(j)
	if err == nil {
		return r, nil
	}
	last, getErr := q.driver.Get(ctx, j.ID())
	if getErr != nil {
		return nil, errors.Join(err, getErr)
	}
	j.AddError(fmt.Errorf("what the job left behind can't be stored: %w", err))
	last.Status, last.TimeInfo, last.RetryInfo = j.Status(), j.TimeInfo(), j.RetryInfo()
	return last, nil
}

// handOver gives a job to the retry handler. Where that fails, the job stays in
// the store as retrying, and maintenance hands it over later.
func (q *engine) handOver(ctx context.Context, j amboy.Job) {
	if err := q.RetryHandler().Put(ctx, j); err != nil && !q.isStopped() {
		logging.Error(ctx, q.failure("could not hand a job to the retry handler; it is tried again later", j.ID(), err))
	}
}

// Release hands a job back whose run was interrupted.
func (q *engine) Release(ctx context.Context, j amboy.Job) error {
	if amboy.IsNilJob(j) {
		return fmt.Errorf("releasing a job of queue %q: the job must not be nil", q.id)
	}
	lease, ok := q.leases.get(j.ID())
	if !ok {
		return fmt.Errorf("releasing job %q: it does not run in queue %q: %w", j.ID(), q.id, amboy.ErrLeaseLost)
	}
	errs, err := q.driver.Release(ctx, []driver.HandBack{{Lease: lease}})
	if err == nil {
		err = errs[0]
	}
	q.leases.remove(j.ID(), lease)
	q.claims.signal()
	if err != nil {
		return fmt.Errorf("releasing job %q: %w", j.ID(), err)
	}
	return nil
}
