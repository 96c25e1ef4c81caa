package queue

import (
	"sync"
	"time"
)

// inlineClock is the time of an Inline queue. It is
// safe for concurrent use.
type inlineClock struct {
	mu  sync.Mutex
	now time.Time
}

// newInlineClock returns a clock that stands at a time; that of the system where it
// is zero.
func newInlineClock(now time.Time) *inlineClock {
	if now.IsZero() {
		now = time.Now().Round(0) // without the clock that goes on
	}
	return &inlineClock{now: now}
}

func (c *inlineClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// advance sets the clock; false where it is not earlier.
func (c *inlineClock) advance(to time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !to.After(c.now) {
		return false
	}
	c.now = to.Round(0)
	return true
}
