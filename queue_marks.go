package amboy

import (
	"context"
	"time"
)

// QueueMarker is implemented by queues that keep marks: times with names, of what
// has been done. A schedule, for instance, marks the last tick whose job it put, so
// that no process puts one for that tick again.
type QueueMarker interface {
	// Mark raises a mark to a time, and returns what it was before: the zero time
	// where there was none. It never lowers one: an earlier time changes nothing,
	// and the zero time only reads. Marks are kept to the millisecond, for as long
	// as the queue keeps anything: in its store, where it has one, and for all
	// processes that share that. Nothing removes one. Mark blocks as long as the
	// store takes, returns its errors and those of a queue that was closed, and is
	// safe for concurrent use.
	Mark(ctx context.Context, name string, at time.Time) (last time.Time, err error)
}
