package queue

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/core"
	"github.com/mongodb/amboy/queue/driver"
)

// driverStore ends the jobs of a store that nobody runs.
type driverStore struct {
	driver driver.Driver
	now    func() time.Time
	// queue is that of a name that is open in this process; nil where none is.
	queue func(name string) *driverQueue
	// retention and format are for the queues that are not open here.
	retention Retention
	format    amboy.Format
}

// noQueue is for stores without a queue in this process.
func noQueue(string) *driverQueue { return nil }

// withQueues makes a Store of it, in which the named queues are meant.
func (s driverStore) withQueues(leaseTime time.Duration, queues ...string) *Store {
	return &Store{
		admin:     s.driver,
		driver:    s.driver,
		queues:    queues,
		leaseTime: leaseTime,
		now:       s.now,
		complete:  s.markComplete,
		abandon:   s.abandon,
	}
}

func (q *driverQueue) store() *Store { return q.storedAs(q) }

// storedAs is the store of a queue that shows itself to others as another one.
func (q *driverQueue) storedAs(shown amboy.Queue) *Store {
	s := driverStore{
		driver:    q.driver,
		now:       q.engine.now,
		queue:     func(string) *driverQueue { return q },
		retention: q.retention,
		format:    q.format,
	}.withQueues(q.engine.leaseTime, q.name)
	s.open = func(string) (amboy.Queue, bool) { return shown, true }
	s.sinceTurn = func(ctx context.Context) (time.Duration, error) { return longestTurn(ctx, []*engine{q.engine}) }
	s.refresh = q.engine.announcer.refresh
	s.measure = q.engine.measure
	s.setWorkers = q.engine.setWorkers
	return s
}

func (q *Inline) store() *Store { return q.storedAs(q) }

func (g *driverGroup) store() *Store {
	return storeOfEngines(g.retention, g.format, func() []*engine { return []*engine{g.engine} })
}

// store is the store of all engines: they are in one collection.
func (g *mongoDBGroup) store() *Store {
	db := g.opts.DefaultQueue.DB
	return storeOfEngines(db.retention(), db.Format, g.engines.opened)
}

// storeOfEngines is the store that engines share, of which there is always one.
// retention and format are those of queues that are not open.
func storeOfEngines(retention Retention, format amboy.Format, engines func() []*engine) *Store {
	queue := func(name string) *driverQueue {
		for _, e := range engines() {
			if q := e.queue(name); q != nil {
				return q
			}
		}
		return nil
	}
	first := engines()[0]
	s := driverStore{
		driver:    first.driver,
		now:       first.now,
		queue:     queue,
		retention: retention,
		format:    format,
	}.withQueues(first.leaseTime)
	s.open = func(name string) (amboy.Queue, bool) {
		if q := queue(name); q != nil {
			return q, true
		}
		return nil, false
	}
	s.opened = func() (names []string) {
		for _, e := range engines() {
			names = append(names, e.queueNames()...)
		}
		return names
	}
	s.sinceTurn = func(ctx context.Context) (time.Duration, error) { return longestTurn(ctx, engines()) }
	s.refresh = func(ctx context.Context) error {
		return withEach(engines(), func(e *engine) error { return e.announcer.refresh(ctx) })
	}
	s.measure = func() ProcessMeasures { return measureEngines(engines()) }
	s.setWorkers = func(name string, n int) error {
		return withEach(engines(), func(e *engine) error { return e.setWorkers(name, n) })
	}
	return s
}

// withEach does something with each of several engines.
func withEach(engines []*engine, do func(*engine) error) error {
	var errs []error
	for _, e := range engines {
		errs = append(errs, do(e))
	}
	return errors.Join(errs...)
}

// markComplete is Store.MarkComplete.
func (s driverStore) markComplete(ctx context.Context, records []*driver.Record) []error {
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
	return errs
}

// completeAll gives an error for each completion.
func (s driverStore) completeAll(ctx context.Context, completions []driver.Completion) (errs []error) {
	if len(completions) == 0 {
		return nil
	}
	err := errorOfPanic(func() (err error) {
		errs, err = s.driver.Complete(ctx, completions)
		return err
	})
	if err != nil {
		return slices.Repeat([]error{err}, len(completions))
	}
	return errs
}

// abandon is Store.Abandon.
func (s driverStore) abandon(ctx context.Context, records []*driver.Record) (errs []error) {
	handBacks := make([]driver.HandBack, len(records))
	for i, r := range records {
		handBacks[i].Lease = driver.LeaseOf(r)
	}
	err := errorOfPanic(func() (err error) {
		errs, err = s.driver.Release(ctx, handBacks)
		return err
	})
	if err != nil {
		return slices.Repeat([]error{err}, len(records))
	}
	for i, r := range records {
		if q := s.queue(r.Group); q != nil && errs[i] == nil {
			q.engine.happen(core.Lost{Lease: handBacks[i].Lease})
			if r.CancelRequested {
				q.ended(ctx, r.JobID())
			}
			q.engine.happen(core.Changed{Line: q.line})
		}
	}
	return errs
}

// complete returns the record of a job that ends now.
func (s driverStore) complete(r *driver.Record, now time.Time) *driver.Record {
	ended := *r
	ended.Status.InProgress = false
	ended.Status.Hold, ended.Status.Reason = "", ""
	ended.Status.ModificationCount++ // so that no process takes it that has read it before
	if ended.Status.Completed {
		ended.RetryInfo.End = now
	} else {
		ended.Status.Completed = true
		ended.TimeInfo.End = now
	}
	ended.RetryInfo.NeedsRetry = false
	ended.ForgetAt = s.forgetAt(&ended, now)
	return &ended
}

// forgetAt is when a record that ended may be forgotten. A job that can't be read is
// ended all the same, which may be the only way to be rid of it.
func (s driverStore) forgetAt(ended *driver.Record, now time.Time) time.Time {
	q := s.queue(ended.Group)
	format := s.format
	if q != nil {
		format = q.format
	}
	j, err := ended.Resolve(format)
	if err != nil {
		j = nil
	}
	if q != nil {
		return q.forgetAt(j, ended, now)
	}
	return s.retention.For(j).Until(driver.StateOf(ended, now), now)
}

// report tells the queue of a record that ended.
func (s driverStore) report(ctx context.Context, before, ended *driver.Record, now time.Time, err error) {
	if q := s.queue(ended.Group); err == nil && q != nil {
		q.markedComplete(ctx, before, ended, now)
	}
}

// markedComplete lets others know that somebody ended a job.
func (q *driverQueue) markedComplete(ctx context.Context, before, ended *driver.Record, now time.Time) {
	if before.Status.InProgress {
		q.engine.happen(core.Lost{Lease: driver.LeaseOf(before)})
	}
	q.recordEnded(ctx, ended, now)
}

// recordEnded lets others know that a record has ended of which there is no job here.
func (q *driverQueue) recordEnded(ctx context.Context, ended *driver.Record, now time.Time) {
	q.count(ended)
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
	q.engine.happen(core.Changed{Line: q.line})
}
