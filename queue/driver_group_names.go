package queue

import (
	"context"
	"fmt"
	"time"

	"github.com/mongodb/amboy/internal/contain"
	"github.com/mongodb/amboy/internal/presence"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/internal/engine"
	"github.com/mongodb/amboy/queue/internal/notes"
)

// namesAtOnce is the maximum number of names that one call of a driver drops.
const namesAtOnce = 1000

// pruneNames drops from the store the names of queues that are not open here, have no jobs
// and no settings, and were not used within the TTL.
func (g *driverGroup) pruneNames(ctx context.Context) error {
	if g.ttl == 0 || !g.engine.Driver.Features().Prunes {
		return nil
	}
	req := driver.PruneRequest{Unused: g.engine.Now().Add(-g.ttl), Keep: g.engine.QueueNames(), Limit: namesAtOnce}
	err := notes.Each(ctx, g.engine.Driver, driver.NoteRequest{Kind: presence.WorkersKind}, func(note driver.Note) error {
		if name, _, err := presence.WorkersOf(note); err == nil { // another may be of a newer version
			req.Keep = append(req.Keep, name)
		}
		return nil
	})
	for pruned := req.Limit; err == nil && pruned == req.Limit; {
		pruned, err = g.dropNames(ctx, req)
	}
	if err != nil {
		return fmt.Errorf("pruning the names of a group: %w", err)
	}
	return nil
}

func (g *driverGroup) dropNames(ctx context.Context, req driver.PruneRequest) (pruned int, err error) {
	ctx, cancel := context.WithTimeout(ctx, engine.DriverTimeout)
	defer cancel()
	err = contain.Panic(func() (err error) {
		pruned, err = g.engine.Driver.Prune(ctx, req)
		return err
	})
	return pruned, err
}

// workedWithinTTL reports whether a job of an idle queue ended within the TTL.
func (g *driverGroup) workedWithinTTL(ctx context.Context, q driver.QueueInfo) (bool, error) {
	from := time.Now().Add(-g.ttl)
	if !q.Used.IsZero() {
		return q.Stats.Completed > 0 && !q.Used.Before(from), nil
	}
	n, err := g.engine.Driver.Count(ctx, driver.Query{Queues: []string{q.Name}, Ended: driver.TimeRange{From: from}}, 1)
	if err != nil {
		return false, fmt.Errorf("counting the finished jobs of queue %q: %w", q.Name, err)
	}
	return n > 0, nil
}
