package amboy

import (
	"errors"
	"time"
)

// nonRetryableError marks an error that another attempt would not fix.
type nonRetryableError struct{ error }

func (e *nonRetryableError) Unwrap() error { return e.error }

// NonRetryable wraps err so that IsNonRetryable is true for it. A job that reports such
// an error is not retried, even if it reports it with AddRetryableError. NonRetryable
// returns nil if err is nil.
func NonRetryable(err error) error {
	if err == nil {
		return nil
	}
	return &nonRetryableError{err}
}

// IsNonRetryable reports whether err is, or wraps, an error marked by NonRetryable or a
// *CancelError.
func IsNonRetryable(err error) bool {
	var marked *nonRetryableError
	var canceled *CancelError
	return errors.As(err, &marked) || errors.As(err, &canceled)
}

// CancelError ends the job that reports it as canceled, without a retry. A job reports
// it like any other error.
type CancelError struct {
	// Err is the reason. It may be nil.
	Err error
}

// Error includes the reason.
func (e *CancelError) Error() string {
	if e.Err == nil {
		return "the job canceled itself"
	}
	return "the job canceled itself: " + e.Err.Error()
}

// Unwrap returns the reason.
func (e *CancelError) Unwrap() error { return e.Err }

// MinSnooze is the shortest time for which a queue snoozes a job. A snoozed job keeps
// its place in the queue, so without a minimum the jobs behind it would never run. It is
// longer than a claim takes on a busy store.
const MinSnooze = 10 * time.Millisecond

// SnoozeError asks for a job to run again later without using up an attempt. It is not a
// failure: jobs and middleware return it, or report it as an error, and it is not added
// to the job's errors.
type SnoozeError struct {
	// Until is when the job may run again. If it has passed, the job runs again
	// after MinSnooze.
	Until time.Time
}

// Error includes the time.
func (e *SnoozeError) Error() string {
	return "job snoozed until " + e.Until.Format(time.RFC3339Nano)
}

// Time returns Until, or the time of the call if Until is zero.
func (e *SnoozeError) Time() time.Time {
	if e.Until.IsZero() {
		return time.Now()
	}
	return e.Until
}

// SnoozableJob is implemented by jobs that can ask to run again later. job.Base
// implements it.
type SnoozableJob interface {
	// Snooze asks for the job to run again at until, once this run has ended without
	// an error. Such a run is not an attempt: the queue takes the job back as if it
	// had not run. The zero time cancels the request.
	Snooze(until time.Time)
	// SnoozedUntil is the requested time, or zero if none was requested.
	SnoozedUntil() time.Time
}

// SnoozedUntil returns when a job whose run has ended wants to run again. It returns zero
// if the job reported an error, did not ask for it, or is not a SnoozableJob.
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

// snoozeOf returns a *SnoozeError if a job whose run has ended asked to run again later,
// and nil otherwise.
func snoozeOf(j Job) error {
	if until := SnoozedUntil(j); !until.IsZero() {
		return &SnoozeError{Until: until}
	}
	return nil
}

// attemptError wraps the job's own errors that RunAttempt returns, to distinguish them
// from errors of middleware.
type attemptError struct{ error }

func (e *attemptError) Unwrap() error { return e.error }
