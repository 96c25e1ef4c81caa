package memory

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/mongodb/amboy/internal/heap"
	"github.com/mongodb/amboy/queue/driver"
)

// index contains the queues that have work, the queues that will have work at a known time,
// and the empty queues.
// It is updated for the touched queues before the lock is released, so that no operation has to
// read all queues.
type index struct {
	busy    map[*queue]struct{}
	timed   heap.Heap[*queue] // by the next time at which they have more work
	empty   emptyQueues
	touched []*queue
	// retrying is the number of records that await their next attempt.
	retrying int
}

func newIndex() index {
	return index{
		busy: map[*queue]struct{}{},
		timed: heap.New(
			func(a, b *queue) bool { return a.next.Before(b.next) },
			func(q *queue) *int { return &q.timed }),
	}
}

// touch must be called before a change of a queue.
func (d *Driver) touch(q *queue) {
	if !q.touched {
		q.touched = true
		d.index.touched = append(d.index.touched, q)
	}
}

// arrange updates the index for the touched queues.
func (x *index) arrange(now func() time.Time) {
	for _, q := range x.touched {
		q.touched = false
		x.empty.update(q, now)
		if q.schedule.Ready() > 0 || q.schedule.Retrying() > 0 {
			x.busy[q] = struct{}{}
		} else {
			delete(x.busy, q)
		}
		x.retrying += q.schedule.Retrying() - q.retrying
		q.retrying = q.schedule.Retrying()
		at, isTimed := q.schedule.NextTime()
		q.next = at
		if isTimed {
			x.timed.Put(q)
		} else {
			x.timed.Remove(q)
		}
	}
	clear(x.touched)
	x.touched = x.touched[:0]
}

// next returns the first time at which a queue has more work; zero if there is none.
func (x *index) next() time.Time {
	if x.timed.Len() == 0 {
		return time.Time{}
	}
	return x.timed.First().next
}

// nextAfter is next without the queues whose time has come.
func (x *index) nextAfter(now time.Time) time.Time {
	if q, ok := x.timed.FirstFrom(func(q *queue) bool { return !q.next.After(now) }); ok {
		return q.next
	}
	return time.Time{}
}

// Work implements driver.Driver.
func (d *Driver) Work(ctx context.Context, now time.Time) (driver.Work, error) {
	if err := d.lockToRead(ctx); err != nil {
		return driver.Work{}, err
	}
	defer d.unlock()
	var work driver.Work
	for q := range d.index.busy {
		w := driver.QueueWork{Queue: q.name, Ready: q.schedule.Ready() > 0 && q.mayRun(), Retrying: q.schedule.Retrying() > 0}
		if q.timed == 0 || q.next.After(now) { // otherwise it is added below
			work.Queues = append(work.Queues, w)
		}
	}
	var later []*queue
	for d.index.timed.Len() > 0 && !d.index.timed.First().next.After(now) {
		q := d.index.timed.Pop()
		later = append(later, q)
		work.Queues = append(work.Queues, driver.QueueWork{
			Queue: q.name, Ready: q.mayRun(), Expired: true, Retrying: q.schedule.Retrying() > 0,
		})
	}
	work.Next = d.index.next()
	for _, q := range later {
		d.index.timed.Put(q)
	}
	work.Queues = slices.DeleteFunc(work.Queues, func(w driver.QueueWork) bool { return w == driver.QueueWork{Queue: w.Queue} })
	slices.SortFunc(work.Queues, func(a, b driver.QueueWork) int { return cmp.Compare(a.Queue, b.Queue) })
	return work, nil
}
