package table

import (
	"fmt"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/driver"
)

// Shows reports whether an unfinished job shows a lease, or the given absence of one.
func (j *Job) Shows(l driver.Lease) bool {
	return j.Place < Retrying && j.Owner == l.Owner && j.Count == l.Count && j.Stamp == l.Stamp
}

// LeaseIn returns the lease that a job of a queue shows.
func (j *Job) LeaseIn(queue string) driver.Lease {
	return driver.Lease{Queue: queue, Name: j.Name, Owner: j.Owner, Count: j.Count, Stamp: j.Stamp}
}

// LeaseLost returns the error for a lease that its record does not have.
func LeaseLost(l driver.Lease) error {
	return fmt.Errorf("record %q: %w", l.Name, driver.ErrLeaseLost)
}

// NotFound returns the error for a job that does not exist.
func NotFound(id string) error { return amboy.NewJobNotFoundErrorf("there is no job %q", id) }
