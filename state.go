package amboy

import "time"

// JobState is a stage in the life of a job.
type JobState string

// The states of a job.
const (
	// StateScheduled: the job waits for its wait-until time.
	StateScheduled JobState = "scheduled"
	// StatePending: the job may run and waits for a worker.
	StatePending JobState = "pending"
	// StateBlocked: the job waits for a scope that another job holds, or for an
	// unfinished dependency.
	StateBlocked JobState = "blocked"
	// StateParked: the job is set aside until an operator releases it. It can't be
	// decoded, was interrupted too often, or was parked by an operator.
	StateParked JobState = "parked"
	// StateRunning: a worker runs the job.
	StateRunning JobState = "running"
	// StateRetrying: the attempt failed and waits to be replaced by the next one.
	StateRetrying JobState = "retrying"
	// StateSucceeded: the job ended without an error.
	StateSucceeded JobState = "succeeded"
	// StateFailed: the job ended with an error.
	StateFailed JobState = "failed"
	// StateCanceled: the job was aborted.
	StateCanceled JobState = "canceled"
	// StateExpired: the job did not start by its dispatch-by time.
	StateExpired JobState = "expired"
)

// JobStates lists the states in the order of a job's life.
func JobStates() []JobState {
	return []JobState{
		StateScheduled, StatePending, StateBlocked, StateParked, StateRunning,
		StateRetrying, StateSucceeded, StateFailed, StateCanceled, StateExpired,
	}
}

// IsFinal reports whether s is a state that a job never leaves.
func (s JobState) IsFinal() bool {
	switch s {
	case StateSucceeded, StateFailed, StateCanceled, StateExpired:
		return true
	default:
		return false
	}
}

// Outcome is how a job ended, if the two booleans and the errors of its status do
// not show it.
type Outcome string

// The possible outcomes.
const (
	// OutcomeCanceled: the job was aborted.
	OutcomeCanceled Outcome = "canceled"
	// OutcomeExpired: the job was not started by its dispatch-by time.
	OutcomeExpired Outcome = "expired"
)

// Hold is why an unfinished job is kept from running.
type Hold string

// The possible holds.
const (
	// HoldBlocked: the job waits for a scope or a dependency.
	HoldBlocked Hold = "blocked"
	// HoldParked: the job waits until an operator releases it (see StateParked).
	HoldParked Hold = "parked"
)

// StateOf derives the state of a job from its info at the time now. It does not read
// the State field. Every part of the library that needs a state calls this function.
func StateOf(info JobInfo, now time.Time) JobState {
	status := info.Status
	switch {
	case status.Completed && info.Retry.ShouldRetry():
		return StateRetrying
	case status.Completed && status.Outcome == OutcomeCanceled:
		return StateCanceled
	case status.Completed && status.Outcome == OutcomeExpired:
		return StateExpired
	case status.Completed && (status.ErrorCount > 0 || len(status.Errors) > 0):
		return StateFailed
	case status.Completed:
		return StateSucceeded
	case status.InProgress:
		return StateRunning
	case status.Hold == HoldParked:
		return StateParked
	case info.Time.isStaleAt(now):
		return StateExpired
	case status.Hold == HoldBlocked:
		return StateBlocked
	case info.Time.WaitUntil.After(now):
		return StateScheduled
	default:
		return StatePending
	}
}
