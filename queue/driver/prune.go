package driver

import (
	"context"
	"time"
)

// Pruner is implemented by drivers whose stores remember the name of each queue that was
// ever used, so that the store does not grow with the number of names.
type Pruner interface {
	// Prune drops the names of queues without records, whose Control is the zero value and
	// which did not change since a time. It returns their number. A name that is used again
	// later is added again; the totals of its Stats then begin at 0. Marks and notes stay.
	// The cost of Prune grows with the number of queues without records, and not with the
	// number of the others. It returns an error if req.Limit is less than 1. Prune is safe
	// for concurrent use with all other calls, of any process.
	Prune(ctx context.Context, req PruneRequest) (int, error)
}

// PruneRequest selects the queues that Prune drops.
type PruneRequest struct {
	// Unused is the time since which a queue must not have changed, by the wall clock of
	// the process that changed it.
	Unused time.Time
	// Keep are the names of queues that stay.
	Keep []string
	// Limit is the maximum number of queues to drop. It must be at least 1.
	Limit int
}
