package queue

import (
	"context"
	"fmt"
	"sync"

	"github.com/mongodb/grip/message"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/logging"
)

// workerCount is the number of workers that somebody wants a queue to have.
type workerCount struct {
	mu sync.Mutex
	// wanted is 0 where it is to have those with which it was configured.
	wanted int
	// configured is that number while it has others, and else 0.
	configured int
}

// setWorkers lets a queue have a number of workers, from when it starts; 0 stands for
// that with which it was configured. A runner whose number can't change is let be.
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

// obeyAtStart does what was asked for before the queue has started.
func (l *lifecycle) obeyAtStart(ctx context.Context) {
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

// wantedWorkers is what setWorkers was last called with.
func (l *lifecycle) wantedWorkers() int {
	c := &l.workerCount
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.wanted
}

// numWorkers is the number of workers; 0 where the runner does not tell.
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

// setWorkers lets a queue have a number of workers, also when it is opened later.
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

// timesWorkersSet counts the calls of setWorkers.
func (e *engine) timesWorkersSet() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.workersSet
}

// obey lets the open queues have the numbers of workers that somebody wants, and those
// that are opened later; others have what they were configured with. It does nothing
// where somebody has set another here since the numbers were read, when it had been
// done so many times.
func (e *engine) obey(wanted map[string]int, timesSet int) {
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

// obeyFor does so for a queue that has started.
func (e *engine) obeyFor(q *driverQueue) {
	e.mu.Lock()
	n := e.wantedWorkers[q.name]
	e.mu.Unlock()
	e.report("could not change the number of workers", q.setWorkers(n))
}
