package simulation

import (
	"context"
	"time"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/driver"
)

// owed are the jobs with which something should happen by now, each with its record as
// it was when it was found so first.
type owed map[string]debt

type debt struct {
	since   time.Duration
	state   amboy.JobState
	attempt int
	lease   int
}

// maxLateWait is by how much a wait may be too long after a clock was set back.
const maxLateWait = time.Minute

// probePeriod is how often it is looked what is late when faults are over.
const probePeriod = time.Second

// probe looks for what is late.
type probe struct{}

func (probe) happen(w *World) {
	if w.owed == nil {
		w.owed = owed{}
	}
	open := w.checker.Open()
	for _, id := range open {
		w.probe(w.checker.tasks[id])
	}
	if len(open) > 0 || w.busy() {
		w.after(probePeriod, probe{})
	}
}

// busy reports whether a process has something to write.
func (w *World) busy() bool {
	for _, p := range w.processes {
		if p.holds() || len(p.retries) > 0 || len(p.runs) > 0 {
			return true
		}
	}
	return false
}

// bound is how long something may take after the last fault.
func (w *World) bound(state amboy.JobState) time.Duration {
	c := w.settings.core
	bound := c.LeaseTime + c.LeaseTime/4 + c.PollMax
	switch state {
	case amboy.StateRetrying:
		bound += c.RetryScan + w.settings.retryPause + retryLimit
	case amboy.StateScheduled: // after a backoff, which is no longer than a lease
		bound = c.LeaseTime + maxLateWait
	}
	return bound + probePeriod
}

func (w *World) probe(t *Task) {
	r, err := w.driver.Get(context.Background(), t.Queue, t.ID)
	if err != nil {
		w.violate(Lost, t.ID, "%v", err)
		return
	}
	found := debt{
		since: w.now, state: driver.StateOf(r, timeAt(w.now)),
		attempt: r.RetryInfo.CurrentAttempt, lease: r.Status.ModificationCount,
	}
	if !w.isOwed(t, r, found.state) {
		delete(w.owed, t.ID)
		return
	}
	before, ok := w.owed[t.ID]
	if !ok || before.state != found.state || before.attempt != found.attempt || before.lease != found.lease {
		w.owed[t.ID] = found
		return
	}
	if late := w.now - before.since; late > w.bound(found.state) {
		w.violate(Late, t.ID, "it is %s for %s, attempt %d, lease %d", found.state, late, found.attempt, found.lease)
	}
}

// isOwed reports whether something should happen with a job.
func (w *World) isOwed(t *Task, r *driver.Record, state amboy.JobState) bool {
	switch state {
	case amboy.StatePending:
		return w.hasIdleWorker(t)
	case amboy.StateRunning:
		return !t.Refused && !w.isRun(driver.LeaseOf(r))
	case amboy.StateRetrying, amboy.StateExpired:
		return true
	case amboy.StateScheduled:
		// It may be ready all the same, by the clock of a process that was ahead.
		return r.RetryInfo.CurrentAttempt > 0 && w.hasIdleWorker(t)
	case amboy.StateParked:
		w.violate(Lost, t.ID, "it is parked")
		return false
	default:
		return false
	}
}

// hasIdleWorker reports whether a worker waits that may run a task.
func (w *World) hasIdleWorker(t *Task) bool {
	for _, p := range w.processes {
		if !p.knows(t) || p.core.Alone() {
			continue
		}
		if most := w.settings.core.MaxRunning; most > 0 && p.running() >= most {
			continue
		}
		for _, wk := range p.workers {
			if wk.waiting && wk.Line.Queue == t.Queue {
				return true
			}
		}
	}
	return false
}

// isRun reports whether there is a run with a lease that has not returned.
func (w *World) isRun(l driver.Lease) bool {
	for _, p := range w.processes {
		for _, r := range p.runs {
			if r.Lease == l && !r.returned {
				return true
			}
		}
	}
	return false
}
