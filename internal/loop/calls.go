package loop

import (
	"sync"
	"time"
)

// CallTime limits a call of a store by a loop that puts jobs on schedules. Without it, a call that
// gets no answer, for instance after a network partition, would stop the loop for good. It is short
// enough for a second try before a tick counts as missed.
const CallTime = 10 * time.Second

// patience is how long a call may take before it no longer holds up others.
const patience = 2 * time.Second

// Calls counts the calls that ForEach has begun. It is safe for concurrent use. The zero Calls is
// empty.
type Calls struct {
	mu      sync.Mutex
	running map[string]chan struct{} // by key; closed when the call has returned
}

// ForEach makes a call for each item, several at once. It returns when all have returned, except
// for calls that take long: these continue by themselves, so that a stuck item does not delay
// the others. An item is left out while an earlier call for its key continues.
func ForEach[T any](c *Calls, atOnce int, items []T, key func(T) string, call func(T)) {
	waiting := make(chan T)
	var workers sync.WaitGroup
	for range min(atOnce, len(items)) {
		workers.Go(func() {
			for item := range waiting {
				c.begin(key(item), func() { call(item) })
			}
		})
	}
	for _, item := range items {
		waiting <- item
	}
	close(waiting)
	workers.Wait()
}

// begin makes a call, unless one for the key is under way. It returns early if the call takes long.
func (c *Calls) begin(key string, call func()) {
	c.mu.Lock()
	if c.running[key] != nil {
		c.mu.Unlock()
		return
	}
	if c.running == nil {
		c.running = map[string]chan struct{}{}
	}
	done := make(chan struct{})
	c.running[key] = done
	c.mu.Unlock()
	go func() {
		defer c.end(key)
		call()
	}()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	}
}

func (c *Calls) end(key string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	close(c.running[key])
	delete(c.running, key)
}

// Wait waits until no call is under way.
func (c *Calls) Wait() {
	for done := c.one(); done != nil; done = c.one() {
		<-done
	}
}

// one returns the channel of a call that is under way, or nil if there is none.
func (c *Calls) one() chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, done := range c.running {
		return done
	}
	return nil
}
