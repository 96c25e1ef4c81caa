package lifecycle

import (
	"context"
	"sync"

	"github.com/mongodb/grip/message"

	"github.com/mongodb/amboy/internal/contain"
	"github.com/mongodb/amboy/internal/logging"
)

// Ending closes a queue or a group when the context that it lives under ends. The zero
// value watches no context.
type Ending struct {
	mu   sync.Mutex
	stop func() bool // stops watching the context; nil if there is none
	over bool        // with does nothing any more
	// running counts the goroutines that close the owner.
	running Tasks
}

// With calls end with ctx, on a new goroutine, when ctx ends. It replaces the context of
// an earlier call, unless that context has ended. It does nothing after cancel.
func (e *Ending) With(ctx context.Context, what string, end func(context.Context)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.over {
		return
	}
	e.forget()
	e.running.begin()
	e.stop = context.AfterFunc(ctx, func() {
		defer e.running.end()
		err := contain.Panic(func() error { end(ctx); return nil })
		if err != nil {
			logging.Error(context.WithoutCancel(ctx), message.Fields{
				"message": "panic while closing at the end of a context",
				"what":    what,
				"error":   err.Error(),
			})
		}
	})
}

// forget stops watching the context. The caller holds the lock.
func (e *Ending) forget() {
	if e.stop != nil && e.stop() {
		e.running.end()
	}
	e.stop = nil
}

// Cancel stops watching for good. It does not wait for a call of end that has begun,
// because its caller may be that call.
func (e *Ending) Cancel() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.over = true
	e.forget()
}

// Wait waits for the calls of end to return. It must be called after cancel.
//
//nolint:contextcheck // They end within a second of the end of their own context.
func (e *Ending) Wait() { e.running.Wait(context.Background()) }
