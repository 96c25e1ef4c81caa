// Package sightings measures leases by what this process has seen of them, for stores
// without a clock that can be trusted: a lease is over when it was seen unrenewed for
// its whole length, by a monotonic clock. Neither a wall clock that is wrong nor one
// that is set makes a lease shorter or longer.
package sightings

import (
	"sync"
	"time"
)

// Log knows since when leases have been seen as they are. K is what changes when a
// lease is taken or renewed. The zero value has seen none. It is safe for concurrent
// use.
type Log[K comparable] struct {
	mu    sync.Mutex
	since map[K]time.Duration
}

// See takes note of a look that began and ended at times by a monotonic clock, and found
// leases with these lengths. It returns those that were seen for their whole length, in
// no order, and forgets those that are not among them.
func (l *Log[K]) See(began, ended time.Duration, lengths map[K]time.Duration) (over []K) {
	l.mu.Lock()
	defer l.mu.Unlock()
	since := make(map[K]time.Duration, len(lengths))
	for lease, length := range lengths {
		first, seen := l.since[lease]
		if !seen {
			// It may have been renewed until the look was over.
			first = ended
		}
		since[lease] = first
		if seen && began-first >= length {
			over = append(over, lease)
		}
	}
	l.since = since
	return over
}
