package management

import (
	"fmt"
	"slices"

	"github.com/mongodb/amboy"
)

// StatusFilter selects jobs by how far they have come.
type StatusFilter string

// The filters. Every method of a Manager takes each of them.
const (
	// Pending selects the jobs that have not started: those that are due, and those
	// that are scheduled, blocked or parked.
	Pending StatusFilter = "pending"
	// InProgress selects the jobs that run.
	InProgress StatusFilter = "in-progress"
	// Stale selects the jobs that run under a lease that was not renewed for the
	// lock timeout of the queue: their process is gone, or hangs. Jobs by reference
	// have no lease, and are never stale.
	Stale StatusFilter = "stale"
	// Completed selects the jobs that have ended, and those that await their retry.
	Completed StatusFilter = "completed"
	// Retrying selects the jobs that await their retry: an attempt has failed, and
	// is not yet replaced by the next one, which is pending.
	Retrying StatusFilter = "retrying"
	// StaleRetrying selects those among them whose lease is older than the lock
	// timeout of the queue, so that nobody seems to see to their retry.
	StaleRetrying StatusFilter = "stale-retrying"
	// All selects all jobs.
	All StatusFilter = "all"
)

// ValidStatusFilters lists the filters.
func ValidStatusFilters() []StatusFilter {
	return []StatusFilter{Pending, InProgress, Stale, Completed, Retrying, StaleRetrying, All}
}

// Validate returns an *InvalidArgumentError for a filter that does not exist.
func (f StatusFilter) Validate() error {
	if slices.Contains(ValidStatusFilters(), f) {
		return nil
	}
	return invalid("filter", string(f), fmt.Sprintf("must be one of %q", ValidStatusFilters()))
}

// states are those that a job may be in which the filter selects; none for all.
func (f StatusFilter) states() []amboy.JobState {
	switch f {
	case Pending:
		// One that has expired may not have been ended yet.
		return []amboy.JobState{amboy.StateScheduled, amboy.StatePending, amboy.StateBlocked, amboy.StateParked, amboy.StateExpired}
	case InProgress, Stale:
		return []amboy.JobState{amboy.StateRunning}
	case Completed:
		return []amboy.JobState{amboy.StateRetrying, amboy.StateSucceeded, amboy.StateFailed, amboy.StateCanceled, amboy.StateExpired}
	case Retrying, StaleRetrying:
		return []amboy.JobState{amboy.StateRetrying}
	default:
		return nil
	}
}

// unfinishedStates are states without those in which every job has ended for good.
func (f StatusFilter) unfinishedStates() []amboy.JobState {
	states := f.states()
	if states == nil {
		states = amboy.JobStates()
	}
	return slices.DeleteFunc(states, func(s amboy.JobState) bool {
		return s.IsFinal() && s != amboy.StateExpired
	})
}

// selects tells whether the filter selects a job.
func (f StatusFilter) selects(j *seen) bool {
	switch f {
	case Pending:
		return j.progress == pending
	case InProgress:
		return j.progress == running
	case Stale:
		return j.progress == running && j.stale
	case Completed:
		return j.progress == retrying || j.progress == ended
	case Retrying:
		return j.progress == retrying
	case StaleRetrying:
		return j.progress == retrying && j.stale
	default:
		return true
	}
}
