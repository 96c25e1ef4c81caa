package amboy

import (
	"context"
	"time"
)

// QueueMarker is implemented by queues that keep marks: named times that record what has
// been done. For instance, a schedule marks the last tick whose job it put, so that no
// process puts a job for that tick again.
type QueueMarker interface {
	// Mark raises a mark to a time and returns its previous value, or the zero time if
	// it did not exist. It never lowers a mark: an earlier time changes nothing, and the
	// zero time only reads. Marks have millisecond resolution. If the queue has a store,
	// they are kept there, for all processes that share it; otherwise they live as long
	// as the queue. Marks are never removed. Mark blocks for the call to the store,
	// returns its errors and an error if the queue is closed, and is safe for concurrent
	// use.
	Mark(ctx context.Context, name string, at time.Time) (last time.Time, err error)
}
