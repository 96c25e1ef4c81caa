// Package sleep lets a goroutine wait for a time, unless its context ends before.
package sleep

import (
	"context"
	"time"
)

// For waits until d is over or ctx has ended, and returns the error of ctx.
func For(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	return ctx.Err()
}
