package queue

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/contain"
	"github.com/mongodb/amboy/internal/core"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/internal/engine"
)

// driverStore implements the operations of a Store with a driver.
type driverStore struct {
	driver driver.Driver
	now    func() time.Time
	// queue returns the open queue with a name, or nil if this process does not have it
	// open.
	queue func(name string) *engine.Queue
	// retention and form apply to queues that are not open in this process.
	retention Retention
	form      engine.StoredForm
}

// noQueue is the queue function of stores without a queue in this process.
func noQueue(string) *engine.Queue { return nil }

// StoreOfDriver returns the store of all queues of a driver, without opening a queue. The caller
// must close the driver, and must not use the store afterwards.
func StoreOfDriver(d driver.Driver) *Store {
	retention := Retention{
		Succeeded: DefaultKeepSucceeded, Failed: DefaultKeepOthers, Canceled: DefaultKeepOthers, Expired: DefaultKeepOthers,
	}
	return driverStore{driver: d, now: time.Now, queue: noQueue, retention: retention}.withQueues(amboy.LockTimeout)
}

// withQueues returns a Store that is restricted to the named queues, or covers all queues
// if none are named.
func (s driverStore) withQueues(leaseTime time.Duration, queues ...string) *Store {
	return &Store{
		admin:     s.driver,
		driver:    s.driver,
		queues:    queues,
		leaseTime: leaseTime,
		now:       s.now,
		formOf:    s.formOf,
		complete:  s.markComplete,
		abandon:   s.abandon,

		keepCanceled: s.keepCanceled,
	}
}

// storeOfQueue returns the store of a queue. shown is the queue that callers see.
func storeOfQueue(q *engine.Queue, shown amboy.Queue) *Store {
	s := driverStore{
		driver:    q.Driver,
		now:       q.Engine.Now,
		queue:     func(string) *engine.Queue { return q },
		retention: q.Retention,
		form:      q.Form,
	}.withQueues(q.Engine.LeaseTime, q.Name)
	s.open = func(string) (amboy.Queue, bool) { return shown, true }
	s.sinceTurn = func(ctx context.Context) (time.Duration, error) { return longestTurn(ctx, []*engine.Engine{q.Engine}) }
	s.refresh = q.Engine.Announcer.Refresh
	s.measure = func() ProcessMeasures { return measureEngine(q.Engine) }
	s.countTypes = func() { countTypes(q.Engine) }
	s.setWorkers = q.Engine.SetWorkers
	return s
}

func (q *Inline) store() *Store { return storeOfQueue(q.inner, q) }

func (g *driverGroup) store() *Store {
	s := storeOfEngines(g.retention, g.form, func() []*engine.Engine { return []*engine.Engine{g.engine} })
	s.openNew = g.openNew
	return s
}

// store returns a store for the queues of all engines, which share one collection.
func (g *mongoDBGroup) store() *Store {
	db := g.opts.DefaultQueue.DB
	s := storeOfEngines(db.retention(), engine.StoredForm{Format: db.Format, Codec: db.Codec}, g.engines.opened)
	s.openNew = g.openNew
	return s
}

// openNew opens a queue, and makes it if it does not exist.
func (g *queueGroup) openNew(ctx context.Context, name string) (amboy.Queue, error) {
	return g.Get(ctx, name)
}

// storeOfEngines returns the store that engines share. engines must always return at
// least one. retention and form apply to queues that are not open.
func storeOfEngines(retention Retention, form engine.StoredForm, engines func() []*engine.Engine) *Store {
	queue := func(name string) *engine.Queue {
		for _, e := range engines() {
			if q := e.Queue(name); q != nil {
				return q
			}
		}
		return nil
	}
	first := engines()[0]
	s := driverStore{
		driver:    first.Driver,
		now:       first.Now,
		queue:     queue,
		retention: retention,
		form:      form,
	}.withQueues(first.LeaseTime)
	s.open = func(name string) (amboy.Queue, bool) {
		if q := queue(name); q != nil {
			return q, true
		}
		return nil, false
	}
	s.opened = func() (names []string) {
		for _, e := range engines() {
			names = append(names, e.QueueNames()...)
		}
		return names
	}
	s.sinceTurn = func(ctx context.Context) (time.Duration, error) { return longestTurn(ctx, engines()) }
	s.refresh = func(ctx context.Context) error {
		return withEach(engines(), func(e *engine.Engine) error { return e.Announcer.Refresh(ctx) })
	}
	s.measure = func() ProcessMeasures { return measureEngines(engines()) }
	s.countTypes = func() { countTypes(engines()[0]) }
	s.setWorkers = func(name string, n int) error {
		return withEach(engines(), func(e *engine.Engine) error { return e.SetWorkers(name, n) })
	}
	return s
}

// withEach calls do for each engine, and joins the errors.
func withEach(engines []*engine.Engine, do func(*engine.Engine) error) error {
	var errs []error
	for _, e := range engines {
		errs = append(errs, do(e))
	}
	return errors.Join(errs...)
}

// markComplete implements Store.MarkComplete.
func (s driverStore) markComplete(ctx context.Context, records []*driver.Record) []error {
	now := s.now()
	errs := make([]error, len(records))
	var completions []driver.Completion
	var completing []int
	for i, r := range records {
		ended := s.complete(r, now)
		if r.RetryInfo.ShouldRetry() && r.Status.Completed {
			errs[i] = contain.Panic(func() error { return s.driver.EndRetry(ctx, ended) })
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

// completeAll returns an error or nil for each completion.
func (s driverStore) completeAll(ctx context.Context, completions []driver.Completion) (errs []error) {
	if len(completions) == 0 {
		return nil
	}
	err := contain.Panic(func() (err error) {
		errs, err = s.driver.Complete(ctx, completions)
		return err
	})
	if err != nil {
		return slices.Repeat([]error{err}, len(completions))
	}
	return errs
}

// abandon implements Store.Abandon.
func (s driverStore) abandon(ctx context.Context, records []*driver.Record) (errs []error) {
	handBacks := make([]driver.HandBack, len(records))
	for i, r := range records {
		// An outside worker may rely on the dispatch-by time.
		isOutside := strings.HasPrefix(r.Status.Owner, OutsideOwner)
		handBacks[i] = driver.HandBack{Lease: driver.LeaseOf(r), Started: !isOutside}
	}
	err := contain.Panic(func() (err error) {
		errs, err = s.driver.Release(ctx, handBacks)
		return err
	})
	if err != nil {
		return slices.Repeat([]error{err}, len(records))
	}
	for i, r := range records {
		if q := s.queue(r.Group); q != nil && errs[i] == nil {
			q.Engine.Happen(core.Lost{Lease: handBacks[i].Lease})
			if r.CancelRequested {
				q.Ended(ctx, r.JobID())
			}
			q.Engine.Happen(core.Changed{Line: q.Line})
		}
	}
	return errs
}

// complete returns the record of a job that is ended now.
func (s driverStore) complete(r *driver.Record, now time.Time) *driver.Record {
	ended := *r
	ended.Status.InProgress = false
	ended.Status.Hold, ended.Status.Reason = "", ""
	ended.Status.ModificationCount++ // so that no process that has read it before can claim it
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

// forgetAt returns when a record that ended may be removed. A job that can't be decoded
// is ended all the same: this may be the only way to get rid of it.
func (s driverStore) forgetAt(ended *driver.Record, now time.Time) time.Time {
	q := s.queue(ended.Group)
	j, err := s.formOf(ended.Group).Resolve(ended)
	if err != nil {
		j = nil
	}
	if q != nil {
		return q.ForgetAt(j, ended, now)
	}
	return s.retention.For(j).Until(driver.StateOf(ended, now), now)
}

// keepCanceled implements Store.KeepCanceled.
func (s driverStore) keepCanceled(r *driver.Record) time.Duration {
	retention := s.retention
	if q := s.queue(r.Group); q != nil {
		retention = q.Retention
	}
	j, err := s.formOf(r.Group).Resolve(r)
	if err != nil {
		j = nil // its own retention is not known
	}
	return retention.For(j).Canceled
}

// formOf returns the stored form of the jobs of a queue.
func (s driverStore) formOf(queue string) engine.StoredForm {
	if q := s.queue(queue); q != nil {
		return q.Form
	}
	return s.form
}

// report notifies the open queue of a record that ended.
func (s driverStore) report(ctx context.Context, before, ended *driver.Record, now time.Time, err error) {
	if q := s.queue(ended.Group); err == nil && q != nil {
		q.MarkedComplete(ctx, before, ended, now)
	}
}
