package queue

import (
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/suspension"
)

// meter counts what an engine does.
type meter struct {
	claims, failedClaims, claimedJobs atomic.Uint64
	renewals, lateRenewals            atomic.Uint64
	fenced, taken                     atomic.Uint64
	interruptions, parked             atomic.Uint64
}

func (m *meter) claimed(jobs int, err error) {
	m.claims.Add(1)
	m.claimedJobs.Add(uint64(jobs))
	if err != nil {
		m.failedClaims.Add(1)
	}
}

func (m *meter) renewed(late bool) {
	m.renewals.Add(1)
	if late {
		m.lateRenewals.Add(1)
	}
}

// canceled counts a run whose context ended because of its lease.
func (m *meter) canceled(cause error, taken bool) {
	switch {
	case cause != amboy.ErrLeaseLost: //nolint:errorlint // It is never wrapped here.
	case taken:
		m.taken.Add(1)
	default:
		m.fenced.Add(1)
	}
}

// sinceStart is the time since the engine started, including the time for which the machine
// was suspended. Unlike instant it does not count as a decision of the core.
func (e *engine) sinceStart() time.Duration {
	if e.manual {
		return e.now().Sub(e.started)
	}
	return time.Since(e.started) + suspension.Total() - e.asleepBefore
}

// load returns the number of jobs that can run at once in the started queues of this process,
// and the number of jobs that do.
func (e *engine) load() (workers, running int) {
	e.coreMu.Lock()
	running = len(e.runs)
	e.coreMu.Unlock()
	if e.maxRunning > 0 { // also if no queue of the group is open, and one can be opened
		return e.maxRunning, running
	}
	for _, q := range e.openQueueList() {
		if q.isStarted() {
			workers += q.numWorkers()
		}
	}
	return workers, running
}

// openQueueList returns the engine's queues, in no particular order.
func (e *engine) openQueueList() []*driverQueue {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Collect(maps.Values(e.queues))
}
