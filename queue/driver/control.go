package driver

import (
	"time"

	"github.com/mongodb/amboy"
)

// Control is what a person has set for a queue. It is kept in the store, and holds
// for all processes. Paused keeps records from being claimed, but for those that
// have expired. Draining keeps records from being inserted; retries of those that
// are there go on. Records that were claimed because they have expired are counted
// among those that run, and claimed beyond MaxRunning.
type Control = amboy.QueueControl

// ControlChange changes a Control. Fields that are nil stay as they are.
type ControlChange struct {
	Paused     *bool
	Draining   *bool
	MaxRunning *int
}

// Apply returns the control with the change made.
func (c ControlChange) Apply(to Control) Control {
	if c.Paused != nil {
		to.Paused = *c.Paused
	}
	if c.Draining != nil {
		to.Draining = *c.Draining
	}
	if c.MaxRunning != nil {
		to.MaxRunning = *c.MaxRunning
	}
	return to
}

// QueueInfo describes a queue of a store.
type QueueInfo struct {
	Name    string
	Control Control
	Stats   amboy.QueueStats
}

// Progress is how far a running job has come.
type Progress = amboy.JobProgress

// Duty is work that one of the processes on a store does for all of them, for
// instance its maintenance.
type Duty struct {
	// Name is that of the duty.
	Name string
	// Owner takes it on.
	Owner string
	// For is how long the duty is the owner's, unless renewed. It is the same for all
	// processes. Zero gives it up.
	For time.Duration
}
