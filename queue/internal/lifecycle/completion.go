package lifecycle

// closedChannel is an already closed channel, for callers that do not have to wait.
var closedChannel = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// Completion wakes callers that wait for jobs to end. The owner's lock guards it. The
// zero value has no waiters.
type Completion struct {
	idle chan struct{}
	Jobs map[string]*jobEnd
}

// jobEnd is the end of a job that at least one caller waits for.
type jobEnd struct {
	reached chan struct{}
	waiting int
}

// UntilIdle returns a channel that is closed when no work is left.
func (c *Completion) UntilIdle(idle bool) <-chan struct{} {
	if idle {
		return closedChannel
	}
	if c.idle == nil {
		c.idle = make(chan struct{})
	}
	return c.idle
}

// UntilEnded returns a channel that is closed when a job ends. The caller calls leave,
// under the owner's lock, when it stops waiting.
func (c *Completion) UntilEnded(id string) (ended <-chan struct{}, leave func()) {
	if c.Jobs == nil {
		c.Jobs = map[string]*jobEnd{}
	}
	end := c.Jobs[id]
	if end == nil {
		end = &jobEnd{reached: make(chan struct{})}
		c.Jobs[id] = end
	}
	end.waiting++
	return end.reached, func() {
		end.waiting--
		if end.waiting == 0 && c.Jobs[id] == end {
			delete(c.Jobs, id)
		}
	}
}

// Ended wakes the waiters of a job that ended for good, and if idle is true also the
// waiters for idleness.
func (c *Completion) Ended(id string, idle bool) {
	if end, ok := c.Jobs[id]; ok {
		close(end.reached)
		delete(c.Jobs, id)
	}
	if idle {
		c.ReachedIdle()
	}
}

// ReachedIdle wakes the callers that wait until no work is left.
func (c *Completion) ReachedIdle() {
	if c.idle != nil {
		close(c.idle)
		c.idle = nil
	}
}
