package memory

import (
	"container/list"
	"context"
	"maps"
	"time"

	"github.com/mongodb/amboy/queue/driver"
)

// emptyQueues lists the queues without records and settings, in the order in which they
// became empty.
type emptyQueues struct{ list.List }

// update adds or removes a queue that may have changed.
func (l *emptyQueues) update(q *queue, now func() time.Time) {
	isEmpty, isListed := q.isEmpty(), q.empty != nil
	switch {
	case isEmpty && !isListed:
		q.empty, q.emptySince = l.PushBack(q), now()
	case !isEmpty && isListed:
		l.Remove(q.empty)
		q.empty = nil
	}
}

// isEmpty reports whether a queue has no records and no settings, and no Insert waits.
func (q *queue) isEmpty() bool {
	return q.schedule.Len() == 0 && q.control.IsZero() && q.inserts.Len() == 0 && q.called == 0
}

// Prune implements driver.Driver.
func (d *Driver) Prune(ctx context.Context, req driver.PruneRequest) (int, error) {
	if err := req.Validate(); err != nil {
		return 0, err
	}
	kept := make(map[string]bool, len(req.Keep))
	for _, name := range req.Keep {
		kept[name] = true
	}
	if err := d.lock(ctx); err != nil {
		return 0, err
	}
	defer d.unlock()
	pruned := 0
	for e := d.index.empty.Front(); e != nil && pruned < req.Limit; {
		q := e.Value.(*queue)
		if !q.emptySince.Before(req.Unused) {
			break
		}
		e = e.Next()
		if !kept[q.name] {
			d.index.empty.Remove(q.empty)
			delete(d.queues, q.name)
			d.names.Delete(q.name)
			pruned++
		}
	}
	d.prunedSince += pruned
	if d.prunedSince > len(d.queues) {
		d.prunedSince = 0
		d.queues = shrunk(d.queues)
		d.index.busy = shrunk(d.index.busy)
	}
	return pruned, nil
}

// shrunk returns a map with the contents of another one, which has removed many. A map, and its
// clone, does not shrink.
func shrunk[K comparable, V any](m map[K]V) map[K]V {
	n := make(map[K]V, len(m))
	maps.Copy(n, m)
	return n
}
