package memory

import (
	"context"
	"fmt"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/internal/schedule"
)

// Complete implements driver.Driver. A record that never ran can also be completed, under
// the lease that it shows; it will not run afterwards.
func (d *Driver) Complete(ctx context.Context, completions []driver.Completion) ([]error, error) {
	return each(ctx, d, completions, d.complete)
}

func (d *Driver) complete(c driver.Completion) (news driver.Change, err error) {
	e, err := d.shown(c.Lease)
	if err != nil {
		return news, err
	}
	if c.Next != nil && !e.Job.record.CancelRequested {
		return driver.In(c.Lease.Queue), d.replaceByNext(e, c.Record, c.Next)
	}
	q := e.Job.queue
	before := q.schedule.Unstarted()
	q.schedule.BeforeChange(e)
	e.Job.replace(c.Record)
	q.schedule.SetType(e, c.Record.Type)
	if e.Job.record.RetryInfo.ShouldRetry() {
		d.stop(e)
		e.Job.record.Scopes = e.Scopes.AtPut()
		q.schedule.Retry(e)
		d.wakeOne(q)
	} else {
		d.finish(e)
	}
	if q.control.MaxRunning > 0 || len(q.control.Types) > 0 || q.schedule.Unsettled() || q.schedule.Unstarted() != before {
		news = driver.In(q.name)
	}
	return news, nil
}

// replace stores an ended record in place of the stored one, except for the fields that the
// schedule uses.
func (i *item) replace(ended *driver.Record) {
	stored := i.record
	i.record = *ended
	r := &i.record
	r.Name, r.Group, r.Stamp = stored.Name, stored.Group, stored.Stamp
	r.Priority, r.Tags, r.Dependency = stored.Priority, stored.Tags, stored.Dependency
	r.RequiredScopes = stored.RequiredScopes
	r.EnqueueScopes, r.EnqueueAllScopes = stored.EnqueueScopes, stored.EnqueueAllScopes
	r.UniqueKey, r.UniqueUntil = stored.UniqueKey, stored.UniqueUntil
	if stored.CancelRequested {
		driver.EndCanceled(r, stored.Status.Reason, stored.ForgetAt)
	}
	r.CancelRequested = false
	if r.Progress == nil {
		r.Progress = stored.Progress
	}
}

// finish ends the job of an entry according to its record.
func (d *Driver) finish(e *entry) {
	d.stop(e)
	now, q, r := d.opts.Now(), e.Job.queue, &e.Job.record
	r.Scopes = nil
	d.forgetLater(e)
	q.schedule.Finish(e, driver.StateOf(r, now) == amboy.StateSucceeded, now)
	d.wakeOne(q)
}

// stop removes the lease of an entry that leaves Running.
func (d *Driver) stop(e *entry) {
	if e.Place() == schedule.Running {
		d.leases.remove(e)
	}
}

// awaitingRetry returns the entry of a record that awaits its retry, and not that of a later run: a restart and
// a claim have raised its count since.
func (d *Driver) awaitingRetry(r *driver.Record) (*entry, error) {
	e := d.byName(r.Group, r.Name)
	if e == nil || e.Place() != schedule.Retrying || e.Job.record.Status.ModificationCount > r.Status.ModificationCount {
		return nil, fmt.Errorf("record %q does not await a retry: %w", r.Name, driver.ErrLeaseLost)
	}
	return e, nil
}

// Retry implements driver.Driver. The next attempt needs no room: it replaces the attempt
// before.
func (d *Driver) Retry(ctx context.Context, ended, next *driver.Record) error {
	return d.one(ctx, ended.Group, func() error {
		e, err := d.awaitingRetry(ended)
		if err != nil {
			return err
		}
		return d.replaceByNext(e, ended, next)
	})
}

// replaceByNext ends the attempt of an entry and replaces it by the next. After an error
// nothing has changed.
func (d *Driver) replaceByNext(e *entry, ended, next *driver.Record) error {
	q, wasRunning := e.Job.queue, e.Place() == schedule.Running
	if taken := q.byName[next.Name]; taken != nil {
		return duplicate(next, taken)
	}
	replacement := newEntry(next)
	replacement.Since = next.TimeInfo.Created
	if err := q.schedule.Replace(e, replacement, d.opts.Now()); err != nil {
		return err
	}
	if wasRunning {
		d.leases.remove(e)
	}
	e.Job.replace(ended)
	e.Job.record.Scopes = nil
	q.schedule.SetType(e, ended.Type)
	d.forgetLater(e)
	r := &replacement.Job.record
	r.UniqueKey, r.UniqueUntil = replacement.Unique.Split()
	d.store(q, replacement)
	return nil
}

// EndRetry implements driver.Driver.
func (d *Driver) EndRetry(ctx context.Context, ended *driver.Record) error {
	return d.one(ctx, ended.Group, func() error {
		e, err := d.awaitingRetry(ended)
		if err != nil {
			return err
		}
		e.Job.replace(ended)
		d.finish(e)
		return nil
	})
}

// Save implements driver.Driver.
func (d *Driver) Save(ctx context.Context, r *driver.Record) error {
	return d.one(ctx, r.Group, func() error {
		e := d.byName(r.Group, r.Name)
		if e == nil {
			return amboy.NewJobNotFoundErrorf("there is no record %q", r.Name)
		}
		relocked, err := driver.CheckSave(&e.Job.record, r)
		if err != nil {
			return fmt.Errorf("saving record %q: %w", r.Name, err)
		}
		e.Job.queue.schedule.BeforeChange(e)
		driver.CopyContent(&e.Job.record, r)
		e.Job.queue.schedule.SetType(e, e.Job.record.Type)
		if relocked {
			e.Job.lease(d.opts.Elapsed(), e.Job.leaseTime)
			driver.CopyLock(&e.Job.record, r)
		}
		return nil
	})
}
