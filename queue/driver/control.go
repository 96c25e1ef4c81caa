package driver

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
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
	// Rate replaces the rate, and NoRate removes it.
	Rate   *amboy.Rate
	NoRate bool
	// Type replaces the limit of a job type.
	Type *TypeChange
}

// TypeChange replaces the limit of a job type. The zero limit removes it.
type TypeChange struct {
	Type  string
	Limit amboy.TypeLimit
}

// Validate returns an error if a setting is out of range.
func (c ControlChange) Validate() error {
	var errs []error
	if c.MaxRunning != nil && *c.MaxRunning < 0 {
		errs = append(errs, fmt.Errorf("MaxRunning must not be negative (is %d)", *c.MaxRunning))
	}
	if c.Rate != nil && c.NoRate {
		errs = append(errs, errors.New("either Rate or NoRate may be set, and not both"))
	}
	if c.Rate != nil {
		errs = append(errs, c.Rate.Validate())
	}
	if c.Type != nil {
		errs = append(errs, amboy.ValidateTypeLimit(c.Type.Type, c.Type.Limit))
	}
	return errors.Join(errs...)
}

// Apply returns the control with the change made. It returns an error if too many types would
// have a limit.
func (c ControlChange) Apply(to Control) (Control, error) {
	if c.Paused != nil {
		to.Paused = *c.Paused
	}
	if c.Draining != nil {
		to.Draining = *c.Draining
	}
	if c.MaxRunning != nil {
		to.MaxRunning = *c.MaxRunning
	}
	if c.NoRate {
		to.Rate = nil
	}
	if c.Rate != nil {
		rate := *c.Rate
		to.Rate = &rate
	}
	if c.Type != nil {
		to.Types = c.Type.apply(to.Types)
		if len(to.Types) > amboy.MaxTypeLimits {
			return to, fmt.Errorf("at most %d types of a queue can have a limit", amboy.MaxTypeLimits)
		}
	}
	return to, nil
}

// apply returns a changed copy of the limits of types; nil if there are none left.
func (c *TypeChange) apply(limits map[string]amboy.TypeLimit) map[string]amboy.TypeLimit {
	changed := maps.Clone(limits)
	delete(changed, c.Type)
	if !c.Limit.IsZero() {
		if changed == nil {
			changed = map[string]amboy.TypeLimit{}
		}
		limit := c.Limit
		if limit.Rate != nil {
			limit.Rate = new(*limit.Rate)
		}
		changed[c.Type] = limit
	}
	if len(changed) == 0 {
		return nil
	}
	return changed
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

// Unfinished counts the records that have not ended for good.
func (q QueueInfo) Unfinished() int { return q.Stats.Pending + q.Stats.Running + q.Stats.Retrying }

// Ready counts the pending records that can start. A record whose time has come counts as
// scheduled until the store next compares it.
func (q QueueInfo) Ready() int {
	return max(0, q.Stats.Pending-q.Stats.Blocked-q.Scheduled-q.Parked)
}

// QueueRequest asks for a part of the queues. The zero QueueRequest asks for all of them.
type QueueRequest struct {
	// From is the lowest name that is included. The part after a queue begins with
	// NextName of its name.
	From string
	// Limit is the maximum number of queues; 0 means no limit.
	Limit int
}

// Validate returns an error for a negative limit.
func (r QueueRequest) Validate() error {
	if r.Limit < 0 {
		return fmt.Errorf("invalid request for queues: Limit must not be negative (is %d)", r.Limit)
	}
	return nil
}

// NextName returns the lowest name that sorts after a name.
func NextName(name string) string { return name + "\x00" }

// QueueTotals describes the queues of a store together.
type QueueTotals struct {
	// Queues is the number of queues, and Stats, Scheduled and Parked are the sums of the
	// fields of QueueInfo.
	Queues            int
	Stats             amboy.QueueStats
	Scheduled, Parked int
	// Busiest are the queues with the most records that have not ended for good, in
	// descending order of that number, and then by name. Queues without such records are
	// left out.
	Busiest []QueueInfo
}

// Add adds a queue. It keeps at most the given number of the busiest queues.
func (t *QueueTotals) Add(info QueueInfo, busiest int) {
	t.Queues++
	t.Stats.Total += info.Stats.Total
	t.Stats.Pending += info.Stats.Pending
	t.Stats.Blocked += info.Stats.Blocked
	t.Stats.Running += info.Stats.Running
	t.Stats.Retrying += info.Stats.Retrying
	t.Stats.Completed += info.Stats.Completed
	t.Scheduled += info.Scheduled
	t.Parked += info.Parked
	if info.Unfinished() == 0 {
		return
	}
	at, _ := slices.BinarySearchFunc(t.Busiest, info, func(a, b QueueInfo) int {
		return cmp.Or(cmp.Compare(b.Unfinished(), a.Unfinished()), cmp.Compare(a.Name, b.Name))
	})
	if at < busiest {
		t.Busiest = slices.Insert(t.Busiest[:min(len(t.Busiest), busiest-1)], at, info)
	}
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
