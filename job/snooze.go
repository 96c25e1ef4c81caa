package job

import (
	"context"
	"errors"
	"time"

	"github.com/mongodb/amboy"
)

// Snooze returns an error for a typed job's function to return. It makes the function run
// again after a delay, with the same arguments (see Checkpoint), without using up an
// attempt. A hand-written job passes it to AddError, or calls its own Snooze method. For a
// negative delay the result is an *amboy.InvalidJobError, which fails the job.
func Snooze(delay time.Duration) error {
	if delay < 0 {
		return &amboy.InvalidJobError{Field: "snooze delay", Value: delay, Rule: "must not be negative"}
	}
	return &snoozeError{amboy.SnoozeError{Until: time.Now().Add(delay)}, delay}
}

// Cancel returns an error for a typed job's function to return. It ends the job as
// canceled, with that reason and without another attempt. A hand-written job passes it to
// AddError. The reason may be nil.
func Cancel(reason error) error { return &amboy.CancelError{Err: reason} }

// snoozeError is the error that Snooze returns. It keeps the delay, so that it can be
// counted by the clock of the job's queue.
type snoozeError struct {
	amboy.SnoozeError
	delay time.Duration
}

// Unwrap returns the error type that queues handle.
func (e *snoozeError) Unwrap() error { return &e.SnoozeError }

// onQueueClock counts the delay of an error of Snooze by the clock of the queue that runs
// the job. It returns any other error unchanged.
func onQueueClock(ctx context.Context, err error) error {
	var snooze *snoozeError
	if !errors.As(err, &snooze) {
		return err
	}
	return &amboy.SnoozeError{Until: amboy.Now(amboy.QueueFromContext(ctx)).Add(snooze.delay)}
}
