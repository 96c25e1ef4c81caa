package jobstate

import (
	"sync"
	"time"
)

// A job whose dependency is Blocked is checked again after firstRecheck. Each further
// wait is twice as long, up to lastRecheck.
const (
	firstRecheck = 50 * time.Millisecond
	lastRecheck  = 5 * time.Second
)

// NextRecheck returns how long a blocked job waits after it has waited for last.
func NextRecheck(last time.Duration) time.Duration {
	return min(lastRecheck, max(firstRecheck, 2*last))
}

// In a store, each check costs a claim and a hand-back. So if many jobs are blocked, they
// are checked less often: a process checks recheckRate jobs per second, but each job at
// least once per longestRecheck.
const (
	recheckRate    = 400
	longestRecheck = 50 * time.Second
	// Longer waits are rounded up to a multiple of recheckStep, so that one claim serves
	// several jobs.
	recheckStep = 100 * time.Millisecond
)

// Rechecks schedules the checks of blocked jobs of a store. The zero value is ready to
// use. It is safe for concurrent use.
type Rechecks struct {
	mu sync.Mutex
	// ahead counts the checks that are due in each second from second on, and total
	// counts all.
	ahead  [longestRecheck/time.Second + 2]int
	second int64
	total  int
}

// Next returns when to check a blocked job again. since is when the job began to wait.
func (r *Rechecks) Next(now, since time.Time) time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pass(now.Unix())
	wait := max(NextRecheck(now.Sub(since)), time.Duration(r.total)*time.Second/recheckRate)
	at := now.Add(min(wait, longestRecheck))
	if wait > lastRecheck {
		at = at.Truncate(recheckStep).Add(recheckStep)
	}
	r.ahead[at.Unix()%int64(len(r.ahead))]++
	r.total++
	return at
}

// pass removes the checks that were due before a second.
func (r *Rechecks) pass(second int64) {
	if second < r.second || second-r.second >= int64(len(r.ahead)) { // the clock was set, or nothing was due for long
		clear(r.ahead[:])
		r.second, r.total = second, 0
	}
	for ; r.second < second; r.second++ {
		past := &r.ahead[r.second%int64(len(r.ahead))]
		r.total -= *past
		*past = 0
	}
}
