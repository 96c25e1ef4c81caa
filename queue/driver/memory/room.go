package memory

import (
	"context"

	"github.com/mongodb/amboy/queue/internal/wait"
)

// hasRoom tells whether a record can be inserted by somebody whose turn it is, or
// who just came. The room for those who were called is theirs.
func (d *Driver) hasRoom(q *queue, inTurn bool) bool {
	if d.opts.Capacity == 0 {
		return true
	}
	return q.schedule.Pending()+q.called < d.opts.Capacity && (inTurn || q.inserts.Len() == 0)
}

// wakeOne calls the first of the Inserts that wait, where there is room.
func (d *Driver) wakeOne(q *queue) {
	if q.inserts.Len() > 0 && d.hasRoom(q, true) {
		q.called++
		d.woken = append(d.woken, q.inserts.TakeFirst())
	}
}

// wakeAll calls all Inserts that wait, to be refused.
func (d *Driver) wakeAll(q *queue) {
	q.called += q.inserts.Len()
	d.woken = append(d.woken, q.inserts.TakeAll()...)
}

// await waits for room. Where ctx ends first it passes a signal on that came at
// the same time.
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
