package queue

// closedChannel is an already closed channel, for callers that do not have to wait.
var closedChannel = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// completion wakes callers that wait for jobs to end. The owner's lock guards it. The
// zero value has no waiters.
type completion struct {
	idle chan struct{}
	jobs map[string]*jobEnd
}

// jobEnd is the end of a job that at least one caller waits for.
type jobEnd struct {
	reached chan struct{}
	waiting int
}

// untilIdle returns a channel that is closed when no work is left.
func (c *completion) untilIdle(idle bool) <-chan struct{} {
	if idle {
		return closedChannel
	}
	if c.idle == nil {
		c.idle = make(chan struct{})
	}
	return c.idle
}

// untilEnded returns a channel that is closed when a job ends. The caller calls leave,
// under the owner's lock, when it stops waiting.
func (c *completion) untilEnded(id string) (ended <-chan struct{}, leave func()) {
	if c.jobs == nil {
		c.jobs = map[string]*jobEnd{}
	}
	end := c.jobs[id]
	if end == nil {
		end = &jobEnd{reached: make(chan struct{})}
		c.jobs[id] = end
	}
	end.waiting++
	return end.reached, func() {
		end.waiting--
		if end.waiting == 0 && c.jobs[id] == end {
			delete(c.jobs, id)
		}
	}
}

// ended wakes the waiters of a job that ended for good, and if idle is true also the
// waiters for idleness.
func (c *completion) ended(id string, idle bool) {
	if end, ok := c.jobs[id]; ok {
		close(end.reached)
		delete(c.jobs, id)
	}
	if idle {
		c.reachedIdle()
	}
}

// reachedIdle wakes the callers that wait until no work is left.
func (c *completion) reachedIdle() {
	if c.idle != nil {
		close(c.idle)
		c.idle = nil
	}
}
