package memory

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/internal/schedule"
)

// leases holds the running entries, in no order.
type leases []*entry

func (l *leases) add(e *entry) {
	e.Job.leaseIndex = len(*l)
	*l = append(*l, e)
}

func (l *leases) remove(e *entry) {
	all, last := *l, len(*l)-1
	moved := all[last]
	all[e.Job.leaseIndex] = moved
	moved.Job.leaseIndex = e.Job.leaseIndex
	all[last] = nil
	*l = all[:last]
}

// leased returns the entry of a running record that has the given lease.
func (d *Driver) leased(l driver.Lease) (*entry, error) {
	e, err := d.shown(l)
	if err == nil && e.Place() != schedule.Running {
		return nil, fmt.Errorf("record %q does not run: %w", l.Name, driver.ErrLeaseLost)
	}
	return e, err
}

// shown returns the entry of an unfinished record that shows the given lease, or the given
// absence of one.
func (d *Driver) shown(l driver.Lease) (*entry, error) {
	e := d.byName(l.Queue, l.Name)
	if e == nil || e.Job.record.Status.Completed || driver.LeaseOf(&e.Job.record) != l {
		return nil, fmt.Errorf("record %q: %w", l.Name, driver.ErrLeaseLost)
	}
	return e, nil
}

// Extend implements driver.Driver.
func (d *Driver) Extend(ctx context.Context, leases []driver.Lease, leaseTime time.Duration) (lost []driver.Lease, err error) {
	if err := d.lock(ctx); err != nil {
		return nil, err
	}
	defer d.unlock()
	now, elapsed := d.opts.Now(), d.opts.Elapsed()
	for _, l := range leases {
		e, err := d.leased(l)
		if err != nil {
			lost = append(lost, l)
			continue
		}
		e.Job.record.Status.ModificationTime = now
		e.Job.lease(elapsed, leaseTime)
	}
	return lost, nil
}

// lease sets the lease of a record to last for leaseTime from now.
func (i *item) lease(now, leaseTime time.Duration) {
	i.leaseEnds, i.leaseTime = now+leaseTime, leaseTime
}

// SetProgress implements driver.Driver.
func (d *Driver) SetProgress(ctx context.Context, lease driver.Lease, progress driver.Progress) error {
	if err := d.lock(ctx); err != nil {
		return err
	}
	defer d.unlock()
	e, err := d.leased(lease)
	if err != nil {
		return err
	}
	e.Job.record.Progress = &progress
	return nil
}

// CancelRequests implements driver.Driver.
func (d *Driver) CancelRequests(ctx context.Context, owner string) ([]driver.Lease, error) {
	if err := d.lockToRead(ctx); err != nil {
		return nil, err
	}
	defer d.unlock()
	var requested []driver.Lease
	for _, e := range d.leases {
		if r := &e.Job.record; r.CancelRequested && r.Status.Owner == owner {
			requested = append(requested, driver.LeaseOf(r))
		}
	}
	return requested, nil
}

// Release implements driver.Driver.
func (d *Driver) Release(ctx context.Context, handBacks []driver.HandBack) ([]error, error) {
	return each(ctx, d, handBacks, d.release)
}

func (d *Driver) release(h driver.HandBack) (driver.Change, error) {
	e, err := d.leased(h.Lease)
	if err != nil {
		return driver.Change{}, err
	}
	d.handBack(e, h)
	return driver.In(h.Lease.Queue), nil
}

// handBack takes back the lease of a running entry. If a cancellation was requested, the
// entry ends.
func (d *Driver) handBack(e *entry, h driver.HandBack) {
	d.touch(e.Job.queue)
	r := &e.Job.record
	if r.CancelRequested {
		d.endCanceled(e, d.opts.Now())
		return
	}
	d.leases.remove(e)
	if h.Started {
		r.TimeInfo.DispatchBy = time.Time{}
		e.Job.queue.schedule.NeverExpire(e)
	}
	r.Status.Owner, r.Status.InProgress, r.Status.Reason = "", false, ""
	r.TimeInfo.Start = time.Time{}
	r.Scopes = e.Scopes.AtPut()
	e.Job.reason = h.Reason
	if h.Park {
		e.Job.queue.schedule.Park(e)
		return
	}
	e.Job.queue.schedule.ReleaseSince(e, h.Since, h.NotBefore, d.opts.Now())
}

// RecoverStale implements driver.Driver. It measures leases by the monotonic clock of
// the process, which all callers share.
func (d *Driver) RecoverStale(ctx context.Context, keep ...driver.Lease) (int, error) {
	if err := d.lock(ctx); err != nil {
		return 0, err
	}
	var stale []*entry
	now := d.opts.Elapsed()
	for _, e := range d.leases {
		if e.Job.leaseEnds < now && !slices.Contains(keep, driver.LeaseOf(&e.Job.record)) {
			stale = append(stale, e)
		}
	}
	for _, e := range stale {
		wallNow := d.opts.Now()
		driver.Interrupt(&e.Job.record, wallNow.Add(e.Job.leaseEnds-now), wallNow)
		d.handBack(e, driver.HandBack{})
	}
	moved := d.shortenWaits()
	d.unlock()
	if len(stale) > 0 || moved {
		d.subscribers.Notify(driver.Anywhere)
	}
	return len(stale), nil
}

// shortenWaits makes waits begin now whose beginning is in the future because the clock was
// set back. It reports whether any wait was changed.
func (d *Driver) shortenWaits() (moved bool) {
	now := d.opts.Now()
	for _, q := range d.queues {
		for _, m := range q.schedule.ShortenWaits(now) {
			moved = true
			d.touch(q)
			if m.Scheduled {
				// The record was put by Retry, which counts all its times from the same moment.
				times := &m.Entry.Job.record.TimeInfo
				times.Created = times.Created.Add(-m.By)
				times.WaitUntil, times.DispatchBy = m.Entry.WaitUntil, m.Entry.DispatchBy
			}
		}
	}
	return moved
}
