package memory

import (
	"container/heap"
	"context"
	"time"
)

// forgetHeap is a heap of the finished entries that have a retention time, earliest first.
type forgetHeap []forgettable

// forgettable is an entry with a copy of its retention time, so that sorting reads no entry.
type forgettable struct {
	at    time.Time
	entry *entry
}

func (h forgetHeap) Len() int { return len(h) }

func (h forgetHeap) Less(i, j int) bool { return h[i].at.Before(h[j].at) }

func (h forgetHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].entry.Job.forgetIndex, h[j].entry.Job.forgetIndex = i, j
}

// Push implements heap.Interface.
func (h *forgetHeap) Push(e any) {
	pushed := e.(*entry)
	pushed.Job.forgetIndex = len(*h)
	*h = append(*h, forgettable{pushed.Job.record.ForgetAt, pushed})
}

// Pop implements heap.Interface.
func (h *forgetHeap) Pop() any {
	all, last := *h, len(*h)-1
	e := all[last].entry
	all[last] = forgettable{}
	*h = all[:last]
	return e
}

// forgetLater schedules the removal of a finished entry, if it has a retention time.
func (d *Driver) forgetLater(e *entry) {
	if !e.Job.record.ForgetAt.IsZero() {
		heap.Push(&d.forgettable, e)
	}
}

// keep undoes forgetLater.
func (d *Driver) keep(e *entry) {
	if !e.Job.record.ForgetAt.IsZero() {
		heap.Remove(&d.forgettable, e.Job.forgetIndex)
	}
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
	for forgotten < limit && len(d.forgettable) > 0 {
		first := d.forgettable[0]
		if first.at.After(now) {
			break
		}
		first.entry.Job.queue.schedule.Remove(first.entry)
		forgotten++
	}
	return forgotten, nil
}
