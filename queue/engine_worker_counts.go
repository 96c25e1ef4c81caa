package queue

// setWorkers sets the number of workers of a queue, now if it is open or else when it is
// opened.
func (e *engine) setWorkers(queue string, n int) error {
	e.mu.Lock()
	e.wantedWorkers[queue] = n
	e.workersSet++
	q := e.queues[queue]
	e.mu.Unlock()
	if q == nil {
		return nil
	}
	err := q.setWorkers(n)
	e.announcer.queuesChanged()
	return err
}

// timesWorkersSet returns the number of calls of setWorkers.
func (e *engine) timesWorkersSet() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.workersSet
}

// applyWorkerCounts resizes open queues to the operator's settings, and stores the
// settings for queues that are opened later. A queue without a setting gets its
// configured number. applyWorkerCounts does nothing if setWorkers was called since the
// settings were read; timesSet is the number of calls before that.
func (e *engine) applyWorkerCounts(wanted map[string]int, timesSet int) {
	e.mu.Lock()
	if e.workersSet != timesSet {
		e.mu.Unlock()
		return
	}
	e.wantedWorkers = wanted
	numbers := make(map[*driverQueue]int, len(e.queues))
	for name, q := range e.queues {
		numbers[q] = wanted[name]
	}
	e.mu.Unlock()
	for q, n := range numbers {
		if n != q.wantedWorkers() {
			e.report("could not change the number of workers", q.setWorkers(n))
		}
	}
}

// applyWorkerCount applies the operator's setting to a queue that has started.
func (e *engine) applyWorkerCount(q *driverQueue) {
	e.mu.Lock()
	n := e.wantedWorkers[q.name]
	e.mu.Unlock()
	e.report("could not change the number of workers", q.setWorkers(n))
}
