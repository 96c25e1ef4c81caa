package sqlite

import (
	"context"
	"fmt"
	"time"

	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/internal/table"
)

// A change may affect any number of records: all dependents of a job that ended, and all
// groups that wait for a freed scope. A transaction handles some of them, and records in the
// table leftovers that there are more. The claims of any process continue the work, a part
// in each transaction.
const (
	// settleAtOnce is the maximum number of groups of waiting records that are examined in
	// one transaction because a scope was freed.
	settleAtOnce = 16
	// endEdgesAtOnce is the maximum number of edges that one transaction ends.
	endEdgesAtOnce = 256
	// leftoversTime is how long an action on jobs that have ended handles leftovers.
	leftoversTime = 5 * time.Second
)

// freeScopeLeft is the kind of a leftover that is a free scope. The kind of any other is the new
// state of the edges to an ended job, and its name is the ID of that job.
const freeScopeLeft = table.OpenEdge

// endEdgesLeft ends all edges that are left, a part in each transaction. If that takes long, as in a file in which
// jobs with many dependents end all the time, the rest is left to claims. It handles no free scopes: one with a damaged
// record would come back for ever.
func (d *Driver) endEdgesLeft(ctx context.Context) error {
	for begun := time.Now(); ; {
		found := false
		err := d.reads.query(ctx, statementTexts[anyLeftOfEdges], func(*row) error {
			found = true
			return nil
		})
		if err == nil && found {
			err = d.writer.write(ctx, &change{news: driver.Anywhere, size: endEdgesAtOnce, run: (*changes).endSomeEdgesLeft})
		}
		if err != nil || !found || time.Since(begun) > leftoversTime {
			return err
		}
	}
}

// endSomeEdgesLeft ends edges to one job.
func (c *changes) endSomeEdgesLeft() error {
	var queue int64
	var kind int
	var name string
	found, err := c.one(takeLeftOfEdges, func(r *row) { queue, kind, name = r.integer(), r.int(), r.text() })
	if err != nil || !found {
		return err
	}
	return c.endEdges(queue, name, kind)
}

// settleLeftovers handles a part of the leftovers. It reports whether there are more.
func (c *changes) settleLeftovers() (more bool, err error) {
	c.examined = 0
	for c.examined < settleAtOnce && c.edgesEnded < endEdgesAtOnce {
		var queue int64
		var kind int
		var name string
		found, err := c.one(takeLeft, func(r *row) { queue, kind, name = r.integer(), r.int(), r.text() })
		switch {
		case err != nil:
			return false, fmt.Errorf("taking what was left by a transaction: %w", err)
		case !found:
			return false, nil
		case kind == freeScopeLeft:
			err = c.promote(queue, []string{name})
		default:
			err = c.endEdges(queue, name, kind)
		}
		if err != nil {
			return false, err
		}
	}
	return c.one(anyLeft, func(*row) {})
}

// leaveScopes leaves free scopes for later transactions.
func (c *changes) leaveScopes(queue int64, scopes []string) error {
	for _, scope := range scopes {
		if _, err := c.exec(leave, queue, freeScopeLeft, scope); err != nil {
			return fmt.Errorf("recording that scope %q is free: %w", scope, err)
		}
	}
	return nil
}

// leaveEdges leaves the remaining edges to a job, and their new state, for later transactions.
func (c *changes) leaveEdges(queue int64, job string, state int) error {
	if _, err := c.exec(leave, queue, state, job); err != nil {
		return fmt.Errorf("recording that dependents of job %q are to be updated: %w", job, err)
	}
	return nil
}

// anyEdgesLeft reports whether some edges to a job that ended are still open. Until they are
// ended, no other job may have its ID.
func (c *changes) anyEdgesLeft(queue int64, id string) (bool, error) {
	return c.one(anyEdgesLeft, func(*row) {}, queue, id)
}
