package amboy

import "time"

// Clock is implemented by queues that do not use the system's time, such as the queues of
// package amboytest, whose time a test controls.
type Clock interface {
	// Now returns the queue's current time.
	Now() time.Time
}

// Now returns a queue's current time: the queue's own if it is a Clock, the system's
// otherwise. Delays of its jobs must be measured from it. It is safe for concurrent use.
func Now(q Queue) time.Time {
	if c, ok := q.(Clock); ok {
		return c.Now()
	}
	return time.Now()
}
