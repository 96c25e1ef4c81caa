package engine

import (
	"context"
	"time"
)

// turnRetry is the pause between attempts to take a core's lock that is held.
const turnRetry = 5 * time.Millisecond

// SinceTurn returns how long ago the core last decided something, without the time for which the
// machine was suspended. It returns an error if ctx ends first, because the core is stuck in a
// decision.
func (e *Engine) SinceTurn(ctx context.Context) (time.Duration, error) {
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
	last := e.read.Mono - e.asleep
	e.coreMu.Unlock()
	if last == 0 && len(e.QueueNames()) == 0 {
		return 0, nil // its first decision comes with the first queue
	}
	return time.Since(e.started) - last, nil
}
