package workq

import (
	"container/heap"
	"context"
	"sync"
	"time"

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
	// token is that of the lease, and putBack and fails are what the job counted when it began (see
	// meta), if isTTR is true.
	token          outside.Token
	putBack, fails int
	index          int
}

// clock keeps the times of jobs. A moment has one time: a later one replaces it.
type clock struct {
	// passed is called for each moment whose time has come, for atOnce of them at a time.
	passed func(due)

	mu    sync.Mutex
	dues  dueHeap
	byKey map[moment]*due
	// wake has room for one signal: the first time has changed.
	wake chan struct{}
}

// atOnce is the number of moments that are handled at the same time.
const atOnce = 16

func newClock(passed func(due)) *clock {
	return &clock{passed: passed, byKey: map[moment]*due{}, wake: make(chan struct{}, 1)}
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
	if c.byKey[d.moment] == nil {
		c.put(d)
	}
}

// put sets the time of a moment. The caller holds the lock.
func (c *clock) put(d due) {
	if old := c.byKey[d.moment]; old != nil {
		c.remove(old)
	}
	c.byKey[d.moment] = &d
	heap.Push(&c.dues, &d)
	if d.index == 0 {
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
	lease, life := c.byKey[moment{isTTR: true, id: id}], c.byKey[moment{id: id}]
	if lease == nil || life == nil || life.late || !life.at.After(time.Now()) {
		return due{}, false
	}
	return *lease, true
}

// dropLease forgets the time to run of a lease, but not that of a later one of the job.
func (c *clock) dropLease(id string, token outside.Token) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if lease := c.byKey[moment{isTTR: true, id: id}]; lease != nil && lease.token == token {
		c.remove(lease)
	}
}

func (c *clock) drop(m moment) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if old := c.byKey[m]; old != nil {
		c.remove(old)
	}
}

// remove removes the time of a moment. The caller holds the lock.
func (c *clock) remove(d *due) {
	heap.Remove(&c.dues, d.index)
	delete(c.byKey, d.moment)
}

// run calls passed until ctx ends, and then waits for the calls.
func (c *clock) run(ctx context.Context) {
	var calls sync.WaitGroup
	defer calls.Wait()
	free := make(chan struct{}, atOnce)
	timer := time.NewTimer(time.Hour)
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
	if len(c.dues) == 0 {
		return nil, time.Hour
	}
	if wait = time.Until(c.dues[0].at); wait > 0 {
		return nil, wait
	}
	next = heap.Pop(&c.dues).(*due)
	delete(c.byKey, next.moment)
	return next, 0
}

type dueHeap []*due

func (h dueHeap) Len() int           { return len(h) }
func (h dueHeap) Less(i, j int) bool { return h[i].at.Before(h[j].at) }
func (h dueHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i]; h[i].index, h[j].index = i, j }

// Push and Pop are for package heap.
func (h *dueHeap) Push(x any) {
	d := x.(*due)
	d.index = len(*h)
	*h = append(*h, d)
}

func (h *dueHeap) Pop() any {
	last := len(*h) - 1
	d := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return d
}
