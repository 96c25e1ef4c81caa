package amboy

import "time"

// JobState is where a job stands in its life.
type JobState string

// The states of a job.
const (
	// StateScheduled waits for its wait-until time.
	StateScheduled JobState = "scheduled"
	// StatePending may run and waits for a worker.
	StatePending JobState = "pending"
	// StateBlocked waits for a scope that another job holds, or for a
	// dependency that is not done.
	StateBlocked JobState = "blocked"
	// StateParked is set aside until it is released: its type is unknown here,
	// or a person parked it.
	StateParked JobState = "parked"
	// StateRunning is run by a worker.
	StateRunning JobState = "running"
	// StateRetrying failed, and waits to be replaced by its next attempt.
	StateRetrying JobState = "retrying"
	// StateSucceeded ended without an error.
	StateSucceeded JobState = "succeeded"
	// StateFailed ended with an error.
	StateFailed JobState = "failed"
	// StateCanceled was aborted.
	StateCanceled JobState = "canceled"
	// StateExpired did not start by its dispatch-by time.
	StateExpired JobState = "expired"
)

// JobStates lists the states, in the order of a job's life.
func JobStates() []JobState {
	return []JobState{
		StateScheduled, StatePending, StateBlocked, StateParked, StateRunning,
		StateRetrying, StateSucceeded, StateFailed, StateCanceled, StateExpired,
	}
}

// IsFinal is true for the states that a job never leaves.
func (s JobState) IsFinal() bool {
	switch s {
	case StateSucceeded, StateFailed, StateCanceled, StateExpired:
		return true
	default:
		return false
	}
}

// Outcome tells how a job ended where the two booleans and the errors of its
// status do not tell.
type Outcome string

// The outcomes.
const (
	// OutcomeCanceled means that the job was aborted.
	OutcomeCanceled Outcome = "canceled"
	// OutcomeExpired means that the job was not started by its dispatch-by
	// time.
	OutcomeExpired Outcome = "expired"
)

// Hold tells why an unfinished job is kept from running.
type Hold string

// The holds.
const (
	// HoldBlocked waits for a scope or a dependency.
	HoldBlocked Hold = "blocked"
	// HoldParked waits for a person, or for a process that knows the type.
	HoldParked Hold = "parked"
)

// StateOf derives the state of a job from its info, as it is at a point in
// time. The State field of the info is not read. Every part of the library
// that needs a state calls this function.
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
