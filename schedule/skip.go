package schedule

import (
	"context"
	"fmt"
	"time"

	"github.com/mongodb/amboy"
)

// ValidateName returns an *InvalidError for a name that Scheduler.Add refuses.
func ValidateName(name string) error {
	if !isName(name) {
		return &InvalidError{Field: "name", Value: name, Rule: nameRule}
	}
	return nil
}

// Skip keeps all processes from putting the jobs of the ticks of a schedule up to a time: it
// marks them as put. It is for a schedule that was paused, or that replaces another. It never
// takes back an earlier Skip. It returns an error if the queue is not an amboy.QueueMarker,
// and the queue's errors.
func Skip(ctx context.Context, q amboy.Queue, name string, until time.Time) error {
	if q == nil {
		return fmt.Errorf("skipping ticks of schedule %q: the queue must not be nil", name)
	}
	open, err := newOpenQueue(q)
	if err == nil {
		_, err = open.marker.Mark(ctx, lastMark(name), wholeMilliseconds(until))
	}
	if err != nil {
		return fmt.Errorf("skipping ticks of schedule %q of queue %q: %w", name, q.ID(), err)
	}
	return nil
}
