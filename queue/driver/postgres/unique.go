package postgres

import "github.com/mongodb/amboy"

// checkKey refuses a job if another job holds its unique key.
func (c *changes) checkKey(j *job) (refusal, err error) {
	if j.uniqueKey == "" {
		return nil, nil
	}
	var holder string
	held, err := c.one(holderOfKey, func(r *row) { holder = r.text() }, j.queue, j.uniqueKey)
	if err != nil || !held || holder == j.id {
		return nil, err
	}
	return amboy.NewDuplicateJobErrorf("job %q: job %q has the unique key %q", j.id, holder, j.uniqueKey), nil
}

// keepsKey reports whether a job keeps its unique key in a place.
func (j *job) keepsKey(p place) bool {
	switch amboy.UniqueUntil(j.uniqueUntil) {
	case amboy.UniqueUntilForgotten:
		return true
	case amboy.UniqueUntilFailed:
		return !p.final() || p == succeeded
	default:
		return !p.final()
	}
}

// started releases the unique key of a job that holds it until its start.
func (c *changes) started(j *job) error {
	if !j.uniqueHeld || amboy.UniqueUntil(j.uniqueUntil) != amboy.UniqueUntilStarted {
		return nil
	}
	j.uniqueHeld = false
	_, err := c.exec(dropKey, j.seq)
	return err
}
