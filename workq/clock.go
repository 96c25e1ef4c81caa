package workq

import (
	"context"
	"sync"
	"time"

	"github.com/mongodb/amboy/internal/heap"
	"github.com/mongodb/amboy/outside"
)

// moment is something that happens to a job at a time. The jobs of a server have different IDs,
// whatever their queues.
type moment struct {
	// isTTR is true if the time to run of a lease is over, and false if the job's time to
	// live is over.
	isTTR bool
	id    string
}

// due is a moment with its time.
type due struct {
	moment
	queue string
	at    time.Time
	// late is true if the time has passed, and what happens then could not be written yet.
	late bool
	// ack is an acknowledgement of the lease without content, and putBack and fails are what the job
	// counted when it began (see meta), if isTTR is true.
	ack            *outside.Ack
	putBack, fails int
	position       int // in dues.heap
}

// clock keeps the times of jobs. A moment has one time: a later one replaces it.
type clock struct {
	// passed is called for each moment whose time has come, for atOnce of them at a time.
	passed func(due)

	mu sync.Mutex
	// lives are the times to live of all jobs, and leases the times to run of the few jobs that are
	// leased, which come and go with every run.
	lives, leases dues
	// wakeAt is when run looks at the times next.
	wakeAt time.Time
	// wake has room for one signal: there is a time before wakeAt.
	wake chan struct{}
}

// dues are the times of the moments of a kind.
type dues struct {
	heap heap.Heap[*due]
	byID map[string]*due
}

func newDues() dues {
	return dues{
		heap: heap.New(
			func(a, b *due) bool { return a.at.Before(b.at) },
			func(d *due) *int { return &d.position }),
		byID: map[string]*due{},
	}
}

// atOnce is the number of moments that are handled at the same time.
const atOnce = 16

// maxWait is how long the clock waits if no time comes before.
const maxWait = time.Hour

func newClock(passed func(due)) *clock {
	return &clock{
		passed: passed, lives: newDues(), leases: newDues(), wake: make(chan struct{}, 1),
	}
}

// of returns the times of the moments of the same kind. The caller holds the lock.
func (c *clock) of(m moment) *dues {
	if m.isTTR {
		return &c.leases
	}
	return &c.lives
}

// set sets the time of a moment.
func (c *clock) set(d due) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.put(d)
}

// setNew sets the time of a moment that has none.
func (c *clock) setNew(d due) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.of(d.moment).byID[d.id] == nil {
		c.put(d)
	}
}

// put sets the time of a moment. The caller holds the lock.
func (c *clock) put(d due) {
	all := c.of(d.moment)
	all.remove(d.id)
	all.byID[d.id] = &d
	all.heap.Put(&d)
	if d.at.Before(c.wakeAt) {
		select {
		case c.wake <- struct{}{}:
		default: // it is awake
		}
	}
}

// lease returns the lease that this server gave of a job, and false if it knows of none, or if the
// job's time to live may be over.
func (c *clock) lease(id string) (due, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	lease, life := c.leases.byID[id], c.lives.byID[id]
	if lease == nil || life == nil || life.late || !life.at.After(time.Now()) {
		return due{}, false
	}
	return *lease, true
}

// dropLease forgets the time to run of a lease, but not that of a later one of the job.
func (c *clock) dropLease(id string, ack *outside.Ack) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if lease := c.leases.byID[id]; lease != nil && lease.ack == ack {
		c.leases.remove(id)
	}
}

func (c *clock) drop(m moment) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.of(m).remove(m.id)
}

// remove removes the time of a moment, if it has one.
func (ds *dues) remove(id string) {
	if d := ds.byID[id]; d != nil {
		ds.heap.Remove(d)
		delete(ds.byID, id)
	}
}

// first returns the first moment; nil if there is none.
func (ds *dues) first() *due {
	if ds.heap.Len() == 0 {
		return nil
	}
	return ds.heap.First()
}

// run calls passed until ctx ends, and then waits for the calls.
func (c *clock) run(ctx context.Context) {
	var calls sync.WaitGroup
	defer calls.Wait()
	free := make(chan struct{}, atOnce)
	timer := time.NewTimer(maxWait)
	defer timer.Stop()
	for ctx.Err() == nil {
		next, wait := c.next()
		if next == nil {
			timer.Reset(wait)
			select {
			case <-timer.C:
			case <-c.wake:
			case <-ctx.Done():
			}
			continue
		}
		select {
		case free <- struct{}{}:
		case <-ctx.Done():
			return
		}
		calls.Go(func() {
			defer func() { <-free }()
			c.passed(*next)
		})
	}
}

// next removes and returns the first moment whose time has come; nil if there is none. wait
// is how long to wait then.
func (c *clock) next() (next *due, wait time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	next = c.lives.first()
	if lease := c.leases.first(); next == nil || lease != nil && lease.at.Before(next.at) {
		next = lease
	}
	now := time.Now()
	c.wakeAt = now.Add(maxWait)
	if next != nil && next.at.Before(c.wakeAt) {
		c.wakeAt = next.at
	}
	if wait = c.wakeAt.Sub(now); wait > 0 {
		return nil, wait
	}
	c.of(next.moment).remove(next.id)
	return next, 0
}
