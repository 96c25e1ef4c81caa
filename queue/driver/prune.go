package driver

import (
	"fmt"
	"time"
)

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

// Validate returns an error if the request is invalid.
func (r PruneRequest) Validate() error {
	if r.Limit < 1 {
		return fmt.Errorf("invalid prune request: Limit must be at least 1 (is %d)", r.Limit)
	}
	return nil
}
