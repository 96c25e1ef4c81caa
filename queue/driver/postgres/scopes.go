package postgres

import (
	"fmt"

	"github.com/mongodb/amboy/queue/driver/internal/table"
)

// A scope is in one of three states: held by a job, promised to a ready record, or free with no
// record waiting for it. So every ready record can be claimed at once, and a claim never reads
// records that wait for a scope. A promise goes to the record that runs first, and is withdrawn
// when a record comes that runs before it.

// holder returns the ID of the job that holds a scope.
func (c *changes) holder(queue int32, name string) (id string, held bool, err error) {
	held, err = c.one(holderOf, func(r *row) { id = r.text() }, queue, name)
	return id, held, err
}

// promised returns the record that a scope is promised to; nil if there is none.
func (c *changes) promised(queue int32, name string) (*job, error) {
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

// revokePromise makes the record that a scope is promised to wait for that scope. It returns the
// other scopes that were promised to the record.
func (c *changes) revokePromise(queue int32, because string) (freed []string, err error) {
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
	return freed, c.move(worse, table.ScopeBlocked, table.Instant{}, because)
}

// wait makes a record wait for its time, or admits it.
func (c *changes) wait(j *job, now int64) error {
	if j.FirstPlace(now) == table.Scheduled {
		return c.move(j, table.Scheduled, j.WaitUntil, "")
	}
	return c.admit(j)
}

// admit makes a record ready, or makes it wait for the scope that blocks it.
func (c *changes) admit(j *job) error {
	scopes := j.DispatchScopes()
	for _, name := range scopes {
		blocked, err := c.isObstacle(name, j)
		if err != nil {
			return err
		}
		if blocked {
			return c.move(j, table.ScopeBlocked, table.Instant{}, name)
		}
	}
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
	if err := c.move(j, table.Ready, table.Instant{}, ""); err != nil {
		return err
	}
	return c.promote(j.queue, freed)
}

// isObstacle reports whether a scope blocks a record: another job holds it, or it is for a record
// that runs earlier.
func (c *changes) isObstacle(name string, j *job) (bool, error) {
	holder, held, err := c.holder(j.queue, name)
	if err != nil || (held && holder != j.ID) {
		return true, err
	}
	first, err := c.promised(j.queue, name)
	if err == nil && first == nil {
		first, err = c.job(firstWaiter, j.queue, name)
	}
	return first != nil && first.Compare(&j.Job) < 0, err
}

// promote admits, for each free scope, the first record that waits for it.
func (c *changes) promote(queue int32, scopes []string) error {
	for _, name := range scopes {
		for {
			j, err := c.nextFor(queue, name)
			if err != nil {
				return err
			}
			if j == nil {
				break
			}
			// Another scope may block the record; then it is the turn of the next one.
			err = c.admit(j)
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// nextFor returns the record that gets a scope next; nil if no record waits for it, or the scope is
// held or promised.
func (c *changes) nextFor(queue int32, name string) (*job, error) {
	_, held, err := c.holder(queue, name)
	if err != nil || held {
		return nil, err
	}
	promised, err := c.one(promiseOf, func(*row) {}, queue, name)
	if err != nil || promised {
		return nil, err
	}
	return c.job(firstWaiter, queue, name)
}

// move moves a record to another place. due is the end of its wait, and scope the scope that it
// waits for, or empty.
func (c *changes) move(j *job, p table.Place, due table.Instant, scope string) error {
	n, err := c.exec(moveJob, p, due, nullable(scope), j.Seq)
	if err != nil {
		return err
	}
	if n != 1 {
		return fmt.Errorf("record %q is gone", j.Name)
	}
	c.count(j.queue, j.Place, p)
	j.Place = p
	return c.admitToLine(j)
}

// admitToLine lowers the floor of a ready job's line to the job.
func (c *changes) admitToLine(j *job) error {
	if j.Place != table.Ready {
		return nil
	}
	_, err := c.exec(lowerFloor, j.Seq, max(j.line, -j.line))
	return err
}
