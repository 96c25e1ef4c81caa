package postgres

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/internal/table"
)

// A change may affect any number of records: all dependents of a job that ended, and all records
// that wait for a freed scope. A transaction handles some of them, and records in the table
// leftovers that there are more. The claims of any process continue the work.
const (
	// settleAtOnce is the maximum number of waiting records that are examined in one
	// transaction because scopes were freed. To move movedAtOnce records to the line of
	// another scope counts as moveCost of them.
	settleAtOnce = 16
	movedAtOnce  = 256
	moveCost     = 8
	// endEdgesAtOnce is the maximum number of edges that one transaction ends.
	endEdgesAtOnce = 128
	// leftoversTime is how long an action on jobs that have ended handles leftovers.
	leftoversTime = 5 * time.Second
	// turnsTime is how long a claim handles leftovers, and also due and expired records one by one.
	turnsTime = 50 * time.Millisecond
)

// freeScopeLeft is the kind of leftovers that are free scopes. The other kinds are the states of
// edges.
const freeScopeLeft = table.OpenEdge

// leave leaves a free scope, or edges to a job and their new state, for later transactions.
func (c *changes) leave(queue int32, kind int, name string, after int64) {
	c.exec(leave, queue, kind, name, after)
}

// settle handles leftovers, and reports whether there are more, and whether it left out a queue
// because that is locked.
func (d *Driver) settle(ctx context.Context) (more, leftOut bool, err error) {
	more, leftOut, err = d.byTurns(ctx, firstLeft, nil, func(queue int32) (locked bool, err error) {
		locked, err = d.transactUnlessLocked(ctx, queue, func(c *changes) error { return c.settle(queue) })
		if err == nil && !locked {
			d.changed(driver.Anywhere)
		}
		return locked, err
	})
	if err != nil {
		err = fmt.Errorf("finishing what an earlier transaction left: %w", err)
	}
	return more, leftOut, err
}

// settleAll handles all leftovers, except those of locked queues. If that takes long, as in a store that is so
// busy that there are always some, the rest is left to claims.
func (d *Driver) settleAll(ctx context.Context) error {
	for begun := time.Now(); ; {
		more, _, err := d.settle(ctx)
		if !more || err != nil || time.Since(begun) > leftoversTime {
			return err
		}
	}
}

// byTurns changes records of one queue after the other, a few in each transaction, until none is left or
// its time is over. The statement first finds the next queue; it takes the locked ones as its last argument.
func (d *Driver) byTurns(ctx context.Context, first statement, args []any, change func(queue int32) (locked bool, err error)) (more, leftOut bool, err error) {
	lockedQueues := []int32{}
	for begin := (time.Time{}); ; {
		var queue int32
		found := false
		err = d.readPlanned(ctx, first, func(r *row) error {
			queue, found = r.key(), true
			return nil
		}, append(slices.Clone(args), lockedQueues)...)
		if err != nil || !found {
			return false, leftOut, err
		}
		switch {
		case begin.IsZero():
			begin = time.Now()
		case time.Since(begin) >= turnsTime:
			return true, leftOut, nil
		}
		locked, err := change(queue)
		if err != nil {
			return false, leftOut, err
		}
		if locked {
			leftOut, lockedQueues = true, append(lockedQueues, queue)
		}
	}
}

// settle handles some leftovers of a queue.
func (c *changes) settle(queue int32) error {
	for c.examined < settleAtOnce && c.edgesEnded < endEdgesAtOnce {
		var kind int
		var name string
		var after int64
		found, err := c.one(nextLeft, func(r *row) { kind, name, after = r.int(), r.text(), r.integer() }, queue)
		switch {
		case err != nil || !found:
			return err
		case kind == freeScopeLeft:
			err = c.promoteKey(queue, name)
		default:
			err = c.endEdges(queue, name, kind, after)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// edgesLeft reports whether some edges to a job that ended are still open. Until they have ended, the job is neither
// restarted nor removed: no other job may have its ID, and the leftover is not visible to all statements that insert
// jobs. They may have begun before.
func (c *changes) edgesLeft(queue int32, id string) (bool, error) {
	return c.one(edgesLeft, func(*row) {}, queue, id)
}
