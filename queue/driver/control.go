package driver

import (
	"time"

	"github.com/mongodb/amboy"
)

// Control holds an operator's settings of a queue. They are kept in the store and apply
// to all processes. Paused keeps records from being claimed, except expired ones.
// Draining keeps records from being inserted, except retries of stored records. Records
// that were claimed because they expired count as running, but are claimed beyond
// MaxRunning.
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
	// Used is when a record of the queue was last put or changed its state, or its control
	// was changed. It is zero if the store does not keep that.
	Used time.Time
	// Scheduled counts the pending jobs whose wait-until time had not come when the store
	// last compared it, and Parked the parked jobs. Neither includes blocked jobs.
	Scheduled, Parked int
}

// Progress is how far a running job has come.
type Progress = amboy.JobProgress

// Duty is work that one process does for all processes on a store, for instance
// maintenance.
type Duty struct {
	// Name identifies the duty.
	Name string
	// Owner is the process that takes the duty.
	Owner string
	// For is how long the owner has the duty unless it is renewed. It is the same for all
	// processes. Zero gives the duty up.
	For time.Duration
}
