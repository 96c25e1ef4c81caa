package sqlite

import "fmt"

// A change may concern any number of records: all that depend on a job that ended, and
// all groups that wait for a scope that was freed. A transaction deals with some of them,
// and notes in the table leftovers that there are more. Claims go on with them, whichever
// process makes them, a part in each transaction.
const (
	// settleAtOnce is the number of groups of waiting records, at most, that are
	// examined at once because a scope was freed.
	settleAtOnce = 16
	// tellAtOnce is the number of edges, at most, that one transaction ends.
	tellAtOnce = 256
)

// freeScopeLeft is the kind of the leftovers that are scopes. The other kinds are the
// states of edges: then the name is that of a job that ended.
const freeScopeLeft = openState

// goOn deals with a part of what is left. It reports whether there is more.
func (c *changes) goOn() (more bool, err error) {
	c.examined = 0
	for c.examined < settleAtOnce && c.told < tellAtOnce {
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

// leaveScopes leaves free scopes for later.
func (c *changes) leaveScopes(queue int64, scopes []string) error {
	for _, scope := range scopes {
		if _, err := c.exec(leave, queue, freeScopeLeft, scope); err != nil {
			return fmt.Errorf("noting that scope %q is to be promised: %w", scope, err)
		}
	}
	return nil
}

// leaveEdges leaves the rest of the edges to a job for later, that are to be in a state.
func (c *changes) leaveEdges(queue int64, job string, state int) error {
	if _, err := c.exec(leave, queue, state, job); err != nil {
		return fmt.Errorf("noting that the end of job %q is to be told: %w", job, err)
	}
	return nil
}

// isTelling reports whether some of those that depend on a job that ended have not been
// told yet. No other job may have its ID until then.
func (c *changes) isTelling(queue int64, id string) (bool, error) {
	return c.one(isTelling, func(*row) {}, queue, id)
}
