// Package lazycontext derives contexts for calls that most often return without waiting. A derived context
// of package context, with its timer, takes longer than a call of a store in memory.
package lazycontext

import (
	"context"
	"sync"
	"time"
)

// New returns a context like the one that derive returns, which must be derived from parent. derive is
// called when Done is first called. Until then the context ends only with parent, or when cancel is called.
// cancel must be called.
func New(parent context.Context, derive func() (context.Context, context.CancelFunc)) (ctx context.Context, cancel context.CancelFunc) {
	c := &lazy{Context: parent, derive: derive}
	return c, c.cancel
}

// WithTimeout is context.WithTimeout.
func WithTimeout(parent context.Context, timeout time.Duration) (context.Context, context.CancelFunc) {
	c := &timed{lazy: lazy{Context: parent}, deadline: time.Now().Add(timeout)}
	if earlier, ok := parent.Deadline(); ok && earlier.Before(c.deadline) {
		c.deadline = earlier
	}
	return c, c.cancel
}

type lazy struct {
	context.Context                                              // the parent
	derive          func() (context.Context, context.CancelFunc) // nil in a timed context

	mu sync.Mutex
	// derived is nil until Done is called.
	derived       context.Context
	cancelDerived context.CancelFunc
	canceled      bool
}

// Done implements context.Context.
func (c *lazy) Done() <-chan struct{} { return c.done(c.derive) }

func (c *lazy) done(derive func() (context.Context, context.CancelFunc)) <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.derived == nil {
		c.derived, c.cancelDerived = derive()
		if c.canceled {
			c.cancelDerived()
		}
	}
	return c.derived.Done()
}

// current returns the derived context; the parent if there is none.
func (c *lazy) current() (ctx context.Context, isDerived, canceled bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.derived != nil {
		return c.derived, true, c.canceled
	}
	return c.Context, false, c.canceled
}

// Err implements context.Context.
func (c *lazy) Err() error {
	ctx, isDerived, canceled := c.current()
	if canceled && !isDerived {
		return context.Canceled
	}
	return ctx.Err()
}

// Value implements context.Context. Package context finds the derived context by it.
func (c *lazy) Value(key any) any {
	ctx, _, _ := c.current()
	return ctx.Value(key)
}

func (c *lazy) cancel() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.canceled = true
	if c.cancelDerived != nil {
		c.cancelDerived()
	}
}

// timed is a lazy context with a deadline.
type timed struct {
	lazy
	deadline time.Time
}

// Done implements context.Context.
func (c *timed) Done() <-chan struct{} {
	return c.done(func() (context.Context, context.CancelFunc) { return context.WithDeadline(c.Context, c.deadline) })
}

// Deadline implements context.Context.
func (c *timed) Deadline() (time.Time, bool) { return c.deadline, true }

// Err implements context.Context.
func (c *timed) Err() error {
	if err := c.lazy.Err(); err != nil {
		return err
	}
	if !time.Now().Before(c.deadline) {
		return context.DeadlineExceeded
	}
	return nil
}
