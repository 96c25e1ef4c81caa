package memory

import (
	"context"
	"time"
)

// forgetHeap is a heap of the finished entries that have a retention time, earliest first.
// forgettable is an entry with a copy of its retention time, so that sorting reads no entry.
type forgettable struct {
	at    time.Time
	entry *entry
}

// forgetLater schedules the removal of a finished entry, if it has a retention time.
func (d *Driver) forgetLater(e *entry) {
	if !e.Job.record.ForgetAt.IsZero() {
		d.forgettable.Put(forgettable{e.Job.record.ForgetAt, e})
	}
}

// keep undoes forgetLater.
func (d *Driver) keep(e *entry) {
	d.forgettable.Remove(forgettable{entry: e})
}

// forget drops an entry that the schedule has removed.
func (d *Driver) forget(e *entry) {
	q := e.Job.queue
	d.touch(q)
	delete(q.byName, e.Job.record.Name)
	q.records.Remove(e.Job.number)
	d.records.Remove(e.Job.number)
	d.keep(e)
}

// Forget implements driver.Driver. Records beyond KeepFinished are removed earlier, when
// others finish.
func (d *Driver) Forget(ctx context.Context, now time.Time, limit int) (int, error) {
	if err := d.lock(ctx); err != nil {
		return 0, err
	}
	defer d.unlock()
	forgotten := 0
	for forgotten < limit && d.forgettable.Len() > 0 {
		first := d.forgettable.First()
		if first.at.After(now) {
			break
		}
		first.entry.Job.queue.schedule.Remove(first.entry)
		forgotten++
	}
	return forgotten, nil
}
