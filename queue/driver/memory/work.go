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
	busy map[*queue]struct{}
	// timed are the queues that have more work at a known time, by that time. When it has come, at seen,
	// they move to due, so that a claim does not walk over the queues that it does not ask for.
	timed, due heap.Heap[*queue]
	seen       time.Time

	empty   emptyQueues
	touched []*queue
	// retrying is the number of records that await their next attempt.
	retrying int
}

func newIndex() index {
	byNext := func(a, b *queue) bool { return a.next.Before(b.next) }
	return index{
		busy:  map[*queue]struct{}{},
		timed: heap.New(byNext, func(q *queue) *int { return &q.timed }),
		due:   heap.New(byNext, func(q *queue) *int { return &q.due }),
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
		x.due.Remove(q)
		if isTimed {
			x.timed.Put(q)
		} else {
			x.timed.Remove(q)
		}
	}
	clear(x.touched)
	x.touched = x.touched[:0]
}

// advance moves the queues whose time has come to due.
func (x *index) advance(now time.Time) {
	now = now.Round(0) // the times of records are those of the wall clock
	if now.Before(x.seen) {
		x.moveBack(now)
	}
	x.seen = now
	for x.timed.Len() > 0 && !x.timed.First().next.After(now) {
		x.due.Put(x.timed.Pop())
	}
}

// moveBack moves the queues from due whose time has not come: the clock was set back, or a caller read
// it before another.
func (x *index) moveBack(now time.Time) {
	var early []*queue
	for q := range x.due.All() {
		if q.next.After(now) {
			early = append(early, q)
		}
	}
	for _, q := range early {
		x.due.Remove(q)
		x.timed.Put(q)
	}
}

// nextAfter returns the first time after now at which a queue has more work; zero if there is
// none.
func (x *index) nextAfter(now time.Time) time.Time {
	x.advance(now)
	if x.timed.Len() == 0 {
		return time.Time{}
	}
	return x.timed.First().next
}

// Work implements driver.Driver.
func (d *Driver) Work(ctx context.Context, now time.Time) (driver.Work, error) {
	if err := d.lockToRead(ctx); err != nil {
		return driver.Work{}, err
	}
	defer d.unlock()
	work := driver.Work{Next: d.index.nextAfter(now)}
	for q := range d.index.busy {
		if q.due == 0 { // otherwise it is added below
			work.Queues = append(work.Queues, driver.QueueWork{
				Queue: q.name, Ready: q.schedule.Ready() > 0 && q.mayRun(), Retrying: q.schedule.Retrying() > 0,
			})
		}
	}
	for q := range d.index.due.All() {
		work.Queues = append(work.Queues, driver.QueueWork{
			Queue: q.name, Ready: q.mayRun(), Expired: true, Retrying: q.schedule.Retrying() > 0,
		})
	}
	work.Queues = slices.DeleteFunc(work.Queues, func(w driver.QueueWork) bool { return w == driver.QueueWork{Queue: w.Queue} })
	slices.SortFunc(work.Queues, func(a, b driver.QueueWork) int { return cmp.Compare(a.Queue, b.Queue) })
	return work, nil
}
