package sqlite

import (
	"slices"

	"github.com/mongodb/amboy/queue/driver/internal/table"
	"github.com/mongodb/amboy/queue/internal/scope"
)

// Records that need the same scopes wait together in a group: a scope that blocks the first
// of them blocks them all. So a group is in one line, that of the scope which blocks it, and
// is moved to another line as a whole, whatever the number of its records.
//
// For each group in the line of a scope, one of these is true: the scope has no room for the group's first
// record, besides its holders and the earlier records that it is promised to; it is not the line's first
// group; or the scope is among the leftovers or about to be promised by the current transaction.

// group names the group in which a job waits for scopes.
func (j *job) group() table.Names {
	return slices.Sorted(slices.Values(j.DispatchScopes()))
}

// rank decides which of two records runs first.
type rank struct {
	priority int
	seq      int64
}

func (r rank) before(other rank) bool {
	if r.priority != other.priority {
		return r.priority > other.priority
	}
	return r.seq < other.seq
}

// block makes a record wait for a scope, in its group.
func (c *changes) block(j *job, name string) error {
	group, err := j.group().Value()
	if err != nil {
		return err
	}
	j.waitingFor = group.(string)
	err = c.moveTo(j, table.ScopeBlocked, table.Instant{}, group)
	if err != nil {
		return err
	}
	// A scope that blocks a record may not block one that runs before it, so the group is in
	// the line of the scope that blocks its first record.
	key, _ := scope.Key(name)
	_, err = c.exec(joinGroup, j.queue, group, key, j.Priority, j.Seq)
	return err
}

// leaveGroup removes a record from its group.
func (c *changes) leaveGroup(j *job) error {
	group := j.waitingFor
	j.waitingFor = ""
	var key string
	wasFirst, err := c.one(leaveGroup, func(r *row) { key = r.text() }, j.queue, group, j.Seq)
	if err != nil || !wasFirst {
		return err
	}
	var next rank
	found, err := c.one(firstOfGroup, func(r *row) { next = rank{r.int(), r.integer()} }, j.queue, group)
	if err != nil || !found {
		return err
	}
	_, err = c.exec(setGroup, j.queue, group, key, next.priority, next.seq)
	return err
}

// firstOfLine returns the first group that waits for a key, and the rank of its first
// record; found is false if there is none.
func (c *changes) firstOfLine(queue int64, key string) (group string, first rank, found bool, err error) {
	found, err = c.one(firstOfLine, func(r *row) { group, first = r.text(), rank{r.int(), r.integer()} }, queue, key)
	return group, first, found, err
}
