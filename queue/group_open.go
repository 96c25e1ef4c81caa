package queue

import "github.com/mongodb/amboy"

// OpenQueues is implemented by the groups of this package. A group may know more queues
// than it has open, for instance queues with work in a store.
type OpenQueues interface {
	amboy.QueueGroup

	// OpenQueues returns the queues that are open in this process, by name. Unlike Get it
	// opens no queue, and does not count as a use that keeps a queue from being pruned.
	// It does not block.
	OpenQueues() map[string]amboy.Queue
}

// OpenQueues returns the queues that are open, by name.
func (g *queueGroup) OpenQueues() map[string]amboy.Queue { return g.cache.open() }

func (c *groupCache) open() map[string]amboy.Queue {
	c.mu.Lock()
	defer c.mu.Unlock()
	open := make(map[string]amboy.Queue, len(c.queues))
	for name, cached := range c.queues {
		open[name] = cached.Queue
	}
	return open
}
