package sqlite

import (
	"fmt"

	"github.com/mongodb/amboy/queue/driver/internal/table"
)

// A scope is in one of three states: held by a job, promised to a ready record, or free
// with no record waiting for it. So every ready record can be claimed at once, and a claim
// never reads records that wait for a scope. A promise goes to the record that runs first,
// and is withdrawn when a record comes that runs before it.

// holder returns the ID of the job that holds a scope.
func (c *changes) holder(queue int64, name string) (id string, held bool, err error) {
	held, err = c.one(holderOf, func(r *row) { id = r.text() }, queue, name)
	return id, held, err
}

// promised returns the record that a scope is promised to; nil if there is none.
func (c *changes) promised(queue int64, name string) (*job, error) {
	var seq int64
	found, err := c.one(promiseOf, func(r *row) { seq = r.integer() }, queue, name)
	if err != nil || !found {
		return nil, err
	}
	return c.job(findSeq, seq)
}

// checkFree refuses a job if another job holds one of the scopes.
func (c *changes) checkFree(j *job, scopes []string) (refusal, err error) {
	for _, name := range scopes {
		holder, held, err := c.holder(j.queue, name)
		if err != nil {
			return nil, err
		}
		if held && holder != j.ID {
			return j.DuplicateScope(name, holder), nil
		}
	}
	return nil, nil
}

// take gives a job scopes that it is known to be able to take. Promises of these scopes are
// revoked.
func (c *changes) take(j *job, scopes []string) error {
	for _, name := range scopes {
		if _, err := c.exec(hold, j.queue, name, j.ID); err != nil {
			return err
		}
	}
	var freed []string
	for _, name := range scopes {
		others, err := c.revokePromise(j.queue, name)
		if err != nil {
			return err
		}
		freed = append(freed, others...)
	}
	return c.promote(j.queue, freed)
}

// free releases the given scopes if the job holds them.
func (c *changes) free(j *job, scopes []string) error {
	for _, name := range scopes {
		if _, err := c.exec(freeScope, j.queue, name, j.ID); err != nil {
			return err
		}
	}
	return c.promote(j.queue, scopes)
}

// fulfill gives a claimed record the scopes that it was promised.
func (c *changes) fulfill(j *job) error {
	for _, name := range j.DispatchScopes() {
		if _, err := c.exec(hold, j.queue, name, j.ID); err != nil {
			return err
		}
		if _, err := c.exec(dropPromise, j.queue, name); err != nil {
			return err
		}
	}
	return nil
}

// withdraw takes back the promises to a record that is no longer ready.
func (c *changes) withdraw(j *job) error {
	scopes := j.DispatchScopes()
	for _, name := range scopes {
		if _, err := c.exec(dropPromise, j.queue, name); err != nil {
			return err
		}
	}
	return c.promote(j.queue, scopes)
}

// revokePromise makes the record that a scope is promised to wait for that scope. It
// returns the other scopes that were promised to the record.
func (c *changes) revokePromise(queue int64, because string) (freed []string, err error) {
	worse, err := c.promised(queue, because)
	if err != nil || worse == nil {
		return nil, err
	}
	for _, name := range worse.DispatchScopes() {
		if _, err = c.exec(dropPromise, queue, name); err != nil {
			return nil, err
		}
		if name != because {
			freed = append(freed, name)
		}
	}
	return freed, c.block(worse, because)
}

// wait makes a record wait for its time, or admits it.
func (c *changes) wait(j *job, now int64) error {
	if j.FirstPlace(now) == table.Scheduled {
		return c.move(j, table.Scheduled, j.WaitUntil)
	}
	return c.admit(j)
}

// admit makes a record ready, or makes it wait for the scope that blocks it.
func (c *changes) admit(j *job) error {
	scope, blocked, err := c.obstacle(j)
	switch {
	case err != nil:
		return err
	case blocked:
		return c.block(j, scope)
	default:
		return c.makeReady(j)
	}
}

// obstacle returns the first scope that blocks a record.
func (c *changes) obstacle(j *job) (scope string, blocked bool, err error) {
	for _, scope = range j.DispatchScopes() {
		blocked, err = c.isObstacle(scope, j)
		if blocked || err != nil {
			return scope, blocked, err
		}
	}
	return "", false, nil
}

// makeReady makes a record ready and promises it its scopes, none of which blocks it.
func (c *changes) makeReady(j *job) error {
	scopes := j.DispatchScopes()
	var freed []string
	for _, name := range scopes {
		others, err := c.revokePromise(j.queue, name)
		if err != nil {
			return err
		}
		freed = append(freed, others...)
		if _, err = c.exec(promise, j.queue, name, j.Seq); err != nil {
			return err
		}
	}
	if err := c.move(j, table.Ready, table.Instant{}); err != nil {
		return err
	}
	return c.promote(j.queue, freed)
}

// isObstacle reports whether a scope blocks a record: another job holds it, or it is for a
// record that runs earlier.
func (c *changes) isObstacle(name string, j *job) (bool, error) {
	holder, held, err := c.holder(j.queue, name)
	if err != nil || (held && holder != j.ID) {
		return true, err
	}
	promised, err := c.promised(j.queue, name)
	if err != nil || promised != nil {
		return promised != nil && promised.Compare(&j.Job) < 0, err
	}
	_, first, found, err := c.firstOfLine(j.queue, name)
	return found && first.before(rank{j.Priority, j.Seq}), err
}

// promote gives free scopes to the first records that wait for them and need nothing else.
// If that requires examining many groups, the rest is left for later.
func (c *changes) promote(queue int64, scopes []string) error {
	c.freed = append(c.freed, scopes...)
	if c.promoting {
		return nil
	}
	c.promoting = true
	defer func() { c.promoting, c.freed = false, nil }()
	for left := settleAtOnce; len(c.freed) > 0; {
		last := len(c.freed) - 1
		scope := c.freed[last]
		group, first, waits, err := c.nextFor(queue, scope)
		switch {
		case err != nil:
			return err
		case !waits:
			c.freed = c.freed[:last]
			continue
		case left == 0:
			err = c.leaveScopes(queue, c.freed)
			c.freed = nil
			return err
		}
		left--
		c.examined++
		err = c.promoteFirst(queue, group, first)
		if err != nil {
			return err
		}
	}
	return nil
}

// promoteFirst makes the first record of a group ready, or moves the group to the line of
// the scope that blocks it.
func (c *changes) promoteFirst(queue int64, group string, first rank) error {
	j, err := c.job(findSeq, first.seq)
	if err != nil {
		return err
	}
	if j == nil {
		return fmt.Errorf("the first record that waits for the scopes %s is gone", group)
	}
	scope, blocked, err := c.obstacle(j)
	switch {
	case err != nil:
		return err
	case blocked:
		_, err = c.exec(moveGroup, scope, queue, group)
		return err
	default:
		return c.makeReady(j)
	}
}

// nextFor returns the first group that waits for a scope, and the rank of its first
// record. waits is false if no group waits, or the scope is held or promised.
func (c *changes) nextFor(queue int64, name string) (group string, first rank, waits bool, err error) {
	_, held, err := c.holder(queue, name)
	if err != nil || held {
		return "", rank{}, false, err
	}
	promised, err := c.one(promiseOf, func(*row) {}, queue, name)
	if err != nil || promised {
		return "", rank{}, false, err
	}
	return c.firstOfLine(queue, name)
}

// move moves a record to a place in which it waits for no scope. due is the end of its wait.
func (c *changes) move(j *job, p table.Place, due table.Instant) error {
	wasBlocked := j.Place == table.ScopeBlocked
	if err := c.moveTo(j, p, due, nil); err != nil || !wasBlocked {
		return err
	}
	return c.leaveGroup(j)
}

// moveTo moves a record to another place. group is the group in which it waits for a scope,
// or nil.
func (c *changes) moveTo(j *job, p table.Place, due table.Instant, group any) error {
	n, err := c.exec(moveJob, p, due, group, p, j.Seq)
	if err != nil {
		return err
	}
	if n != 1 {
		return fmt.Errorf("record %q is gone", j.Name)
	}
	counts := c.count(j.queue)
	counts.places[j.Place]--
	counts.places[p]++
	if j.overdue {
		counts.overdue--
	}
	j.Place, j.overdue = p, false
	return nil
}
