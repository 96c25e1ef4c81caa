package management

import (
	"time"

	"github.com/mongodb/amboy"
)

// Count is a number of jobs.
type Count struct {
	Count int `json:"count"`
	// More is true if more jobs exist, or may exist, than were counted.
	More bool `json:"more"`
}

// StateCountRequest requests the numbers of jobs in each state.
type StateCountRequest struct {
	Filter JobFilter `json:"filter"`
	// Most is the largest number that is counted in each state, up to MaxCount; 0 means
	// MaxCount.
	Most int `json:"most,omitempty"`
	// Within is about how long jobs are counted, up to MaxCountTime; 0 means MaxCountTime.
	Within time.Duration `json:"within,omitempty"`
}

// StateCount is the number of jobs in a state. More is true too if counting took too long; then
// Count may be 0.
type StateCount struct {
	State amboy.JobState `json:"state"`
	Count
}

// StateCounts counts jobs by their states.
type StateCounts struct {
	// Scheduled, Pending, Blocked, Parked, Running, Retrying, Succeeded, Failed, Canceled and
	// Expired are the numbers of jobs in these states. A state without jobs is absent.
	Scheduled int `json:"scheduled,omitempty"`
	Pending   int `json:"pending,omitempty"`
	Blocked   int `json:"blocked,omitempty"`
	Parked    int `json:"parked,omitempty"`
	Running   int `json:"running,omitempty"`
	Retrying  int `json:"retrying,omitempty"`
	Succeeded int `json:"succeeded,omitempty"`
	Failed    int `json:"failed,omitempty"`
	Canceled  int `json:"canceled,omitempty"`
	Expired   int `json:"expired,omitempty"`
}

// field returns the number of a state; nil if the state does not exist.
func (c *StateCounts) field(state amboy.JobState) *int {
	switch state {
	case amboy.StateScheduled:
		return &c.Scheduled
	case amboy.StatePending:
		return &c.Pending
	case amboy.StateBlocked:
		return &c.Blocked
	case amboy.StateParked:
		return &c.Parked
	case amboy.StateRunning:
		return &c.Running
	case amboy.StateRetrying:
		return &c.Retrying
	case amboy.StateSucceeded:
		return &c.Succeeded
	case amboy.StateFailed:
		return &c.Failed
	case amboy.StateCanceled:
		return &c.Canceled
	case amboy.StateExpired:
		return &c.Expired
	default:
		return nil
	}
}

// Of returns the number of jobs in a state; 0 for a state that does not exist.
func (c StateCounts) Of(state amboy.JobState) int {
	if n := c.field(state); n != nil {
		return *n
	}
	return 0
}

// Add adds the numbers of other jobs.
func (c *StateCounts) Add(other StateCounts) {
	for _, state := range amboy.JobStates() {
		*c.field(state) += other.Of(state)
	}
}
