package driver

import (
	"time"

	"github.com/mongodb/amboy"
)

// ReadySince returns the later of the times at which a job was put and at which it was due.
func ReadySince(t amboy.JobTimeInfo) time.Time {
	if t.WaitUntil.After(t.Created) {
		return t.WaitUntil
	}
	return t.Created
}
