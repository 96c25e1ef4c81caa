package simulation

import (
	"context"
	"slices"
	"time"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/driver"
)

// owed holds the jobs with which something should happen by now, each with its record as
// first found in that state.
type owed map[string]debt

type debt struct {
	since   time.Duration
	state   amboy.JobState
	attempt int
	lease   int
	asked   bool // an operator has canceled it
	// turn counts the leases given before a pending job, which has to wait for its turn:
	// while claims take time, workers are idle although the queue is busy.
	turn int
}

// maxLateWait is how much too long a wait may be after a clock was set back.
const maxLateWait = time.Minute

// probePeriod is how often lateness is checked after the last fault.
const probePeriod = time.Second

// probe checks for jobs that are late.
type probe struct{}

func (probe) happen(w *World) {
	if w.owed == nil {
		w.owed = owed{}
	}
	open := w.checker.Open()
	for _, id := range open {
		w.probe(w.checker.tasks[id])
	}
	if len(open) > 0 || w.busy() || w.isPutting() {
		w.after(probePeriod, probe{})
	}
}

// busy reports whether a process has something to write.
func (w *World) busy() bool {
	for _, p := range w.processes {
		if p.holds() || len(p.runs) > 0 || slices.ContainsFunc(p.retries, func(r *retry) bool { return !r.call.hangs }) {
			return true
		}
	}
	return false
}

// soon is how long something may take that has no reason to wait. atOnce is how long it
// may take to write the end of a run that has returned.
const (
	soon   = 3 * time.Second
	atOnce = time.Second + 4*longestLatency // of two calls
)

// safetyNet returns how long it may take until a process claims jobs that it was not notified of.
func (s settings) safetyNet() time.Duration {
	if s.core.PollMax > 0 {
		return s.core.PollMax
	}
	return s.core.LeaseTime / 4 // surveys are as frequent as heartbeats
}

// bound returns how long something may take after the last fault.
func (w *World) bound(d debt) time.Duration {
	c := w.settings.core
	if w.calmFrom > 0 && d.since > w.calmFrom {
		switch {
		case d.state == amboy.StateRetrying:
			return w.settings.retryPause + soon
		case d.state == amboy.StateScheduled:
			return c.LeaseTime + soon // no backoff is longer than a lease
		case d.state == amboy.StateRunning && !d.asked:
			return atOnce
		case d.state == amboy.StateRunning && !w.settings.notified:
			return c.LeaseTime/4 + soon
		case !w.settings.notified, d.state == amboy.StateExpired && d.lease > 0:
			return w.settings.safetyNet() + soon // a job that was handed back has no timer: all workers may be busy
		default:
			return soon
		}
	}
	bound := c.LeaseTime + c.LeaseTime/4 + w.settings.safetyNet()
	switch d.state {
	case amboy.StateRetrying:
		bound += c.RetryScan + w.settings.retryPause + retryLimit
	case amboy.StateScheduled: // after a backoff, which does not exceed a lease
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
		attempt: r.RetryInfo.CurrentAttempt, lease: r.Status.ModificationCount, asked: r.CancelRequested,
	}
	if found.state == amboy.StatePending {
		found.turn = w.checker.LeasesBefore(t)
	}
	if !w.isOwed(t, r, found.state) {
		delete(w.owed, t.ID)
		return
	}
	before, ok := w.owed[t.ID]
	found.since = before.since
	if !ok || found != before {
		found.since = w.now
		w.owed[t.ID] = found
		return
	}
	if late := w.now - before.since; late > w.bound(before) {
		w.violate(Late, t.ID, "it is %s for %s, attempt %d, lease %d", found.state, late, found.attempt, found.lease)
	}
}

// isOwed reports whether something should happen with a job.
func (w *World) isOwed(t *Task, r *driver.Record, state amboy.JobState) bool {
	switch state {
	case amboy.StatePending:
		return w.hasIdleWorker(t)
	case amboy.StateRunning:
		run := w.runWith(driver.LeaseOf(r))
		if run == nil && w.awaitsAlone(driver.LeaseOf(r)) {
			return false
		}
		return !t.Refused && (run == nil || r.CancelRequested && run.Cause() == nil)
	case amboy.StateRetrying, amboy.StateExpired:
		return true
	case amboy.StateScheduled:
		// It may be ready nevertheless, by the fast clock of a process.
		return r.RetryInfo.CurrentAttempt > 0 && w.hasIdleWorker(t)
	case amboy.StateParked:
		return false // an operator must unpark it
	default:
		return false
	}
}

// hasIdleWorker reports whether a waiting worker may run a task.
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

// runWith returns the unreturned run with a lease, or nil.
func (w *World) runWith(l driver.Lease) *run {
	for _, p := range w.processes {
		for _, r := range p.runs {
			if r.Lease == l && !r.returned {
				return r
			}
		}
	}
	return nil
}
