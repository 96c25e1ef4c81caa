package queue

import (
	"context"
	"fmt"
	"time"
)

// turnRetry is the pause between attempts to take a core's lock that is held.
const turnRetry = 5 * time.Millisecond

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
func longestTurn(ctx context.Context, engines []*engine) (time.Duration, error) {
	longest := time.Duration(0)
	for _, e := range engines {
		since, err := e.sinceTurn(ctx)
		if err != nil {
			return 0, fmt.Errorf("waiting for a decision of process %q: %w", e.id, err)
		}
		longest = max(longest, since)
	}
	return longest, nil
}

func (e *engine) sinceTurn(ctx context.Context) (time.Duration, error) {
	if e.manual {
		return 0, nil
	}
	for !e.coreMu.TryLock() {
		select {
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-time.After(turnRetry):
		}
	}
	last := e.read.Mono
	e.coreMu.Unlock()
	if last == 0 && len(e.queueNames()) == 0 {
		return 0, nil // its first decision comes with the first queue
	}
	return time.Since(e.started) - last, nil
}
