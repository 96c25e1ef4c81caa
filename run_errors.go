package amboy

import (
	"errors"
	"time"
)

// nonRetryableError marks an error that another attempt would not mend.
type nonRetryableError struct{ error }

func (e *nonRetryableError) Unwrap() error { return e.error }

// NonRetryable marks err, so that IsNonRetryable is true for it. A job that reports
// it is not tried again, even if it does so with AddRetryableError. It returns nil
// for nil.
func NonRetryable(err error) error {
	if err == nil {
		return nil
	}
	return &nonRetryableError{err}
}

// IsNonRetryable is true for an error, however wrapped, that NonRetryable marked, and
// for a *CancelError.
func IsNonRetryable(err error) bool {
	var marked *nonRetryableError
	var canceled *CancelError
	return errors.As(err, &marked) || errors.As(err, &canceled)
}

// CancelError is the error of a job that wants to end as canceled, and not to be
// tried again. It is reported as any error.
type CancelError struct {
	// Err is the reason. It may be nil.
	Err error
}

// Error gives the reason.
func (e *CancelError) Error() string {
	if e.Err == nil {
		return "the job canceled itself"
	}
	return "the job canceled itself: " + e.Err.Error()
}

// Unwrap returns the reason.
func (e *CancelError) Unwrap() error { return e.Err }

// MinSnooze is the shortest time for which a queue snoozes a job. The job keeps its
// place, so that jobs behind it would never have a turn otherwise. It is longer than a
// busy store takes for a claim.
const MinSnooze = 10 * time.Millisecond

// SnoozeError asks for a job to run again later, without using an attempt. It is no
// failure: jobs and middleware return it, or report it as an error, and it is not
// added to the job's errors.
type SnoozeError struct {
	// Until is when the job may run again; a time that has come means after
	// MinSnooze.
	Until time.Time
}

// Error gives the time.
func (e *SnoozeError) Error() string {
	return "the job is to run again at " + e.Until.Format(time.RFC3339Nano)
}

// Time is Until, and the time of the call where that is zero.
func (e *SnoozeError) Time() time.Time {
	if e.Until.IsZero() {
		return time.Now()
	}
	return e.Until
}

// SnoozableJob is implemented by jobs that can ask to run again later. job.Base
// implements it.
type SnoozableJob interface {
	// Snooze asks for the job to run again at a time, once this run has ended
	// without an error. Such a run is not an attempt: the queue takes the job back
	// as if it had not run. The zero time takes that back.
	Snooze(until time.Time)
	// SnoozedUntil is the time that was asked for, zero for none.
	SnoozedUntil() time.Time
}

// SnoozedUntil is when a job whose run has ended wants to run again; zero for one
// that reported an error, that did not ask, or whose type can't.
func SnoozedUntil(j Job) time.Time {
	s, ok := j.(SnoozableJob)
	if !ok {
		return time.Time{}
	}
	until := s.SnoozedUntil()
	if until.IsZero() || j.Error() != nil {
		return time.Time{}
	}
	return until
}

// snoozeOf is the *SnoozeError of a job whose run has ended; nil where it did not ask.
func snoozeOf(j Job) error {
	if until := SnoozedUntil(j); !until.IsZero() {
		return &SnoozeError{Until: until}
	}
	return nil
}

// attemptError is what RunAttempt returns of a job's errors, so that middleware's
// own can be told from them.
type attemptError struct{ error }

func (e *attemptError) Unwrap() error { return e.error }
