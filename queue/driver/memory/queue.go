package memory

import (
	"time"

	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/internal/arrivals"
	"github.com/mongodb/amboy/queue/internal/schedule"
	"github.com/mongodb/amboy/queue/internal/wait"
)

// queue is what a Driver keeps of one queue.
type queue struct {
	name     string
	control  driver.Control
	schedule schedule.Schedule[*item]
	records  arrivals.List[entry]
	byName   map[string]*entry
	inserts  wait.Line // in Insert, for room
	called   int       // Inserts that were woken, and have not looked yet

	touched bool
	next    time.Time // at which there may be more work, while it is timed
	timed   int       // its place in index.timed, counted from 1; 0 if it is not there
}

// queue returns the queue with that name, which is there from now on.
func (d *Driver) queue(name string) *queue {
	q := d.queues[name]
	if q == nil {
		q = &queue{name: name, byName: map[string]*entry{}}
		q.schedule.KeepFinished = d.opts.KeepFinished
		q.schedule.Forget = d.forget
		q.schedule.KindOf = kindOf
		d.queues[name] = q
	}
	d.touch(q)
	return q
}

func kindOf(e *entry) driver.Kind { return driver.KindOf(&e.Job.record) }

// byName returns the entry of the record with that name, which may be changed; nil where
// there is none.
func (d *Driver) byName(queue, name string) *entry {
	q := d.queues[queue]
	if q == nil {
		return nil
	}
	d.touch(q)
	return q.byName[name]
}
