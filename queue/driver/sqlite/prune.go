package sqlite

import (
	"context"
	"fmt"

	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/internal/table"
)

// pruneAtOnce is the maximum number of queues that are dropped in one transaction, so that
// other callers do not wait long.
const pruneAtOnce = 1000

// isEmpty is the condition of the index queues_empty: the queue has no records, and no
// settings but a rate and limits of types.
const isEmpty = `waiting + scheduled + postponed + scope_blocked + ready + parked + running + retrying + finished = 0
	AND paused + draining + max_running = 0`

const readEmptyQueues = `SELECT id, name FROM queues INDEXED BY queues_empty WHERE ` + isEmpty + ` AND rate IS NULL AND type_limits IS NULL AND used < ? ORDER BY used LIMIT ? + 0`

// Prune implements driver.Driver. It drops 1,000 names at a time. If it fails after some
// were dropped, it returns their number with the error. A call that finds nothing does not
// block writers.
func (d *Driver) Prune(ctx context.Context, req driver.PruneRequest) (int, error) {
	pruned, err := d.prune(ctx, req)
	if err != nil {
		return pruned, fmt.Errorf("dropping the names of unused queues: %w", err)
	}
	return pruned, nil
}

func (d *Driver) prune(ctx context.Context, req driver.PruneRequest) (pruned int, err error) {
	err = req.Validate()
	if err != nil {
		return 0, err
	}
	unused, err := d.emptyQueues(ctx, req)
	for err == nil && len(unused) > 0 {
		some := unused[:min(len(unused), pruneAtOnce)]
		unused = unused[len(some):]
		var n int
		err = d.writer.write(ctx, &change{size: len(some), run: func(c *changes) (err error) {
			n, err = c.prune(some, table.InstantOf(req.Unused))
			return err
		}})
		if err == nil {
			pruned += n
		}
	}
	return pruned, err
}

// emptyQueues returns the keys of queues that a request selects.
func (d *Driver) emptyQueues(ctx context.Context, req driver.PruneRequest) (found []int64, err error) {
	kept := make(map[string]bool, len(req.Keep))
	for _, name := range req.Keep {
		kept[name] = true
	}
	err = d.reads.query(ctx, readEmptyQueues, func(r *row) error {
		if key, name := r.integer(), r.text(); !kept[name] && len(found) < req.Limit {
			found = append(found, key)
		}
		return nil
	}, table.InstantOf(req.Unused), req.Limit+len(kept))
	return found, err
}

// prune drops queues, unless they have been used since they were read.
func (c *changes) prune(some []int64, unused table.Instant) (pruned int, err error) {
	err = c.flush()
	if err != nil {
		return 0, err
	}
	for _, key := range some {
		var n int64
		n, err = c.exec(dropQueue, key, unused)
		if err != nil {
			return 0, err
		}
		pruned += int(n)
	}
	if pruned == 0 {
		return 0, nil
	}
	c.forgetKeys()
	_, err = c.exec(countPruning)
	return pruned, err
}

// forgetKeys makes the transaction, and later ones, find the keys of queues again.
func (c *changes) forgetKeys() {
	c.keys, c.keysEnded = nil, true
	clear(c.controls)
	clear(c.found)
}
