package memory

import (
	"container/list"
	"time"

	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/internal/arrivals"
	"github.com/mongodb/amboy/queue/internal/rate"
	"github.com/mongodb/amboy/queue/internal/schedule"
	"github.com/mongodb/amboy/queue/internal/typelimit"
	"github.com/mongodb/amboy/queue/internal/wait"
)

// queue is the state of one queue.
type queue struct {
	name    string
	control driver.Control
	bucket  rate.Bucket
	// typeBuckets are the buckets of the types that have a rate.
	typeBuckets typelimit.Buckets
	schedule    schedule.Schedule[*item]
	records     arrivals.List[entry]
	byName      map[string]*entry
	inserts     wait.Line // Inserts that wait for room
	called      int       // woken Inserts that have not taken their room yet

	touched  bool
	next     time.Time // when there may be more work, if it is in index.timed or index.due
	timed    int       // position in index.timed; 0 if it is not in it
	due      int       // position in index.due; 0 if it is not in it
	retrying int       // how many records index.retrying counts

	empty      *list.Element // in index.empty; nil if it is not in it
	emptySince time.Time     // when the queue was added to index.empty
}

// queue returns the queue with a name, and creates it if it does not exist.
func (d *Driver) queue(name string) *queue {
	q := d.queues[name]
	if q == nil {
		q = &queue{name: name, byName: map[string]*entry{}}
		q.schedule.KeepFinished = d.opts.KeepFinished
		q.schedule.Forget = d.forget
		q.schedule.KindOf = kindOf
		d.queues[name] = q
		d.names.Set(name, q)
	}
	d.touch(q)
	return q
}

func kindOf(e *entry) driver.Kind { return driver.KindOf(&e.Job.record) }

// byName returns the entry of the record with that name, which the caller may change; nil if
// there is none.
func (d *Driver) byName(queue, name string) *entry {
	q := d.queues[queue]
	if q == nil {
		return nil
	}
	d.touch(q)
	return q.byName[name]
}
