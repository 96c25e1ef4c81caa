package queue

// closedChannel is what those wait for who need not wait.
var closedChannel = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// completion wakes those who wait for jobs to end. The owner's lock guards it.
// The zero value has nobody waiting.
type completion struct {
	idle chan struct{}
	jobs map[string]*jobEnd
}

// jobEnd is the end of a job that somebody waits for.
type jobEnd struct {
	reached chan struct{}
	waiting int
}

// untilIdle returns a channel that is closed when nothing is left to do.
func (c *completion) untilIdle(idle bool) <-chan struct{} {
	if idle {
		return closedChannel
	}
	if c.idle == nil {
		c.idle = make(chan struct{})
	}
	return c.idle
}

// untilEnded returns a channel that is closed when a job ends, and a function
// that says, with the owner's lock, that the caller waits no longer.
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

// ended is called when a job ended for good.
func (c *completion) ended(id string, idle bool) {
	if end, ok := c.jobs[id]; ok {
		close(end.reached)
		delete(c.jobs, id)
	}
	if idle {
		c.reachedIdle()
	}
}

// reachedIdle is called when nothing is left to do.
func (c *completion) reachedIdle() {
	if c.idle != nil {
		close(c.idle)
		c.idle = nil
	}
}
