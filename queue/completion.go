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
	jobs map[string]chan struct{}
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

// untilEnded returns a channel that is closed when a job ends.
func (c *completion) untilEnded(id string, ended bool) <-chan struct{} {
	if ended {
		return closedChannel
	}
	if c.jobs == nil {
		c.jobs = map[string]chan struct{}{}
	}
	if c.jobs[id] == nil {
		c.jobs[id] = make(chan struct{})
	}
	return c.jobs[id]
}

// ended is called when a job ended for good.
func (c *completion) ended(id string, idle bool) {
	if done, ok := c.jobs[id]; ok {
		close(done)
		delete(c.jobs, id)
	}
	if idle && c.idle != nil {
		close(c.idle)
		c.idle = nil
	}
}
