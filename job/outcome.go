package job

import (
	"context"
	"errors"
	"time"

	"github.com/mongodb/amboy"
)

// Snooze makes the function of a typed job that returns it run again after a delay,
// with the same arguments (see Checkpoint), without using an attempt. A job that is
// written by hand reports it with AddError, or calls its own Snooze. For a negative
// delay it returns an *amboy.InvalidJobError, with which the job fails.
func Snooze(delay time.Duration) error {
	if delay < 0 {
		return &amboy.InvalidJobError{Field: "snooze delay", Value: delay, Rule: "must not be negative"}
	}
	return &snoozeError{amboy.SnoozeError{Until: time.Now().Add(delay)}, delay}
}

// Cancel makes the function of a typed job that returns it end the job as canceled,
// with that reason, and without another attempt. A job that is written by hand
// reports it with AddError. nil stands for no reason.
func Cancel(reason error) error { return &amboy.CancelError{Err: reason} }

// snoozeError is what Snooze returns: whoever knows the queue counts the delay by
// its clock.
type snoozeError struct {
	amboy.SnoozeError
	delay time.Duration
}

// Unwrap returns the error that queues know.
func (e *snoozeError) Unwrap() error { return &e.SnoozeError }

// inTimeOf counts the delay of Snooze by the clock of the queue in which a job runs.
func inTimeOf(ctx context.Context, err error) error {
	var snooze *snoozeError
	if !errors.As(err, &snooze) {
		return err
	}
	return &amboy.SnoozeError{Until: amboy.Now(amboy.QueueFromContext(ctx)).Add(snooze.delay)}
}
