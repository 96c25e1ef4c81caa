package sqlite

import (
	"fmt"

	"github.com/mongodb/amboy/queue/driver/internal/table"
	"github.com/mongodb/amboy/queue/internal/scope"
)

// A scope is held by jobs, promised to ready records, or has room with no record waiting for it.
// Holders and promises together are never more than its limit, nor than the limit of a record
// that it is promised to. So every ready record can be claimed at once, and a claim never reads
// records that wait for a scope. Promises go to the records that run first, and are withdrawn
// when records come that run before them. The tables name a scope by its key (see scope.Key).

// uses are the uses of a scope by all jobs except one.
type uses struct {
	holders, promises int
	holder            string // one of the holders
	limit             int    // the lowest of the promised records; 0 for none
}

func (c *changes) uses(queue int64, key, beside string) (u uses, err error) {
	_, err = c.one(usesOf, func(r *row) {
		u.holders, u.holder = r.int(), r.text()
		u.promises, u.limit = r.int(), r.int()
	}, queue, key, beside)
	return u, err
}

// checkFree refuses a job if others hold one of the scopes.
func (c *changes) checkFree(j *job, scopes []string) (refusal, err error) {
	for _, name := range scopes {
		key, limit := scope.Key(name)
		u, err := c.uses(j.queue, key, j.ID)
		if err != nil {
			return nil, err
		}
		if u.holders >= limit {
			return j.DuplicateScope(name, u.holder), nil
		}
	}
	return nil, nil
}

// take gives a job scopes that it is known to be able to take. Promises of these scopes are
// revoked.
func (c *changes) take(j *job, scopes []string) error {
	for _, name := range scopes {
		key, _ := scope.Key(name)
		if _, err := c.exec(hold, j.queue, key, j.ID); err != nil {
			return err
		}
	}
	var freed []string
	for _, name := range scopes {
		others, err := c.shed(j, name)
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
		key, _ := scope.Key(name)
		if _, err := c.exec(freeScope, j.queue, key, j.ID); err != nil {
			return err
		}
	}
	return c.promote(j.queue, scopes)
}

// fulfill gives claimed records of a queue the scopes that they were promised. All of them get theirs
// before others get room: a promise to one of them might be revoked for another record.
func (c *changes) fulfill(queue int64, claimed []*stored) error {
	var limited []string
	for _, s := range claimed {
		for _, name := range s.DispatchScopes() {
			key, _ := scope.Key(name)
			if _, err := c.exec(hold, queue, key, s.ID); err != nil {
				return err
			}
			if _, err := c.exec(dropPromise, queue, key, s.Seq); err != nil {
				return err
			}
			if key != name {
				limited = append(limited, name)
			}
		}
	}
	// The limits of these records count no more, so others may have room now.
	return c.promote(queue, limited)
}

// withdraw takes back the promises to a record that is no longer ready.
func (c *changes) withdraw(j *job) error {
	scopes := j.DispatchScopes()
	for _, name := range scopes {
		key, _ := scope.Key(name)
		if _, err := c.exec(dropPromise, j.queue, key, j.Seq); err != nil {
			return err
		}
	}
	return c.promote(j.queue, scopes)
}

// shed makes the last records that a scope is promised to wait for it, until they, its other
// holders and the job, which needs a part of its own, keep to all their limits. It returns the
// other scopes that were promised to these records.
func (c *changes) shed(j *job, name string) (freed []string, err error) {
	key, limit := scope.Key(name)
	for {
		u, err := c.uses(j.queue, key, j.ID)
		if err != nil || u.promises == 0 || u.holders+1+u.promises <= min(limit, u.limit) {
			return freed, err
		}
		worse, err := c.job(lastPromised, j.queue, key)
		if err != nil {
			return nil, err
		}
		if worse == nil {
			return nil, fmt.Errorf("a record that scope %q is promised to is gone", name)
		}
		others, err := c.revokePromises(worse, key)
		if err != nil {
			return nil, err
		}
		freed = append(freed, others...)
	}
}

// revokePromises makes a record wait for the scope of a key. It returns the other scopes that were
// promised to the record.
func (c *changes) revokePromises(j *job, because string) (freed []string, err error) {
	if _, err = c.exec(dropPromise, j.queue, because, j.Seq); err != nil {
		return nil, err
	}
	for _, name := range j.DispatchScopes() {
		key, _ := scope.Key(name)
		if key == because {
			continue
		}
		if _, err = c.exec(dropPromise, j.queue, key, j.Seq); err != nil {
			return nil, err
		}
		freed = append(freed, name)
	}
	return freed, c.block(j, because)
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
	name, blocked, err := c.obstacle(j)
	switch {
	case err != nil:
		return err
	case blocked:
		return c.block(j, name)
	default:
		return c.makeReady(j)
	}
}

// obstacle returns the first scope that blocks a record.
func (c *changes) obstacle(j *job) (name string, blocked bool, err error) {
	for _, name = range j.DispatchScopes() {
		blocked, err = c.isObstacle(name, j)
		if blocked || err != nil {
			return name, blocked, err
		}
	}
	return "", false, nil
}

// makeReady makes a record ready and promises it its scopes, none of which blocks it.
func (c *changes) makeReady(j *job) error {
	scopes := j.DispatchScopes()
	var freed []string
	for _, name := range scopes {
		others, err := c.shed(j, name)
		if err != nil {
			return err
		}
		freed = append(freed, others...)
		key, limit := scope.Key(name)
		if _, err = c.exec(promise, j.queue, key, j.Priority, j.Seq, limit); err != nil {
			return err
		}
	}
	if err := c.move(j, table.Ready, table.Instant{}); err != nil {
		return err
	}
	return c.promote(j.queue, freed)
}

// isObstacle reports whether a scope blocks a record: it has no room for the record besides its
// holders and the records that run earlier, or such a record waits for it.
func (c *changes) isObstacle(name string, j *job) (bool, error) {
	here := rank{j.Priority, j.Seq}
	full, err := c.isFull(j.queue, name, j.ID, here)
	if full || err != nil {
		return full, err
	}
	key, _ := scope.Key(name)
	_, first, found, err := c.firstOfLine(j.queue, key)
	return found && first.before(here), err
}

// isFull reports whether a scope has no room for a job with a rank.
func (c *changes) isFull(queue int64, name, id string, at rank) (bool, error) {
	key, limit := scope.Key(name)
	u, err := c.uses(queue, key, id)
	if err != nil || u.holders >= limit || u.promises == 0 {
		return u.holders >= limit, err
	}
	var before, lowest int
	_, err = c.one(promisedBefore, func(r *row) { before, lowest = r.int(), r.int() }, queue, key, at.priority, at.seq)
	if before > 0 {
		limit = min(limit, lowest)
	}
	return u.holders+before >= limit, err
}

// promote gives free scopes to the first records that wait for them and need nothing else.
// If that requires examining many groups, the rest is left for later.
func (c *changes) promote(queue int64, scopes []string) error {
	for _, name := range scopes {
		key, _ := scope.Key(name)
		c.freed = append(c.freed, key)
	}
	if c.promoting {
		return nil
	}
	c.promoting = true
	defer func() { c.promoting, c.freed = false, nil }()
	for left := settleAtOnce; len(c.freed) > 0; {
		last := len(c.freed) - 1
		group, first, waits, err := c.nextFor(queue, c.freed[last])
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
	name, blocked, err := c.obstacle(j)
	switch {
	case err != nil:
		return err
	case blocked:
		key, _ := scope.Key(name)
		_, err = c.exec(moveGroup, key, queue, group)
		return err
	default:
		return c.makeReady(j)
	}
}

// nextFor returns the first group that waits for a key, and the rank of its first record.
// waits is false if no group waits, or there is no room for that record.
func (c *changes) nextFor(queue int64, key string) (group string, first rank, waits bool, err error) {
	group, first, waits, err = c.firstOfLine(queue, key)
	if err != nil || !waits {
		return "", rank{}, false, err
	}
	names, err := table.DecodeNames(group)
	if err != nil {
		return "", rank{}, false, fmt.Errorf("reading the scopes of a group: %w", err)
	}
	full, err := c.isFull(queue, scope.Of(key, names), "", first)
	return group, first, !full && err == nil, err
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
