package management

import (
	"fmt"
	"slices"

	"github.com/mongodb/amboy"
)

// StatusFilter selects jobs by their progress.
type StatusFilter string

// The status filters. Every method of a Manager that takes a filter accepts all of them.
const (
	// Pending selects the jobs that have not started: due, scheduled, blocked and parked
	// jobs.
	Pending StatusFilter = "pending"
	// InProgress selects the running jobs.
	InProgress StatusFilter = "in-progress"
	// Stale selects the running jobs whose lease was not renewed within the lock timeout
	// of the queue: their process has stopped or hangs. Jobs by reference have no lease,
	// and are never stale. Neither are jobs of outside workers, whose leases may be longer.
	Stale StatusFilter = "stale"
	// Completed selects the jobs that have ended, including those that await a retry.
	Completed StatusFilter = "completed"
	// Retrying selects the jobs that await a retry: an attempt has failed, and was not yet
	// replaced by the next one, which is pending.
	Retrying StatusFilter = "retrying"
	// StaleRetrying selects the retrying jobs whose lease is older than the lock timeout
	// of the queue, so that probably no process is retrying them.
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

// states returns the states of the jobs that the filter may select; nil for all.
func (f StatusFilter) states() []amboy.JobState {
	switch f {
	case Pending:
		// An expired job may not have been marked complete yet.
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

// unfinishedStates returns states without those in which every job has ended for good.
func (f StatusFilter) unfinishedStates() []amboy.JobState {
	states := f.states()
	if states == nil {
		states = amboy.JobStates()
	}
	return slices.DeleteFunc(states, func(s amboy.JobState) bool {
		return s.IsFinal() && s != amboy.StateExpired
	})
}

// selects reports whether the filter selects a job.
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
