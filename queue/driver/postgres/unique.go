package postgres

import "github.com/mongodb/amboy"

// checkKey refuses a job if another job holds its unique key.
func (c *changes) checkKey(j *job) (refusal, err error) {
	if j.UniqueKey == "" {
		return nil, nil
	}
	var holder string
	held, err := c.one(holderOfKey, func(r *row) { holder = r.text() }, j.queue, j.UniqueKey)
	if err != nil || !held || holder == j.ID {
		return nil, err
	}
	return j.DuplicateKey(holder), nil
}

// started releases the unique key of a job that holds it until its start.
func (c *changes) started(j *job) {
	if j.UniqueHeld && amboy.UniqueUntil(j.UniqueUntil) == amboy.UniqueUntilStarted {
		j.UniqueHeld = false
		c.exec(dropKey, j.Seq)
	}
}
