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

func (s *uncertainLeases) put(leases ...driver.Lease) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leases = append(s.leases, leases...)
}

// remove removes a lease, and reports whether it was one of them.
func (s *uncertainLeases) remove(lease driver.Lease) (removed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(s.leases)
	s.leases = slices.DeleteFunc(s.leases, func(l driver.Lease) bool { return l == lease })
	return len(s.leases) < n
}

func (s *uncertainLeases) take() []driver.Lease {
	s.mu.Lock()
	defer s.mu.Unlock()
	leases := s.leases
	s.leases = nil
	return leases
}

// keepDoubts keeps the leases that the claim may have taken and does not give. They stay reserved until they are
// handed back. It can have taken one with a later statement than that in doubt.
func (c *claim) keepDoubts() {
	taken := map[driver.Lease]bool{}
	for _, g := range c.given {
		taken[g.doc.lease()] = true
	}
	c.doubtful = slices.DeleteFunc(c.doubtful, func(l driver.Lease) bool { return taken[l] })
	c.tried = slices.DeleteFunc(c.tried, func(l driver.Lease) bool { return slices.Contains(c.doubtful, l) })
	c.uncertain.put(c.doubtful...)
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
		d.uncertain.put(leases...)
		return fmt.Errorf("handing back what an earlier claim may have taken: %w", err)
	}
	for i, c := range changes {
		if c.err != nil && !errors.Is(c.err, driver.ErrLeaseLost) && !errors.Is(c.err, errGone) {
			d.uncertain.put(leases[i])
		} else {
			d.leases.release(leases[i])
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
