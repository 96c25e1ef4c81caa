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

func (s *uncertainLeases) put(leases []driver.Lease) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leases = append(s.leases, leases...)
}

func (s *uncertainLeases) take() []driver.Lease {
	s.mu.Lock()
	defer s.mu.Unlock()
	leases := s.leases
	s.leases = nil
	return leases
}

// doubts returns the leases that the claim may have taken and does not give. It can have taken one
// with a later statement than that in doubt.
func (c *claim) doubts() []driver.Lease {
	taken := map[driver.Lease]bool{}
	for _, g := range c.given {
		taken[g.doc.lease()] = true
	}
	return slices.DeleteFunc(c.doubtful, func(l driver.Lease) bool { return taken[l] })
}

// releaseUncertain hands back the leases that failed calls have taken all the same. What can't be
// handed back now is left for the next claim.
func (d *Driver) releaseUncertain(ctx context.Context) error {
	leases := d.uncertain.take()
	if len(leases) == 0 {
		return nil
	}
	errs, err := d.release(ctx, handBacksOf(leases))
	if err != nil {
		d.uncertain.put(leases)
		return fmt.Errorf("handing back what an earlier claim may have taken: %w", err)
	}
	for i, err := range errs {
		if err != nil && !errors.Is(err, driver.ErrLeaseLost) {
			d.uncertain.put(leases[i : i+1])
		}
	}
	return nil
}

func handBacksOf(leases []driver.Lease) []driver.HandBack {
	handBacks := make([]driver.HandBack, len(leases))
	for i, l := range leases {
		handBacks[i] = driver.HandBack{Lease: l}
	}
	return handBacks
}
