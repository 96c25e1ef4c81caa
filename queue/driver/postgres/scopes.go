package postgres

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/mongodb/amboy/queue/driver/internal/table"
	"github.com/mongodb/amboy/queue/internal/scope"
)

// A scope is held by jobs, promised to ready records, or has room with no record waiting for it.
// Holders and promises together are never more than its limit, nor than the limit of a record that
// it is promised to. So every ready record can be claimed at once, and a claim never reads records
// that wait for a scope. Promises go to the records that run first, and are withdrawn when records
// come that run before them. Records wait for the key of a scope (see scope.Key).

// use returns the name of a scope in the tables, in which each name has one row: that of a limited
// scope contains the job that uses it.
func use(name string, by any) string {
	key, _ := scope.Key(name)
	if key == name {
		return name
	}
	return fmt.Sprint(key, "\x1f", by)
}

// usesFrom and usesTo are the range of the names of a scope in the tables.
func usesFrom(name string) string { return use(name, "") }

func usesTo(name string) string {
	key, _ := scope.Key(name)
	if key == name {
		return name + "\x01"
	}
	return key + "\x20"
}

// checkFree refuses a job if others hold one of the scopes.
func (c *changes) checkFree(j *job, scopes []string) (refusal, err error) {
	err = c.knowUses(j.queue, scopes)
	if err != nil {
		return nil, err
	}
	for _, name := range scopes {
		_, limit := scope.Key(name)
		u, err := c.usesOf(j.queue, name)
		if err != nil {
			return nil, err
		}
		if n, holder := u.others(j.ID); n >= limit {
			return j.DuplicateScope(name, holder), nil
		}
	}
	return nil, nil
}

// take gives a job scopes that it is known to be able to take. Promises of these scopes are
// revoked.
func (c *changes) take(j *job, scopes []string) error {
	if err := c.knowUses(j.queue, scopes); err != nil {
		return err
	}
	for _, name := range scopes {
		c.hold(name, j.ID)
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
		c.unhold(name, j.ID)
	}
	return c.promote(j.queue, scopes)
}

// fulfill gives claimed records of a queue the scopes that they were promised. All of them get theirs
// before others get room: a promise to one of them might be revoked for another record.
func (c *changes) fulfill(queue int32, claimed []*stored) error {
	var limited []string
	for _, s := range claimed {
		for _, name := range s.DispatchScopes() {
			c.hold(name, s.ID)
			c.revoke(name, s.Seq)
			if key, _ := scope.Key(name); key != name {
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
		c.revoke(name, j.Seq)
	}
	return c.promote(j.queue, scopes)
}

// shed makes the last records that a scope is promised to wait for it, until they, its other
// holders and the job, which needs a part of its own, keep to all their limits. It returns the
// other scopes that were promised to these records.
func (c *changes) shed(j *job, name string) (freed []string, err error) {
	key, limit := scope.Key(name)
	for {
		u, err := c.usesOf(j.queue, name)
		if err != nil || len(u.promises) == 0 {
			return freed, err
		}
		holders, _ := u.others(j.ID)
		lowest := slices.MinFunc(u.promises, func(p, q promised) int { return cmp.Compare(p.limit, q.limit) }).limit
		if holders+1+len(u.promises) <= min(limit, lowest) {
			return freed, nil
		}
		worse, err := c.job(findSeq, slices.MaxFunc(u.promises, promised.compare).seq)
		if err != nil {
			return nil, err
		}
		if worse == nil {
			return nil, fmt.Errorf("a record that scope %q is promised to is gone", name)
		}
		freed = append(freed, c.revokePromises(worse, key)...)
	}
}

// revokePromises makes a record wait for the scope of a key. It returns the other scopes that were
// promised to the record.
func (c *changes) revokePromises(j *job, because string) (freed []string) {
	for _, name := range j.DispatchScopes() {
		c.revoke(name, j.Seq)
		if key, _ := scope.Key(name); key != because {
			freed = append(freed, name)
		}
	}
	c.move(j, table.ScopeBlocked, table.Instant{}, because)
	return freed
}

// wait makes a record wait for its time, or admits it.
func (c *changes) wait(j *job, now int64) error {
	if j.FirstPlace(now) == table.Scheduled {
		c.move(j, table.Scheduled, j.WaitUntil, "")
		return nil
	}
	return c.admit(j)
}

// admit makes a record ready, or makes it wait for the scope that blocks it.
func (c *changes) admit(j *job) error {
	scopes := j.DispatchScopes()
	if err := c.know(j.queue, scopes); err != nil {
		return err
	}
	for _, name := range scopes {
		blocked, err := c.isObstacle(name, j)
		if err != nil {
			return err
		}
		if blocked {
			key, _ := scope.Key(name)
			c.move(j, table.ScopeBlocked, table.Instant{}, key)
			return nil
		}
	}
	var freed []string
	for _, name := range scopes {
		others, err := c.shed(j, name)
		if err != nil {
			return err
		}
		freed = append(freed, others...)
		c.promise(name, j)
	}
	c.move(j, table.Ready, table.Instant{}, "")
	return c.promote(j.queue, freed)
}

// isObstacle reports whether a scope blocks a record: it has no room for the record besides its
// holders and the records that run earlier, or such a record waits for it.
func (c *changes) isObstacle(name string, j *job) (bool, error) {
	full, err := c.isFull(name, j)
	if full || err != nil {
		return full, err
	}
	key, _ := scope.Key(name)
	first, err := c.firstWaiter(j.queue, key)
	return first != nil && first.Compare(&j.Job) < 0, err
}

// isFull reports whether a scope has no room for a record.
func (c *changes) isFull(name string, j *job) (bool, error) {
	u, err := c.usesOf(j.queue, name)
	if err != nil {
		return false, err
	}
	_, limit := scope.Key(name)
	taken, _ := u.others(j.ID)
	if taken >= limit {
		return true, nil
	}
	for _, p := range u.promises {
		if p.compare(promised{seq: j.Seq, priority: j.Priority}) < 0 {
			taken++
			limit = min(limit, p.limit)
		}
	}
	return taken >= limit, nil
}

// promote admits, for each scope with room, the first records that wait for it. If that requires
// examining many records, the rest is left for later.
func (c *changes) promote(queue int32, scopes []string) error {
	if err := c.know(queue, scopes); err != nil {
		return err
	}
	for _, name := range scopes {
		key, _ := scope.Key(name)
		if err := c.promoteKey(queue, key); err != nil {
			return err
		}
	}
	return nil
}

// promoteKey admits the first records that wait for the scope of a key.
func (c *changes) promoteKey(queue int32, key string) error {
	for {
		j, err := c.nextFor(queue, key)
		if err != nil || j == nil {
			return err
		}
		if c.examined >= settleAtOnce {
			c.leave(queue, freeScopeLeft, key, 0)
			return nil
		}
		c.examined++
		// Another scope may block the record; then it is the turn of the next one.
		err = c.admit(j)
		if err == nil && j.Place == table.ScopeBlocked {
			err = c.moveWaiters(j, key)
		}
		if err != nil {
			return err
		}
	}
}

// moveWaiters makes the next records that wait for the scope of a key, and need the same scopes as a
// record that another scope blocks, wait for that scope.
func (c *changes) moveWaiters(j *job, from string) error {
	n, err := c.execNow(moveWaiters, j.waitingFor, j.queue, from, column(j.Scopes), column(j.EnqueueScopes), movedAtOnce)
	if n > 0 {
		c.examined += moveCost
		delete(c.scopes.waiters, from)
		delete(c.scopes.waiters, j.waitingFor)
	}
	return err
}

// nextFor returns the record that gets the scope of a key next; nil if no record waits for it, or
// there is no room for that record.
func (c *changes) nextFor(queue int32, key string) (*job, error) {
	j, err := c.firstWaiter(queue, key)
	if err != nil || j == nil {
		return nil, err
	}
	full, err := c.isFull(scope.Of(key, j.Scopes), j)
	if err != nil || full {
		return nil, err
	}
	return j, nil
}

// move moves a record to another place. due is the end of its wait, and key that of the scope that
// it waits for, or empty.
func (c *changes) move(j *job, p table.Place, due table.Instant, key string) {
	if !c.insertion.has(j.Seq) {
		c.exec(moveJob, p, due, nullable(key), j.Seq)
	}
	c.moveTo(j, p, due, key)
}

// moveTo is move for a record whose new place another statement writes.
func (c *changes) moveTo(j *job, p table.Place, due table.Instant, key string) {
	c.count(j.queue, j.Place, p)
	c.written = c.written.and(moments{due: spansOf(due)})
	if p < table.Parked && j.Place >= table.Parked {
		c.written = c.written.and(moments{expires: spansOf(j.DispatchBy)})
	}
	c.scopes.moved(j, key)
	maps.DeleteFunc(c.found, func(_ string, other *job) bool { return other.Seq == j.Seq })
	j.Place, j.waitingFor = p, key
}

// admitToLine makes claims find a ready job that is behind the floor of its line.
func (c *changes) admitToLine(j *job) {
	if j.Place == table.Ready {
		c.exec(setLate, j.Seq)
	}
}
