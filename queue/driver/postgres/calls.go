package postgres

import "sync"

// calls counts the calls that are under way, so that Close can wait for them.
type calls struct {
	mu     sync.Mutex
	n      int
	closed bool
	idle   chan struct{} // closed when closed is true and n is 0
}

func newCalls() *calls { return &calls{idle: make(chan struct{})} }

// enter begins a call. It returns false after close.
func (c *calls) enter() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return false
	}
	c.n++
	return true
}

// fork counts one more call, of a goroutine that a call under way starts.
func (c *calls) fork() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n++
}

func (c *calls) leave() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n--
	if c.closed && c.n == 0 {
		close(c.idle)
	}
}

// close refuses new calls. It returns a channel that is closed when no call is under way. It
// must be called once.
func (c *calls) close() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	if c.n == 0 {
		close(c.idle)
	}
	return c.idle
}

func (c *calls) isClosed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.closed
}
