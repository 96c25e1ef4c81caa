package queue

import (
	"context"
	"fmt"
	"time"

	"github.com/mongodb/amboy/queue/internal/engine"
)

// SinceTurn returns how long ago this process last decided what to do with the jobs of
// the store, which it does at least every 30 seconds. With several engines, it returns
// the longest time of all. It returns 0 if the store has no engine, as for a queue that
// holds jobs by reference. It returns an error if ctx ends first, because the process is
// stuck in a decision.
func (s *Store) SinceTurn(ctx context.Context) (time.Duration, error) {
	if s.sinceTurn == nil {
		return 0, nil
	}
	return s.sinceTurn(ctx)
}

// longestTurn returns the longest time since a decision of the given engines.
func longestTurn(ctx context.Context, engines []*engine.Engine) (time.Duration, error) {
	longest := time.Duration(0)
	for _, e := range engines {
		since, err := e.SinceTurn(ctx)
		if err != nil {
			return 0, fmt.Errorf("waiting for a decision of process %q: %w", e.ID, err)
		}
		longest = max(longest, since)
	}
	return longest, nil
}
