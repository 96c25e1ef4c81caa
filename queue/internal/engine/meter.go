package engine

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
	Claims, FailedClaims, ClaimedJobs atomic.Uint64
	Renewals, LateRenewals            atomic.Uint64
	Fenced, Taken                     atomic.Uint64
	Interruptions, Parked             atomic.Uint64
}

func (m *meter) claimed(jobs int, err error) {
	m.Claims.Add(1)
	m.ClaimedJobs.Add(uint64(jobs))
	if err != nil {
		m.FailedClaims.Add(1)
	}
}

func (m *meter) renewed(late bool) {
	m.Renewals.Add(1)
	if late {
		m.LateRenewals.Add(1)
	}
}

// canceled counts a run whose context ended because of its lease.
func (m *meter) canceled(cause error, taken bool) {
	switch {
	case cause != amboy.ErrLeaseLost: //nolint:errorlint // It is never wrapped here.
	case taken:
		m.Taken.Add(1)
	default:
		m.Fenced.Add(1)
	}
}

// SinceStart is the time since the engine started, including the time for which the machine
// was suspended. Unlike instant it does not count as a decision of the core.
func (e *Engine) SinceStart() time.Duration {
	if e.manual {
		return e.Now().Sub(e.started)
	}
	return time.Since(e.started) + suspension.Total() - e.asleepBefore
}

// Load returns the number of jobs that can run at once in the started queues of this process,
// and the number of jobs that do.
func (e *Engine) Load() (workers, running int) {
	e.coreMu.Lock()
	running = len(e.runs)
	e.coreMu.Unlock()
	if e.maxRunning > 0 { // also if no queue of the group is open, and one can be opened
		return e.maxRunning, running
	}
	for _, q := range e.openQueueList() {
		if q.IsStarted() {
			workers += q.NumWorkers()
		}
	}
	return workers, running
}

// openQueueList returns the engine's queues, in no particular order.
func (e *Engine) openQueueList() []*Queue {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Collect(maps.Values(e.queues))
}
