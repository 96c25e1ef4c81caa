package postgres

import (
	"fmt"

	"github.com/mongodb/amboy"
)

// A scope is held by one job, or promised to a record that is ready, or free
// with nobody waiting for it. So every ready record can be claimed at once, and
// a claim never meets those that wait for a scope. A promise goes to the record
// that runs before the others, and is withdrawn when a better one comes.

// holder returns the ID of the job that holds a scope.
func (c *changes) holder(queue int32, name string) (id string, held bool, err error) {
	held, err = c.one(holderOf, func(r *row) { id = r.text() }, queue, name)
	return id, held, err
}

// promised returns the record that a scope is promised to; nil where there is
// none.
func (c *changes) promised(queue int32, name string) (*job, error) {
	var seq int64
	found, err := c.one(promiseOf, func(r *row) { seq = r.integer() }, queue, name)
	if err != nil || !found {
		return nil, err
	}
	return c.job(findSeq, seq)
}

// checkFree tells whether a job can take scopes.
func (c *changes) checkFree(j *job, scopes []string) (refusal, err error) {
	for _, name := range scopes {
		holder, held, err := c.holder(j.queue, name)
		if err != nil {
			return nil, err
		}
		if held && holder != j.id {
			return amboy.NewDuplicateJobScopeErrorf("taking the enqueue scopes of job %q: scope %q is held by job %q", j.id, name, holder), nil
		}
	}
	return nil, nil
}

// take gives a job scopes of which it is known that it can take them. A promise
// of one of them is void.
func (c *changes) take(j *job, scopes []string) error {
	for _, name := range scopes {
		if _, err := c.exec(hold, j.queue, name, j.id); err != nil {
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

// free releases those of the scopes that the job holds.
func (c *changes) free(j *job, scopes []string) error {
	for _, name := range scopes {
		if _, err := c.exec(freeScope, j.queue, name, j.id); err != nil {
			return err
		}
	}
	return c.promote(j.queue, scopes)
}

// fulfill gives a record that is claimed the scopes that it was promised.
func (c *changes) fulfill(j *job) error {
	for _, name := range j.dispatchScopes() {
		if _, err := c.exec(hold, j.queue, name, j.id); err != nil {
			return err
		}
		if _, err := c.exec(dropPromise, j.queue, name); err != nil {
			return err
		}
	}
	return nil
}

// withdraw takes back the promises to a record that was ready and is not any
// more.
func (c *changes) withdraw(j *job) error {
	scopes := j.dispatchScopes()
	for _, name := range scopes {
		if _, err := c.exec(dropPromise, j.queue, name); err != nil {
			return err
		}
	}
	return c.promote(j.queue, scopes)
}

// revokePromise makes the record that a scope is promised to wait for it. It
// returns the other scopes that were promised to it.
func (c *changes) revokePromise(queue int32, because string) (freed []string, err error) {
	worse, err := c.promised(queue, because)
	if err != nil || worse == nil {
		return nil, err
	}
	for _, name := range worse.dispatchScopes() {
		if _, err = c.exec(dropPromise, queue, name); err != nil {
			return nil, err
		}
		if name != because {
			freed = append(freed, name)
		}
	}
	return freed, c.move(worse, scopeBlocked, instant{}, because)
}

// wait makes a record wait for its time, or else admits it.
func (c *changes) wait(j *job, now int64) error {
	if firstPlace(j, now) == scheduled {
		return c.move(j, scheduled, j.waitUntil, "")
	}
	return c.admit(j)
}

// admit makes a record ready, or else makes it wait for the scope that is in its
// way.
func (c *changes) admit(j *job) error {
	scopes := j.dispatchScopes()
	for _, name := range scopes {
		blocked, err := c.isObstacle(name, j)
		if err != nil {
			return err
		}
		if blocked {
			return c.move(j, scopeBlocked, instant{}, name)
		}
	}
	var freed []string
	for _, name := range scopes {
		others, err := c.revokePromise(j.queue, name)
		if err != nil {
			return err
		}
		freed = append(freed, others...)
		if _, err = c.exec(promise, j.queue, name, j.seq); err != nil {
			return err
		}
	}
	if err := c.move(j, ready, instant{}, ""); err != nil {
		return err
	}
	return c.promote(j.queue, freed)
}

// isObstacle tells whether a record must wait for a scope: it is held by another
// job, or is for one that runs before.
func (c *changes) isObstacle(name string, j *job) (bool, error) {
	holder, held, err := c.holder(j.queue, name)
	if err != nil || (held && holder != j.id) {
		return true, err
	}
	first, err := c.promised(j.queue, name)
	if err == nil && first == nil {
		first, err = c.job(firstWaiter, j.queue, name)
	}
	return first != nil && first.compare(j) < 0, err
}

// promote lets the first of those go on who wait for each of the scopes that is
// free.
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
			// It may find another scope in its way; then the next one has its
			// turn.
			err = c.admit(j)
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// nextFor returns the record whose turn it is to have a scope; nil where nobody
// waits for it, or somebody else has it.
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

// move puts a record in another place: due says until when, and scope for what it waits,
// if it does.
func (c *changes) move(j *job, p place, due instant, scope string) error {
	n, err := c.exec(moveJob, p, due, nullable(scope), j.seq)
	if err != nil {
		return err
	}
	if n != 1 {
		return fmt.Errorf("record %q is gone", j.name)
	}
	c.count(j.queue, j.place, p)
	j.place = p
	return c.admitToLine(j)
}

// admitToLine lowers the floor of a ready job's line to the job.
func (c *changes) admitToLine(j *job) error {
	if j.place != ready {
		return nil
	}
	_, err := c.exec(lowerFloor, j.seq, max(j.line, -j.line))
	return err
}
