package mongodb

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/mongodb/amboy/queue/driver"
)

// grace is how long a claim that has begun to take documents continues after its context
// ended. Giving up at once would leave leases without an owner that knows of them.
const grace = time.Second

// withGrace returns a context that ends grace after ctx.
func withGrace(ctx context.Context) (context.Context, context.CancelFunc) {
	later, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		timer := time.AfterFunc(grace, cancel)
		context.AfterFunc(later, func() { timer.Stop() })
	})
	return later, func() {
		stop()
		cancel()
	}
}

// uncertainLeases holds the leases that failed calls may have taken.
type uncertainLeases struct {
	mu     sync.Mutex
	leases []driver.Lease
}

// put adds leases, and leaves out those that were taken.
func (s *uncertainLeases) put(leases []driver.Lease, taken map[driver.Lease]bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leases = slices.DeleteFunc(append(s.leases, leases...), func(l driver.Lease) bool { return taken[l] })
}

func (s *uncertainLeases) take() []driver.Lease {
	s.mu.Lock()
	defer s.mu.Unlock()
	leases := s.leases
	s.leases = nil
	return leases
}

// keepDoubts keeps the leases that the claim may have taken and does not give. It can have taken one
// with a later statement than that in doubt, which may also be that of an earlier claim.
func (c *claim) keepDoubts() {
	taken := map[driver.Lease]bool{}
	for _, g := range c.given {
		taken[g.doc.lease()] = true
	}
	c.uncertain.put(c.doubtful, taken)
}

// releaseUncertain hands back the leases that failed calls have taken all the same, and keeps
// claims from landing that have not landed yet. What can't be handed back now is left for the
// next claim.
func (d *Driver) releaseUncertain(ctx context.Context) error {
	leases := d.uncertain.take()
	if len(leases) == 0 {
		return nil
	}
	changes := make([]*change, len(leases))
	for i, l := range leases {
		changes[i] = d.undoing(l)
	}
	err := d.apply(ctx, changes)
	if err != nil {
		d.uncertain.put(leases, nil)
		return fmt.Errorf("handing back what an earlier claim may have taken: %w", err)
	}
	for i, c := range changes {
		if c.err != nil && !errors.Is(c.err, driver.ErrLeaseLost) && !errors.Is(c.err, errGone) {
			d.uncertain.put(leases[i:i+1], nil)
		}
	}
	return nil
}

// undoing returns the change that hands back a lease that may have been taken. If the document
// still is as the claim requires, the claim may land later, unless the document changes. A write
// that an open transaction was in the way of does not land after its time limit, and neither does
// one that is to prevent it.
func (d *Driver) undoing(l driver.Lease) *change {
	c := d.handBack(driver.HandBack{Lease: l})
	if d.avoided.remembers(key{l.Queue, l.Name}, d.elapsed()) {
		return c
	}
	handBack := c.step
	c.fences = true
	c.step = func(doc *document) error {
		if doc.waits() && doc.Status.ModificationCount < l.Count {
			return nil
		}
		return handBack(doc)
	}
	return c
}

func handBacksOf(leases []driver.Lease) []driver.HandBack {
	handBacks := make([]driver.HandBack, len(leases))
	for i, l := range leases {
		handBacks[i] = driver.HandBack{Lease: l}
	}
	return handBacks
}
