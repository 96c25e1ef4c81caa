package memory

import (
	"context"

	"github.com/mongodb/amboy/queue/internal/wait"
)

// hasRoom reports whether a record can be inserted. inTurn is true for an Insert that was
// woken; others must not overtake waiting Inserts. Room of woken Inserts is reserved.
func (d *Driver) hasRoom(q *queue, inTurn bool) bool {
	if d.opts.Capacity == 0 {
		return true
	}
	return q.schedule.Pending()+q.called < d.opts.Capacity && (inTurn || q.inserts.Len() == 0)
}

// wakeOne wakes the first waiting Insert if there is room.
func (d *Driver) wakeOne(q *queue) {
	if q.inserts.Len() > 0 && d.hasRoom(q, true) {
		q.called++
		d.woken = append(d.woken, q.inserts.TakeFirst())
	}
}

// wakeAll wakes all waiting Inserts, which are then refused.
func (d *Driver) wakeAll(q *queue) {
	q.called += q.inserts.Len()
	d.woken = append(d.woken, q.inserts.TakeAll()...)
}

// await waits for room. If ctx ends at the same time as it is woken, it passes the room on to
// the next Insert.
func (d *Driver) await(ctx context.Context, q *queue, w *wait.Waiter) error {
	err := w.Wait(ctx)
	if err == nil {
		return nil
	}
	d.mu.Lock()
	left := q.inserts.Leave(w)
	d.mu.Unlock()
	if left {
		return err
	}
	w.Drain()
	d.mu.Lock()
	defer d.unlock()
	q.called--
	d.wakeOne(q)
	return err
}
