package queue

import (
	"sync"
	"time"
)

// The waits before a dependency that said Blocked is asked again: the first is
// firstRecheck, and each is twice the one before, up to lastRecheck.
const (
	firstRecheck = 50 * time.Millisecond
	lastRecheck  = 5 * time.Second
)

func nextRecheck(last time.Duration) time.Duration {
	return min(lastRecheck, max(firstRecheck, 2*last))
}

// Where to ask again is a claim and a hand-back in a store, many jobs are asked less
// often: a process asks recheckRate of them in a second, but each at least once in
// longestRecheck.
const (
	recheckRate    = 400
	longestRecheck = 50 * time.Second
	// recheckStep is what longer waits are rounded up to, so that one claim serves several.
	recheckStep = 100 * time.Millisecond
)

// rechecks says when the jobs of a store are to be asked again. The zero value is ready to
// use, and safe for concurrent use.
type rechecks struct {
	mu sync.Mutex
	// ahead counts those that are due in the seconds from second on, and total all of them.
	ahead  [longestRecheck/time.Second + 2]int
	second int64
	total  int
}

// next is when to ask a job again that waits since a time.
func (r *rechecks) next(now, since time.Time) time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pass(now.Unix())
	wait := max(nextRecheck(now.Sub(since)), time.Duration(r.total)*time.Second/recheckRate)
	at := now.Add(min(wait, longestRecheck))
	if wait > lastRecheck {
		at = at.Truncate(recheckStep).Add(recheckStep)
	}
	r.ahead[at.Unix()%int64(len(r.ahead))]++
	r.total++
	return at
}

// pass forgets those that were due before a second.
func (r *rechecks) pass(second int64) {
	if second < r.second || second-r.second >= int64(len(r.ahead)) { // a clock was set, or it is long ago
		clear(r.ahead[:])
		r.second, r.total = second, 0
	}
	for ; r.second < second; r.second++ {
		past := &r.ahead[r.second%int64(len(r.ahead))]
		r.total -= *past
		*past = 0
	}
}
