package postgres

import (
	"cmp"
	"context"
	"slices"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/internal/typelimit"
)

// typeLimits reads the limits of types; nil if there are none.
func (r *row) typeLimits() map[string]amboy.TypeLimit {
	limits, err := typelimit.DecodeLimits(r.text())
	r.fail(err)
	return limits
}

// typeBuckets reads the buckets of types.
func (r *row) typeBuckets() typelimit.Buckets {
	buckets, err := typelimit.DecodeBuckets(r.text())
	r.fail(err)
	return buckets
}

// keepTypeBuckets drops the buckets of types whose rate was removed.
func (c *changes) keepTypeBuckets(queue int32, control driver.Control) error {
	var buckets typelimit.Buckets
	_, err := c.one(readRoom, func(r *row) { _, buckets = r.typeLimits(), r.typeBuckets() }, queue)
	if err != nil {
		return err
	}
	buckets.Keep(control.Types)
	return c.setTypeBuckets(queue, buckets)
}

func (c *changes) setTypeBuckets(queue int32, buckets typelimit.Buckets) error {
	text, err := buckets.Encode()
	if err == nil {
		c.exec(setTypeBuckets, nullable(text), queue)
	}
	return err
}

// limitedTypes are what a claim reads to find out what the limits of a queue's types leave.
type limitedTypes struct {
	limits  map[string]amboy.TypeLimit
	buckets typelimit.Buckets
	room    *typelimit.Room // nil if there are no limits
}

// setRoom sets the room, after the number of running jobs of each type was read.
func (t *limitedTypes) setRoom(running map[string]int, now int64) {
	earlier := t.room
	t.room = typelimit.NewRoom(t.limits, func(jobType string) int { return running[jobType] }, t.buckets, now)
	t.room.RefuseAs(earlier)
}

// countInto returns a function that reads the numbers of running jobs by type.
func countInto(running map[string]int) func(*row) error {
	return func(r *row) error {
		jobType := r.text()
		running[jobType] = r.int()
		return nil
	}
}

// findRoom leaves out the ready jobs of a queue whose types have no room beside the running ones.
func (cl *claim) findRoom(ctx context.Context, w *work, running map[string]int) error {
	w.setRoom(running, w.now)
	if buckets, changed := w.room.Settle(); changed { // the clock of the server was set back
		locked, err := cl.d.transactUnlessLocked(ctx, w.queue.id, func(c *changes) error { return c.setTypeBuckets(w.queue.id, buckets) })
		if err != nil {
			return err
		}
		if locked {
			cl.leftOut, cl.locked = true, append(cl.locked, w.queue.id)
		}
	}
	w.keepWithinRoom()
	if w.ready == 0 {
		cl.noteWait(w, 0)
	}
	return nil
}

// findRoomIn is findRoom in a transaction that holds the lock of the queue.
func (c *changes) findRoomIn(w *work) error {
	_, err := c.one(readRoom, func(r *row) {
		w.limits, w.buckets = r.typeLimits(), r.typeBuckets()
		w.now = r.integer()
	}, w.queue.id)
	if err != nil {
		return err
	}
	running := map[string]int{}
	err = c.query(limitedOfType, countInto(running), w.queue.id)
	if err != nil {
		return err
	}
	w.setRoom(running, w.now)
	w.keepWithinRoom()
	return nil
}

// settleRoom takes the tokens of the jobs that were taken.
func (c *changes) settleRoom(w *work, taken []*stored) error {
	for _, s := range taken {
		w.room.Take(s.Type)
	}
	buckets, changed := w.room.Settle()
	if !changed {
		return nil
	}
	return c.setTypeBuckets(w.queue.id, buckets)
}

// keepWithinRoom leaves out the found jobs that exceed the limits of their types, in the order in
// which they would run.
func (w *work) keepWithinRoom() {
	chosen := map[string]int{}
	kept := map[*source][]int64{}
	for _, p := range w.inOrder() {
		if chosen[p.jobType] >= w.room.Left(p.jobType) {
			w.room.Refuse(p.jobType)
			continue
		}
		chosen[p.jobType]++
		kept[p.source] = append(kept[p.source], p.seq)
	}
	w.ready = 0
	for _, s := range w.lines {
		s.seqs = kept[s]
		w.ready += len(s.seqs)
	}
}

// place is a found job of a line.
type place struct {
	*source
	seq int64
}

// inOrder returns the found jobs in the order in which they run.
func (w *work) inOrder() []place {
	var all []place
	for _, s := range w.lines {
		for _, seq := range s.seqs {
			all = append(all, place{s, seq})
		}
	}
	slices.SortFunc(all, func(a, b place) int {
		return cmp.Or(cmp.Compare(b.priority, a.priority), cmp.Compare(a.seq, b.seq))
	})
	return all
}
