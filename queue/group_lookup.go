package queue

import (
	"context"
	"fmt"
	"slices"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/driver"
)

// Lookup returns the queue of a group with that name, if it exists: it is open in this
// process, or the group's store knows it. Unlike Get it creates no queue, so the name may
// come from a request. A queue that only the store knows is opened, as by Get. Lookup blocks
// as Get does and is safe for concurrent use. It returns the errors of the store and of Get.
func Lookup(ctx context.Context, g amboy.QueueGroup, name string) (q amboy.Queue, exists bool, err error) {
	if own, ok := g.(interface {
		knows(ctx context.Context, name string) (bool, error)
	}); ok {
		exists, err = own.knows(ctx, name)
	} else {
		exists = slices.Contains(g.Queues(ctx), name)
	}
	if err == nil && exists {
		q, err = g.Get(ctx, name)
	}
	if err != nil {
		return nil, false, fmt.Errorf("looking up queue %q: %w", name, err)
	}
	return q, exists, nil
}

// knows reports whether the group has a queue with that name.
func (g *queueGroup) knows(ctx context.Context, name string) (bool, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := g.usableFor(ctx); err != nil {
		return false, err
	}
	return g.cache.has(name), nil
}

// knows also asks the store.
func (g *driverGroup) knows(ctx context.Context, name string) (bool, error) {
	open, err := g.queueGroup.knows(ctx, name)
	if open || err != nil || name == "" {
		return open, err
	}
	found, err := g.engine.Driver.Queues(ctx, driver.QueueRequest{From: name, Limit: 1})
	return len(found) > 0 && found[0].Name == name, err
}
