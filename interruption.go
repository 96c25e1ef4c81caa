package amboy

import (
	"fmt"
	"slices"
	"time"
)

const (
	// DefaultMaxInterruptions is how often a job may be interrupted before it is parked,
	// unless its queue or the job itself sets another limit.
	DefaultMaxInterruptions = 10
	// MaxListedInterruptions is how many of its latest interruptions a job lists.
	MaxListedInterruptions = 20
)

// Interruption is a run whose lease expired before the run ended: its process died or
// lost its connection to the store.
type Interruption struct {
	// Owner held the lease.
	Owner string `bson:"owner" json:"owner" yaml:"owner"`
	// Start is when the run began.
	Start time.Time `bson:"start" json:"start" yaml:"start"`
	// LeaseEnded is when the lease ended, by the clock that was used then. It is zero if that is
	// not known, as in interruptions that earlier versions of this library recorded.
	LeaseEnded time.Time `bson:"lease_ended,omitempty" json:"lease_ended,omitzero" yaml:"lease_ended,omitempty"`
	// At is when the lease was recovered.
	At time.Time `bson:"at" json:"at" yaml:"at"`
}

// Interruptions are the interruptions of one attempt of a job. Handing a job back, as when
// its process stops, is not an interruption. A value is immutable once it is in a status;
// its methods return new values. A nil *Interruptions is empty.
type Interruptions struct {
	// Count is the number of interruptions since the attempt began, or since an
	// operator released the job.
	Count int `bson:"count" json:"count" yaml:"count"`
	// Latest lists the latest ones, oldest first, at most MaxListedInterruptions.
	Latest []Interruption `bson:"latest" json:"latest" yaml:"latest"`
}

// Total returns Count, or 0 for nil.
func (i *Interruptions) Total() int {
	if i == nil {
		return 0
	}
	return i.Count
}

// With returns a copy with one more interruption.
func (i *Interruptions) With(another Interruption) *Interruptions {
	next := &Interruptions{Count: i.Total() + 1}
	if i != nil {
		next.Latest = slices.Clone(i.Latest[max(0, len(i.Latest)-MaxListedInterruptions+1):])
	}
	next.Latest = append(next.Latest, another)
	return next
}

// Forgiven returns a copy with the same list and a count of 0, for a job that an operator
// releases.
func (i *Interruptions) Forgiven() *Interruptions {
	if i == nil {
		return nil
	}
	return &Interruptions{Latest: i.Latest}
}

// InterruptedError is why a job is parked that was interrupted too often. The job itself
// may be what kills its processes.
type InterruptedError struct {
	// Interruptions are the interruptions of the job.
	Interruptions *Interruptions
	// Limit is how many interruptions were allowed.
	Limit int
}

// Error includes the numbers and the latest interruption.
func (e *InterruptedError) Error() string {
	text := fmt.Sprintf("interrupted %d times (limit %d)", e.Interruptions.Total(), e.Limit)
	if e.Interruptions.Total() == 0 || len(e.Interruptions.Latest) == 0 {
		return text
	}
	last := e.Interruptions.Latest[len(e.Interruptions.Latest)-1]
	return fmt.Sprintf("%s: the lease of %s ran out, last at %s", text, last.Owner, last.At.UTC().Format(time.RFC3339))
}
