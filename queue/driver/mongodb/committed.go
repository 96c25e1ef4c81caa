package mongodb

import (
	"slices"
	"sync"
)

// committed holds the _ids of documents that callers' transactions put, whose edges are checked
// when they were committed.
type committed struct {
	mu  sync.Mutex
	ids []string
}

func (c *committed) add(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ids = append(c.ids, id)
}

// take returns the documents to check.
func (c *committed) take() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := min(len(c.ids), sweepBatch)
	ids := slices.Clone(c.ids[:n])
	c.ids = slices.Delete(c.ids, 0, n)
	return ids
}

// more reports whether there are further documents to check.
func (c *committed) more() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.ids) > 0
}

// clear is called when another process checks them.
func (c *committed) clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ids = nil
}
