package queue

import "github.com/mongodb/amboy"

// OpenQueues is implemented by the groups of this package, which know more queues
// than they have open, for instance those that have work in a store.
type OpenQueues interface {
	amboy.QueueGroup

	// OpenQueues returns the queues that this process has open, by name. Unlike
	// Get it opens none, and is no use of a queue that would keep it from being
	// pruned. It does not block.
	OpenQueues() map[string]amboy.Queue
}

// OpenQueues returns the queues that are open, by name.
func (g *queueGroup) OpenQueues() map[string]amboy.Queue { return g.cache.(*groupCache).open() }

func (c *groupCache) open() map[string]amboy.Queue {
	c.mu.Lock()
	defer c.mu.Unlock()
	open := make(map[string]amboy.Queue, len(c.queues))
	for name, cached := range c.queues {
		open[name] = cached.Queue
	}
	return open
}
