package memory

import (
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
	return q
}

func kindOf(e *entry) driver.Kind { return driver.KindOf(&e.Job.record) }

// byName returns the entry of the record with that name; nil where there is none.
func (d *Driver) byName(queue, name string) *entry {
	q := d.queues[queue]
	if q == nil {
		return nil
	}
	return q.byName[name]
}
