package amboy

import "time"

// Clock is implemented by queues that do not go by the time of the system: those
// of package amboytest, whose time a test moves.
type Clock interface {
	// Now is the time by which the queue goes.
	Now() time.Time
}

// Now is the time by which a queue goes, which is that of the system unless the
// queue is a Clock. It is what a delay must be counted from, and is safe for
// concurrent use.
func Now(q Queue) time.Time {
	if c, ok := q.(Clock); ok {
		return c.Now()
	}
	return time.Now()
}
