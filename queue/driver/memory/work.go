package memory

import (
	"cmp"
	"container/heap"
	"context"
	"slices"
	"time"

	"github.com/mongodb/amboy/queue/driver"
)

// index contains the queues that have work, the queues that will have work at a known time,
// and the empty queues.
// It is updated for the touched queues before the lock is released, so that no operation has to
// read all queues.
type index struct {
	busy    map[*queue]struct{}
	timed   timedQueues
	empty   emptyQueues
	touched []*queue
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
		at, isTimed := q.schedule.NextTime()
		q.next = at
		switch {
		case isTimed && q.timed == 0:
			heap.Push(&x.timed, q)
		case isTimed:
			heap.Fix(&x.timed, q.timed-1)
		case q.timed != 0:
			heap.Remove(&x.timed, q.timed-1)
		}
	}
	clear(x.touched)
	x.touched = x.touched[:0]
}

// next returns the first time at which a queue has more work; zero if there is none.
func (x *index) next() time.Time {
	if len(x.timed) == 0 {
		return time.Time{}
	}
	return x.timed[0].next
}

// nextAfter is next without the queues whose time has come.
func (x *index) nextAfter(now time.Time) time.Time { return x.timed.firstAfter(now, 0) }

// timedQueues is a heap of queues by the next time at which they have more work, for package
// heap.
type timedQueues []*queue

func (h timedQueues) Len() int           { return len(h) }
func (h timedQueues) Less(i, j int) bool { return h[i].next.Before(h[j].next) }

func (h timedQueues) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].timed, h[j].timed = i+1, j+1
}

// firstAfter returns the first time after now in the part of the heap below an index; zero if there
// is none.
func (h timedQueues) firstAfter(now time.Time, i int) (first time.Time) {
	switch {
	case i >= len(h):
		return time.Time{}
	case h[i].next.After(now):
		return h[i].next
	}
	for _, child := range []int{2*i + 1, 2*i + 2} {
		if at := h.firstAfter(now, child); first.IsZero() || !at.IsZero() && at.Before(first) {
			first = at
		}
	}
	return first
}

// Push implements heap.Interface.
func (h *timedQueues) Push(q any) {
	*h = append(*h, q.(*queue))
	q.(*queue).timed = len(*h)
}

// Pop implements heap.Interface.
func (h *timedQueues) Pop() any {
	last := len(*h) - 1
	q := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	q.timed = 0
	return q
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
	for len(d.index.timed) > 0 && !d.index.timed[0].next.After(now) {
		q := heap.Pop(&d.index.timed).(*queue)
		later = append(later, q)
		work.Queues = append(work.Queues, driver.QueueWork{
			Queue: q.name, Ready: q.mayRun(), Expired: true, Retrying: q.schedule.Retrying() > 0,
		})
	}
	work.Next = d.index.next()
	for _, q := range later {
		heap.Push(&d.index.timed, q)
	}
	work.Queues = slices.DeleteFunc(work.Queues, func(w driver.QueueWork) bool { return w == driver.QueueWork{Queue: w.Queue} })
	slices.SortFunc(work.Queues, func(a, b driver.QueueWork) int { return cmp.Compare(a.Queue, b.Queue) })
	return work, nil
}
