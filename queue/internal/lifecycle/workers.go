package lifecycle

import (
	"context"
	"fmt"
	"sync"

	"github.com/mongodb/grip/message"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/contain"
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

// ApplyWorkers sets the number of workers of a queue, which takes effect once it is
// started. 0 restores the configured number. A runner that can't be resized is left
// unchanged.
func (l *Base) ApplyWorkers(n int) error {
	c := &l.workerCount
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wanted = n
	runner, ok := l.Runner().(amboy.ResizableRunner)
	if !ok || !l.IsStarted() || n == 0 && c.configured == 0 {
		return nil
	}
	err := contain.Panic(func() error { return c.resize(runner) })
	if err != nil && !l.IsStopped() {
		return fmt.Errorf("resizing the runner of queue %q: %w", l.id, err)
	}
	return nil
}

// applyWorkerCountAtStart applies the number of workers that was set before Start.
func (l *Base) applyWorkerCountAtStart(ctx context.Context) {
	if err := l.ApplyWorkers(l.WantedWorkers()); err != nil {
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

// WantedWorkers returns the number that ApplyWorkers was last called with.
func (l *Base) WantedWorkers() int {
	c := &l.workerCount
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.wanted
}

// NumWorkers returns the number of workers, or 0 if the runner does not report it.
func (l *Base) NumWorkers() (n int) {
	runner, ok := l.Runner().(amboy.ResizableRunner)
	if !ok {
		return 0
	}
	err := contain.Panic(func() error {
		n = runner.Workers()
		return nil
	})
	if err != nil {
		return 0
	}
	return n
}
