package engine

// SetWorkers sets the number of workers of a queue, now if it is open or else when it is
// opened.
func (e *Engine) SetWorkers(queue string, n int) error {
	e.mu.Lock()
	e.wantedWorkers[queue] = n
	e.workersSet++
	q := e.queues[queue]
	e.mu.Unlock()
	if q == nil {
		return nil
	}
	err := q.ApplyWorkers(n)
	e.Announcer.queuesChanged()
	return err
}

// timesWorkersSet returns the number of calls of SetWorkers.
func (e *Engine) timesWorkersSet() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.workersSet
}

// applyWorkerCounts resizes open queues to the operator's settings, and stores the
// settings for queues that are opened later. A queue without a setting gets its
// configured number. applyWorkerCounts does nothing if SetWorkers was called since the
// settings were read; timesSet is the number of calls before that.
func (e *Engine) applyWorkerCounts(wanted map[string]int, timesSet int) {
	e.mu.Lock()
	if e.workersSet != timesSet {
		e.mu.Unlock()
		return
	}
	e.wantedWorkers = wanted
	numbers := make(map[*Queue]int, len(e.queues))
	for name, q := range e.queues {
		numbers[q] = wanted[name]
	}
	e.mu.Unlock()
	for q, n := range numbers {
		if n != q.WantedWorkers() {
			e.Report("could not change the number of workers", q.ApplyWorkers(n))
		}
	}
}

// applyWorkerCount applies the operator's setting to a queue that has started.
func (e *Engine) applyWorkerCount(q *Queue) {
	e.mu.Lock()
	n := e.wantedWorkers[q.Name]
	e.mu.Unlock()
	e.Report("could not change the number of workers", q.ApplyWorkers(n))
}
