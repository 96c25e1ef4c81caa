package queue

import (
	"context"
	"fmt"
	"sync"

	"github.com/mongodb/grip/message"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/logging"
)

// workerCount is the number of workers that an operator has set for a queue.
type workerCount struct {
	mu sync.Mutex
	// wanted is the number that was set; 0 means the configured number.
	wanted int
	// configured is the configured number while another is in effect, and otherwise 0.
	configured int
}

// setWorkers sets the number of workers of a queue, which takes effect once it is
// started. 0 restores the configured number. A runner that can't be resized is left
// unchanged.
func (l *lifecycle) setWorkers(n int) error {
	c := &l.workerCount
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wanted = n
	runner, ok := l.Runner().(amboy.ResizableRunner)
	if !ok || !l.isStarted() || n == 0 && c.configured == 0 {
		return nil
	}
	err := errorOfPanic(func() error { return c.resize(runner) })
	if err != nil && !l.isStopped() {
		return fmt.Errorf("resizing the runner of queue %q: %w", l.id, err)
	}
	return nil
}

// applyWorkerCountAtStart applies the number of workers that was set before Start.
func (l *lifecycle) applyWorkerCountAtStart(ctx context.Context) {
	if err := l.setWorkers(l.wantedWorkers()); err != nil {
		logging.Error(ctx, message.Fields{
			"message": "could not change the number of workers",
			"queue":   l.id,
			"error":   err.Error(),
		})
	}
}

func (c *workerCount) resize(runner amboy.ResizableRunner) error {
	now := runner.Workers()
	if c.configured == 0 {
		c.configured = now
	}
	size := c.wanted
	if size == 0 {
		size = c.configured
	}
	if size != now {
		if err := runner.SetWorkers(size); err != nil {
			return err
		}
	}
	if c.wanted == 0 {
		c.configured = 0
	}
	return nil
}

// wantedWorkers returns the number that setWorkers was last called with.
func (l *lifecycle) wantedWorkers() int {
	c := &l.workerCount
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.wanted
}

// numWorkers returns the number of workers, or 0 if the runner does not report it.
func (l *lifecycle) numWorkers() (n int) {
	runner, ok := l.Runner().(amboy.ResizableRunner)
	if !ok {
		return 0
	}
	err := errorOfPanic(func() error {
		n = runner.Workers()
		return nil
	})
	if err != nil {
		return 0
	}
	return n
}

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
