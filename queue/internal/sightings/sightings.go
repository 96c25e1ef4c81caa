// Package sightings measures leases by the observations of this process, for stores without
// a trustworthy clock: a lease is over when it was observed unrenewed for its whole length,
// by a monotonic clock. A wrong or changed wall clock makes no lease shorter or longer.
package sightings

import (
	"sync"
	"time"
)

// Log records since when leases have been observed unchanged. K changes when a lease is taken
// or renewed. The zero value has observed none. It is safe for concurrent use.
type Log[K comparable] struct {
	mu    sync.Mutex
	since map[K]time.Duration
}

// See records an observation that began and ended at times of a monotonic clock, and found
// leases with these lengths. It returns the leases that were observed for their whole
// length, in no order, and forgets leases that were not found.
func (l *Log[K]) See(began, ended time.Duration, lengths map[K]time.Duration) (over []K) {
	l.mu.Lock()
	defer l.mu.Unlock()
	since := make(map[K]time.Duration, len(lengths))
	for lease, length := range lengths {
		first, seen := l.since[lease]
		if !seen {
			// The lease may have been renewed until the end of the observation.
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
