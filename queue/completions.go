package queue

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/mongodb/grip/message"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/logging"
	"github.com/mongodb/amboy/queue/driver"
)

// completions writes that attempts ended. Where a store takes its time, it writes
// those of several workers in one call: they gather until a worker claims, so that
// the store can do both at once, or else for gatherTime.
type completions struct {
	driver driver.Driver
	// gathers is false for a store that is so fast that each is written alone.
	gathers bool
	timer   wakeTimer
	writes  sync.WaitGroup

	mu      sync.Mutex
	waiting []*completionCall
	writing bool
	closed  bool // each is written alone
}

// gatherTime is the longest that workers wait for others, so that one call of the
// driver is made for all of them.
const gatherTime = 300 * time.Microsecond

// completionCall is a completion until it is written, or given up.
type completionCall struct {
	ctx        context.Context
	completion driver.Completion
	then       func(error) // called with err before done is closed
	err        error
	done       chan struct{}
}

func newCompletions(d driver.Driver, gathers bool) *completions {
	c := &completions{driver: d, gathers: gathers}
	c.timer.fire = c.flush
	return c
}

// close waits until all that was asked for is written, or given up.
func (c *completions) close() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.timer.stop()
	c.flush()
	c.writes.Wait()
}

// The waits between tries to write: each is twice the one before.
const (
	firstCompletionRetry = 50 * time.Millisecond
	lastCompletionRetry  = 5 * time.Second
)

// storeError is an error of the store, and not of the completion.
type storeError struct{ error }

func (e *storeError) Unwrap() error { return e.error }

// write writes the end of an attempt. As long as the store does not take it, it
// is tried again until ctx ends: a job that ran must not run again because a disk
// was full for a moment.
func (c *completions) write(ctx context.Context, completion driver.Completion) error {
	return c.goOn(ctx, completion, c.once(ctx, completion))
}

// goOn is write after a first try, and its result.
func (c *completions) goOn(ctx context.Context, completion driver.Completion, err error) error {
	for pause := firstCompletionRetry; ; pause = min(2*pause, lastCompletionRetry) {
		var failure *storeError
		if !errors.As(err, &failure) || errors.Is(err, driver.ErrClosed) || ctx.Err() != nil {
			return err
		}
		if pause == firstCompletionRetry {
			logging.Error(ctx, message.Fields{
				"message": "could not write that a job ended; trying again until the store takes it",
				"record":  completion.Lease.Name,
				"error":   err.Error(),
			})
		}
		if !pauseFor(ctx, pause) {
			return err
		}
		err = c.once(ctx, completion)
		if errors.Is(err, amboy.ErrLeaseLost) && c.isWritten(ctx, completion) {
			return nil
		}
	}
}

// isWritten tells whether a completion was written by a try that seemed to fail.
func (c *completions) isWritten(ctx context.Context, completion driver.Completion) bool {
	lease := completion.Lease
	var r *driver.Record
	err := errorOfPanic(func() (err error) {
		r, err = c.driver.Get(ctx, lease.Queue, completion.Record.JobID())
		return err
	})
	if err != nil {
		return false
	}
	if completion.Record.RetryInfo.ShouldRetry() {
		// It awaits the retry still, or has been replaced.
		return r.Name != lease.Name || (r.Status.Completed && r.Status.ModificationCount == lease.Count)
	}
	return r.Status.Completed && driver.LeaseOf(r) == lease
}

// pauseFor waits. It returns false when ctx ends first.
func pauseFor(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// once writes the end of an attempt, with those of others.
func (c *completions) once(ctx context.Context, completion driver.Completion) error {
	call := &completionCall{ctx: ctx, completion: completion, done: make(chan struct{})}
	if !c.join(call) {
		c.writeAll(ctx, []*completionCall{call})
		return call.err
	}
	select {
	case <-call.done:
	case <-ctx.Done():
		if c.leave(call) {
			return ctx.Err()
		}
		<-call.done
	}
	return call.err
}

// writeLater is write for a caller that goes on, where the store takes its time. It
// calls then with the result, and returns a function that waits for that.
func (c *completions) writeLater(ctx context.Context, completion driver.Completion, then func(error)) (wait func()) {
	call := &completionCall{ctx: ctx, completion: completion, then: then, done: make(chan struct{})}
	if !c.join(call) {
		then(c.write(ctx, completion))
		return func() {}
	}
	return func() { <-call.done }
}

// join makes a call wait for others; false where it is to be written alone.
func (c *completions) join(call *completionCall) bool {
	if !c.gathers {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return false
	}
	c.waiting = append(c.waiting, call)
	if len(c.waiting) == 1 {
		c.timer.set(time.Now().Add(gatherTime))
	}
	return true
}

// leave takes a call out that waits; false where it is being written.
func (c *completions) leave(call *completionCall) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, waiting := range c.waiting {
		if waiting == call {
			c.waiting = append(c.waiting[:i:i], c.waiting[i+1:]...)
			return true
		}
	}
	return false
}

// flush begins to write all that wait, and does not wait for that. While a call is
// under way, others gather for the next.
//
//nolint:contextcheck // Who makes it write is not who wants it.
func (c *completions) flush() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.writing || len(c.waiting) == 0 {
		return
	}
	calls := c.waiting
	c.waiting, c.writing = nil, true
	c.timer.clear()
	c.writes.Go(func() {
		c.writeAll(calls[0].ctx, calls)
		for _, call := range calls {
			c.tell(call)
		}
		c.mu.Lock()
		c.writing = false
		c.mu.Unlock()
		c.flush()
	})
}

// tell tells a caller how its call ended. For one that is not there any more it
// sees to further tries.
func (c *completions) tell(call *completionCall) {
	var failure *storeError
	switch {
	case call.then == nil:
		close(call.done)
	case errors.As(call.err, &failure):
		c.writes.Go(func() { call.end(c.goOn(call.ctx, call.completion, call.err)) })
	default:
		call.end(call.err)
	}
}

func (call *completionCall) end(err error) {
	call.then(err)
	close(call.done)
}

// writeAll sets the error of each call. Where the driver panics, each is written
// alone, so that the one that makes it do so is the only one that fails.
func (c *completions) writeAll(ctx context.Context, calls []*completionCall) {
	errs, err := c.complete(ctx, calls)
	var panicked *amboy.PanicError
	switch {
	case errors.As(err, &panicked) && len(calls) > 1:
		for i := range calls {
			c.writeAll(ctx, calls[i:i+1])
		}
		return
	case err != nil && panicked == nil:
		err = &storeError{err}
	}
	for i, call := range calls {
		call.err = err
		if err == nil {
			call.err = errs[i]
		}
	}
}

// complete calls the driver. What several wait for does not end with the context of
// one, but after a time of its own.
func (c *completions) complete(ctx context.Context, calls []*completionCall) (errs []error, err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), driverTimeout)
	defer cancel()
	batch := make([]driver.Completion, len(calls))
	for i, call := range calls {
		batch[i] = call.completion
	}
	err = errorOfPanic(func() (err error) {
		errs, err = c.driver.Complete(ctx, batch)
		return err
	})
	return errs, err
}
