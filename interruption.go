package amboy

import (
	"fmt"
	"slices"
	"time"
)

const (
	// DefaultMaxInterruptions is how often a job may be interrupted before it is parked,
	// unless its queue or the job itself says otherwise.
	DefaultMaxInterruptions = 10
	// MaxListedInterruptions is the number of interruptions that a job lists: the latest.
	MaxListedInterruptions = 20
)

// Interruption is a run whose lease ran out while it was under way: its process died, or
// was cut off from the store.
type Interruption struct {
	// Owner held the lease.
	Owner string `bson:"owner" json:"owner" yaml:"owner"`
	// Start is when the run began.
	Start time.Time `bson:"start" json:"start" yaml:"start"`
	// At is when the lease was recovered.
	At time.Time `bson:"at" json:"at" yaml:"at"`
}

// Interruptions are those of an attempt of a job. A job that is handed back, as at the
// stop of its process, is not interrupted. A value never changes once it is in a status;
// its methods return others. nil has none.
type Interruptions struct {
	// Count is how many there were since the attempt began, or an operator released the
	// job.
	Count int `bson:"count" json:"count" yaml:"count"`
	// Latest lists them, the oldest first, at most MaxListedInterruptions of them.
	Latest []Interruption `bson:"latest" json:"latest" yaml:"latest"`
}

// Total is Count, and 0 for nil.
func (i *Interruptions) Total() int {
	if i == nil {
		return 0
	}
	return i.Count
}

// With returns the interruptions and another one.
func (i *Interruptions) With(another Interruption) *Interruptions {
	next := &Interruptions{Count: i.Total() + 1}
	if i != nil {
		next.Latest = slices.Clone(i.Latest[max(0, len(i.Latest)-MaxListedInterruptions+1):])
	}
	next.Latest = append(next.Latest, another)
	return next
}

// Forgiven returns the list with a count of 0, for a job that an operator releases.
func (i *Interruptions) Forgiven() *Interruptions {
	if i == nil {
		return nil
	}
	return &Interruptions{Latest: i.Latest}
}

// InterruptedError is why a job is parked that was interrupted too often: it may be what
// ends its processes.
type InterruptedError struct {
	// Interruptions are those of the job.
	Interruptions *Interruptions
	// Limit is how many were allowed.
	Limit int
}

// Error gives the numbers and the latest interruption.
func (e *InterruptedError) Error() string {
	text := fmt.Sprintf("it was interrupted %d times, and may be %d times", e.Interruptions.Total(), e.Limit)
	if e.Interruptions.Total() == 0 || len(e.Interruptions.Latest) == 0 {
		return text
	}
	last := e.Interruptions.Latest[len(e.Interruptions.Latest)-1]
	return fmt.Sprintf("%s: the lease of %s ran out, last at %s", text, last.Owner, last.At.UTC().Format(time.RFC3339))
}
