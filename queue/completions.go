package queue

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"time"

	"github.com/mongodb/grip/message"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/logging"
	"github.com/mongodb/amboy/queue/driver"
)

// completions writes that attempts ended, those of several workers in one call:
// while one call is under way, others gather for the next. At most two of each
// worker wait, which bounds them.
type completions struct {
	driver driver.Driver
	tasks  sync.WaitGroup

	mu      sync.Mutex
	waiting []*completionCall
	writing bool
	// last is how many the call before had.
	last int
}

type completionCall struct {
	ctx        context.Context
	completion driver.Completion
	err        error
	// told is sent true where the caller is to write, and false when err is set;
	// nil where the caller does not wait, and then is called.
	told chan bool
	then func(error)
	done chan struct{} // closed when then has been called
}

func newCompletions(d driver.Driver) *completions { return &completions{driver: d} }

// wait waits until all that was asked for is written, or given up.
func (c *completions) wait() { c.tasks.Wait() }

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
	pause := firstCompletionRetry
	for tries := 1; ; tries++ {
		err := c.once(ctx, completion)
		if tries > 1 && errors.Is(err, amboy.ErrLeaseLost) && c.isWritten(ctx, completion) {
			return nil
		}
		var failure *storeError
		if !errors.As(err, &failure) || errors.Is(err, driver.ErrClosed) || ctx.Err() != nil {
			return err
		}
		if tries == 1 {
			logging.Error(ctx, message.Fields{
				"message": "could not write that a job ended; trying again until the store takes it",
				"record":  completion.Lease.Name,
				"error":   err.Error(),
			})
		}
		if !pauseFor(ctx, pause) {
			return err
		}
		pause = min(2*pause, lastCompletionRetry)
	}
}

// isWritten tells whether a completion was written by a try that seemed to fail.
func (c *completions) isWritten(ctx context.Context, completion driver.Completion) bool {
	lease := completion.Lease
	r, err := c.driver.Get(ctx, lease.Queue, completion.Record.JobID())
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

// writeLater is write for a caller that goes on. It calls then with the result, and
// returns a function that waits for that.
func (c *completions) writeLater(ctx context.Context, completion driver.Completion, then func(error)) (wait func()) {
	call := &completionCall{ctx: ctx, completion: completion, then: then, done: make(chan struct{})}
	if c.join(call) {
		c.tasks.Go(c.lead)
	}
	return func() { <-call.done }
}

// join makes a call wait. It returns true where nobody writes, so that the caller
// must.
func (c *completions) join(call *completionCall) (leads bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waiting = append(c.waiting, call)
	leads = !c.writing
	c.writing = true
	return leads
}

// once writes the end of an attempt, with those of others.
func (c *completions) once(ctx context.Context, completion driver.Completion) error {
	call := &completionCall{ctx: ctx, completion: completion, told: make(chan bool, 1)}
	leads := c.join(call)
	if !leads {
		select {
		case leads = <-call.told:
		case <-ctx.Done():
			var left bool
			leads, left = c.leave(call)
			if left {
				return ctx.Err()
			}
		}
	}
	if leads {
		c.flush()
		c.handOver()
	}
	return call.err
}

// lead writes for all until nobody waits.
func (c *completions) lead() {
	for {
		c.flush()
		c.mu.Lock()
		if len(c.waiting) == 0 {
			c.writing = false
			c.mu.Unlock()
			return
		}
		c.mu.Unlock()
	}
}

// handOver lets another write, where somebody waits.
func (c *completions) handOver() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, call := range c.waiting {
		if call.told != nil {
			call.told <- true // it has room for one, which nobody else sends
			return
		}
	}
	if len(c.waiting) > 0 {
		c.tasks.Go(c.lead)
		return
	}
	c.writing = false
}

// leave takes a call out that waits for its turn. Where it is too late for that,
// it waits until the call is told.
func (c *completions) leave(call *completionCall) (leads, left bool) {
	c.mu.Lock()
	for i, waiting := range c.waiting {
		if waiting == call && len(call.told) == 0 {
			c.waiting = append(c.waiting[:i:i], c.waiting[i+1:]...)
			c.mu.Unlock()
			return false, true
		}
	}
	c.mu.Unlock()
	return <-call.told, false
}

// flush writes for all that wait, and tells them.
func (c *completions) flush() {
	c.mu.Lock()
	for i := 0; i < gatherYields && len(c.waiting) < c.last; i++ {
		c.mu.Unlock()
		runtime.Gosched()
		c.mu.Lock()
	}
	calls := c.waiting
	c.waiting = nil
	c.last = len(calls)
	c.mu.Unlock()

	c.writeAll(calls)
	for _, call := range calls {
		c.tell(call)
	}
}

// tell tells a caller how its call ended.
func (c *completions) tell(call *completionCall) {
	var failure *storeError
	switch {
	case call.then == nil:
		if len(call.told) == 0 { // it is not the one that writes, and was told so
			call.told <- false
		}
	case errors.As(call.err, &failure):
		c.tasks.Go(func() { call.end(c.write(call.ctx, call.completion)) })
	default:
		call.end(call.err)
	}
}

func (call *completionCall) end(err error) {
	call.then(err)
	close(call.done)
}

// writeAll sets the error of each call. What several wait for does not end with
// the context of one, but after a time of its own.
func (c *completions) writeAll(calls []*completionCall) {
	if len(calls) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(calls[0].ctx), driverTimeout)
	defer cancel()
	batch := make([]driver.Completion, len(calls))
	for i, call := range calls {
		batch[i] = call.completion
	}
	var errs []error
	err := errorOfPanic(func() (err error) {
		errs, err = c.driver.Complete(ctx, batch)
		return err
	})
	var panicked *amboy.PanicError
	for i, call := range calls {
		switch {
		case errors.As(err, &panicked):
			call.err = err
		case err != nil:
			call.err = &storeError{err}
		default:
			call.err = errs[i]
		}
	}
}
