package queue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/core"
	"github.com/mongodb/amboy/job"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/internal/engine"
	"github.com/mongodb/amboy/queue/internal/jobstate"
)

// LeaseEnd ends the run of a leased job.
type LeaseEnd struct {
	// JobID is the ID of the job.
	JobID string
	Lease driver.Lease
	// Result is the job's result, as JSON; empty for none. If the run failed, it is kept
	// unless the job is retried.
	Result json.RawMessage
	// Failure is why the run failed; nil if it succeeded. The attempt is retried if the job
	// allows it, unless amboy.IsNonRetryable is true for the failure.
	Failure error
	// RetryIn is how long the next attempt waits; nil for the job's retry policy.
	RetryIn *time.Duration
	// Over is true if the job's time to run is over.
	Over bool
	// HandBack hands the job back instead of ending the attempt, if it is not nil.
	HandBack *driver.HandBack
	// Metadata is changed with the end; an empty value removes a key. It is ignored if the
	// job is handed back.
	Metadata map[string]string
	// Record is the job as it was just read; nil to read it.
	Record *driver.Record
}

// End ends runs, or hands their jobs back, and returns an error or nil for each. The error
// wraps amboy.ErrLeaseLost if the lease is not the job's any more, and is an
// *amboy.MaxTimeError if the run took too long: then the attempt has failed with that
// error. Other errors are those of the store, or describe a result that can't be stored.
func (l *Leases) End(ctx context.Context, ends []LeaseEnd) []error {
	errs := make([]error, len(ends))
	begun := make([]*begunEnd, len(ends))
	for i, end := range ends {
		begun[i], errs[i] = l.beginEnd(ctx, end)
	}
	for i, b := range begun {
		if b == nil {
			continue
		}
		if err := b.engine.WaitForEnd(ctx, b.run, b.done); err != nil {
			errs[i] = err
		}
	}
	for i, err := range errs {
		if err != nil {
			errs[i] = fmt.Errorf("ending the run of job %q of queue %q: %w", ends[i].JobID, ends[i].Lease.Queue, err)
		}
	}
	return errs
}

// ErrJobEnded is wrapped by the error of EndJob for a job that has ended already.
var ErrJobEnded = errors.New("the job has ended already")

// endTries is how often EndJob tries again because the job changed meanwhile.
const endTries = 10

// EndJob ends a job by its ID, whether it runs, waits or is parked. A worker that runs it
// loses its lease. It is for clients that have no lease. JobID and Lease of end are ignored,
// and HandBack must be nil. The error wraps ErrJobEnded if the job has ended before, and is
// a job not found if it does not exist (see amboy.IsJobNotFoundError); otherwise it is as
// for End. EndJob returns the lease that the job had, and no lease if it did not run.
func (l *Leases) EndJob(ctx context.Context, queue, id string, end LeaseEnd) (was driver.Lease, err error) {
	for range endTries {
		was, err = l.endJob(ctx, queue, id, end)
		if !errors.Is(err, amboy.ErrLeaseLost) {
			break
		}
	}
	if err != nil {
		return driver.Lease{}, fmt.Errorf("ending job %q of queue %q: %w", id, queue, err)
	}
	return was, nil
}

func (l *Leases) endJob(ctx context.Context, queue, id string, end LeaseEnd) (was driver.Lease, err error) {
	r, err := l.driver.Get(ctx, queue, id)
	if err != nil {
		return driver.Lease{}, err
	}
	if r.Status.Completed {
		return driver.Lease{}, ErrJobEnded
	}
	q, err := l.queue(ctx, queue)
	if err != nil {
		return driver.Lease{}, err
	}
	end.JobID, end.Lease = id, driver.LeaseOf(r)
	if r.Status.InProgress {
		was = end.Lease
		end.Over = r.TimeInfo.MaxTime > 0 && q.Engine.Now().Sub(r.TimeInfo.Start) > r.TimeInfo.MaxTime
	}
	begun, err := l.beginEndOf(ctx, q, r, end)
	if begun != nil {
		if failed := begun.engine.WaitForEnd(ctx, begun.run, begun.done); failed != nil {
			err = failed
		}
	}
	return was, err
}

// begunEnd is an end that is being written. The result arrives in done.
type begunEnd struct {
	engine *engine.Engine
	run    *core.Run
	done   chan error
}

// beginEnd begins to end a run; it returns nil if nothing is written. err is what the caller
// is told even if the end is stored.
func (l *Leases) beginEnd(ctx context.Context, end LeaseEnd) (begun *begunEnd, err error) {
	q, r, err := l.held(ctx, end.JobID, end.Lease, end.Record)
	if err != nil {
		return nil, err
	}
	return l.beginEndOf(ctx, q, r, end)
}

// beginEndOf is beginEnd for the record of the job, which may wait or be parked.
func (l *Leases) beginEndOf(ctx context.Context, q *engine.Queue, r *driver.Record, end LeaseEnd) (begun *begunEnd, err error) {
	j, err := q.ResolveSafely(r)
	if err != nil {
		return nil, err
	}
	setMetadata(j, end.Metadata)
	begun = &begunEnd{engine: q.Engine, run: &core.Run{Record: r, Lease: end.Lease}, done: q.Engine.Result()}
	then := func(err error) { begun.done <- err }
	switch {
	case end.Over:
		err = &amboy.MaxTimeError{MaxTime: r.TimeInfo.MaxTime}
		j.AddRetryableError(err)
	case end.HandBack != nil && !r.CancelRequested:
		q.Publish(amboy.EventHandedBack, j, q.Engine.Now())
		q.Engine.Finish(begun.run, core.End{HandBack: end.HandBack}, then)
		return begun, nil
	case end.HandBack != nil:
		j.AddError(fmt.Errorf("job %q: %w", j.ID(), amboy.ErrAborted))
	case end.Failure != nil:
		j.AddRetryableError(end.Failure)
		if delayed, ok := j.(interface{ RetryIn(time.Duration) }); ok && end.RetryIn != nil {
			delayed.RetryIn(*end.RetryIn)
		}
	}
	if len(end.Result) > 0 && err == nil && end.HandBack == nil {
		err = job.SetResultJSON(j, end.Result)
		if err != nil {
			return nil, err
		}
	}
	if r.CancelRequested {
		jobstate.MarkCanceled(j)
	}
	endOutside(ctx, q, j, begun.run, then)
	return begun, err
}

// endOutside ends a run of an outside worker. A job that is to be retried has its next
// attempt, if the store is well, before then is called: its worker may ask for it at once. Only
// that ends with ctx.
func endOutside(ctx context.Context, q *engine.Queue, j amboy.Job, run *core.Run, then func(error)) {
	uncanceled := context.WithoutCancel(ctx)
	q.End(uncanceled, j, run, func(err error) {
		switch {
		case err != nil:
		case run.End().Next == nil && j.RetryInfo().ShouldRetry():
			answer := sync.OnceFunc(func() { then(nil) })
			stop := context.AfterFunc(ctx, answer) // the end is stored by now
			q.Engine.RunInBackground(func(ctx context.Context) {
				retryAtOnce(ctx, q, j)
				stop()
				answer()
			})
			return
		default:
			q.AfterWrite(uncanceled, j, run)
		}
		then(err)
	})
}

// retryAtOnce replaces a job by its next attempt, or hands it to the retry handler if that is
// not possible now.
func retryAtOnce(ctx context.Context, q *engine.Queue, j amboy.Job) {
	handler, ok := q.RetryHandler().(*BasicRetryHandler)
	if !ok || !handler.Started() {
		q.HandOver(ctx, j)
		return
	}
	err := handler.try(ctx, &jobRetry{retryKey: retryKey{j.ID(), j.RetryInfo().CurrentAttempt}, job: j, start: handler.now()})
	if err == nil {
		return
	}
	// The copy is locked by now. If the store fails, maintenance hands the job over later.
	again, err := q.GetAttempt(ctx, j.ID(), j.RetryInfo().CurrentAttempt)
	if err == nil && again.RetryInfo().ShouldRetry() {
		q.HandOver(ctx, again)
	}
}

func setMetadata(j amboy.Job, change map[string]string) {
	m, ok := j.(amboy.MetadataJob)
	if !ok {
		return
	}
	for key, value := range change {
		m.SetMetadata(key, value)
	}
}
