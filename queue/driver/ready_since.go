package driver

import (
	"time"

	"github.com/mongodb/amboy"
)

// MaxOverdue is the largest number of due records of a store that OldestReady examines. Claims make
// due records ready, so that there are many only while no process claims.
const MaxOverdue = 1000

// ReadySince returns the later of the times at which a job was put and at which it was due.
func ReadySince(t amboy.JobTimeInfo) time.Time {
	if t.WaitUntil.After(t.Created) {
		return t.WaitUntil
	}
	return t.Created
}

// SetOldest sets the ReadySince of a record of a queue, unless that of an older record is set.
func SetOldest(oldest map[string]time.Time, queue string, t amboy.JobTimeInfo) {
	since := ReadySince(t)
	if first, isSet := oldest[queue]; !isSet || since.Before(first) {
		oldest[queue] = since
	}
}
