package queue

import (
	"sync"
	"time"
)

// inlineClock is the clock of an Inline queue. It is safe for concurrent use.
type inlineClock struct {
	mu  sync.Mutex
	now time.Time
}

// newInlineClock returns a clock that is set to now, or to the system's time if now is
// zero.
func newInlineClock(now time.Time) *inlineClock {
	if now.IsZero() {
		now = time.Now().Round(0) // without the monotonic reading
	}
	return &inlineClock{now: now}
}

func (c *inlineClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// advance sets the clock to a later time. It returns false if to is not later.
func (c *inlineClock) advance(to time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !to.After(c.now) {
		return false
	}
	c.now = to.Round(0)
	return true
}
