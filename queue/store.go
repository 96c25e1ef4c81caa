package queue

import (
	"context"
	"fmt"
	"time"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/driver"
)

// Store gives those who look after jobs what is stored of them. Package management
// is made for people; this is what it works with. It is safe for concurrent use.
type Store struct {
	driver    driver.Driver
	queues    []string
	leaseTime time.Duration
	now       func() time.Time
	// forgetAt is when a record that ended may be forgotten. The job is nil where it
	// can't be read.
	forgetAt func(j amboy.Job, ended *driver.Record, now time.Time) time.Time
	format   amboy.Format
	// tell tells the queue, where there is one in this process.
	tell func(ctx context.Context, before, ended *driver.Record, now time.Time)
}

// StoreOf returns the store of a queue, in which the queue is the only one that is
// meant. It returns false for a queue that has none: one that holds jobs by
// reference, and one of another package. It is no use any more when the queue has
// closed its driver.
func StoreOf(q amboy.Queue) (*Store, bool) {
	stored, ok := q.(interface{ stored() *Store })
	if !ok {
		return nil, false
	}
	return stored.stored(), true
}

func (q *driverQueue) stored() *Store {
	return &Store{
		driver:    q.driver,
		queues:    []string{q.name},
		leaseTime: q.engine.leaseTime,
		now:       q.engine.now,
		forgetAt:  q.forgetAt,
		format:    q.format,
		tell:      q.markedComplete,
	}
}

// Driver returns the driver. Whoever made it closes it.
func (s *Store) Driver() driver.Driver { return s.driver }

// Queues names the queues that are meant; none where all of the store are.
func (s *Store) Queues() []string { return s.queues }

// LeaseTime is how long the lease of a running job lasts unless it is renewed.
func (s *Store) LeaseTime() time.Duration { return s.leaseTime }

// Now is the time by which the queues go.
func (s *Store) Now() time.Time { return s.now() }

// MarkComplete ends jobs for good, wherever their records stand, as though they
// had run: those with errors have failed, the others succeeded. Their scopes are
// free, the jobs that depend on them go on, and those that wait for them wake up. A
// job that runs loses its lease: what its worker writes is refused. The context of
// the run ends at once where that is in this process and the store is that of a
// queue, and else when the lease is next renewed.
//
// It gives an error for each record: one that wraps amboy.ErrLeaseLost where it is
// not as it was when it was read, and that of the store. A record whose job has
// ended for good is one that is not as it was.
func (s *Store) MarkComplete(ctx context.Context, records []*driver.Record) []error {
	now := s.now()
	errs := make([]error, len(records))
	var completions []driver.Completion
	var completing []int
	for i, r := range records {
		ended := s.complete(r, now)
		if r.RetryInfo.ShouldRetry() && r.Status.Completed {
			errs[i] = errorOfPanic(func() error { return s.driver.EndRetry(ctx, ended) })
			s.report(ctx, r, ended, now, errs[i])
			continue
		}
		completions = append(completions, driver.Completion{Lease: driver.LeaseOf(r), Record: ended})
		completing = append(completing, i)
	}
	for n, err := range s.completeAll(ctx, completions) {
		i := completing[n]
		errs[i] = err
		s.report(ctx, records[i], completions[n].Record, now, err)
	}
	for i, err := range errs {
		if err != nil {
			errs[i] = fmt.Errorf("marking job %q complete: %w", records[i].JobID(), err)
		}
	}
	return errs
}

// completeAll gives an error for each completion.
func (s *Store) completeAll(ctx context.Context, completions []driver.Completion) (errs []error) {
	if len(completions) == 0 {
		return nil
	}
	err := errorOfPanic(func() (err error) {
		errs, err = s.driver.Complete(ctx, completions)
		return err
	})
	if err != nil {
		errs = make([]error, len(completions))
		for i := range errs {
			errs[i] = err
		}
	}
	return errs
}

// complete returns the record of a job that ends now.
func (s *Store) complete(r *driver.Record, now time.Time) *driver.Record {
	ended := *r
	ended.Status.InProgress = false
	ended.Status.Hold, ended.Status.Reason = "", ""
	if ended.Status.Completed {
		ended.RetryInfo.End = now
	} else {
		ended.Status.Completed = true
		ended.TimeInfo.End = now
	}
	ended.RetryInfo.NeedsRetry = false
	j, err := r.Resolve(s.format)
	if err != nil {
		j = nil // it is ended all the same, which may be the only way to be rid of it
	}
	ended.ForgetAt = s.forgetAt(j, &ended, now)
	return &ended
}

// report tells the queue of a record that ended.
func (s *Store) report(ctx context.Context, before, ended *driver.Record, now time.Time, err error) {
	if err == nil && s.tell != nil {
		s.tell(ctx, before, ended, now)
	}
}

// markedComplete lets others know that somebody ended a job.
func (q *driverQueue) markedComplete(ctx context.Context, before, ended *driver.Record, now time.Time) {
	if before.Status.InProgress {
		q.engine.leases.lose(ctx, driver.LeaseOf(before), amboy.ErrLeaseLost)
	}
	q.ended(ctx, ended.JobID())
	if q.events.Subscribed() {
		q.events.Send(amboy.Event{
			Kind:    amboy.EventKind(driver.StateOf(ended, now)),
			Queue:   q.id,
			Time:    now,
			JobID:   ended.JobID(),
			JobType: amboy.JobType{Name: ended.Type, Version: ended.Version},
			Attempt: ended.RetryInfo.CurrentAttempt,
		})
	}
	q.engine.claims.signal()
}
