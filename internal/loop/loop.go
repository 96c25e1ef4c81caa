// Package loop runs the one goroutine of something that is started once and closed, such as a
// scheduler.
package loop

import (
	"context"
	"sync"
)

// Loop is a goroutine that its owner starts once. It is safe for concurrent use. The zero Loop is not
// started.
type Loop struct {
	mu   sync.Mutex
	stop context.CancelFunc
	done chan struct{} // closed when the goroutine has ended; nil if it was not started
}

// Start runs a function on a goroutine until ctx ends or Close is called. It returns false
// if it was called before.
func (l *Loop) Start(ctx context.Context, run func(context.Context)) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.done != nil {
		return false
	}
	ctx, stop := context.WithCancel(ctx)
	done := make(chan struct{})
	l.stop, l.done = stop, done
	go func() {
		defer close(done)
		defer stop() // run may have returned by itself
		run(ctx)
	}()
	return true
}

// Close stops the goroutine that Start began, and waits for it until ctx ends.
func (l *Loop) Close(ctx context.Context) {
	l.mu.Lock()
	stop, done := l.stop, l.done
	l.mu.Unlock()
	if done == nil {
		return
	}
	stop()
	select {
	case <-done:
	case <-ctx.Done():
	}
}
