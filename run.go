package amboy

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"runtime/debug"
	"strings"
	"time"
	"unicode/utf8"
)

// PanicError is the error of a job's attempt, or of a periodic operation's run, that
// panicked. If the value is an error, errors.Is and errors.As find it.
type PanicError struct {
	// Value is the argument of panic.
	Value any
	// Stack is the stack of the goroutine that panicked.
	Stack []byte
}

// Error includes the argument of panic.
func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v", e.Value) }

// Unwrap returns the value if it is an error, and nil otherwise.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// MaxTimeError is the cause with which a job's context ends when its maximum time is used
// up. errors.Is(err, context.DeadlineExceeded) is true for it.
type MaxTimeError struct{ MaxTime time.Duration }

// Error includes the maximum time.
func (e *MaxTimeError) Error() string {
	return fmt.Sprintf("job ran longer than its maximum time of %s", e.MaxTime)
}

// Is reports whether target is context.DeadlineExceeded.
func (e *MaxTimeError) Is(target error) bool { return target == context.DeadlineExceeded }

// RunJob runs a job without a queue, as a pool would: it applies the job's maximum time,
// sets its time stamps, and records a panic as an error. It ignores dependencies, scopes
// and retries. The job has no queue, even if ctx is the context of a job that has one.
//
// RunJob blocks until the job returns, and returns the job's error. If the job asked to
// run again later, RunJob leaves it incomplete and returns a *SnoozeError. If the job is
// nil or its times are invalid, RunJob runs nothing and returns an *InvalidJobError. It is
// safe for concurrent use with different jobs.
func RunJob(ctx context.Context, j Job) error {
	if IsNilJob(j) {
		return errNilJob
	}
	times := j.TimeInfo()
	if err := times.Validate(); err != nil {
		return withJobID(err, j.ID())
	}
	times.Start, times.End = time.Now(), time.Time{}
	j.SetTimeInfo(times)
	setStatus(j, true, false)
	if s, ok := j.(SnoozableJob); ok {
		s.Snooze(time.Time{}) // forget the request of an earlier run
	}

	runInTime(ContextWithQueue(ctx, nil), j)

	snoozed := snoozeOf(j)
	setStatus(j, false, snoozed == nil)
	j.UpdateTimeInfo(JobTimeInfo{End: time.Now()})
	if snoozed != nil {
		return snoozed
	}
	return j.Error()
}

func setStatus(j Job, running, complete bool) {
	status := j.Status()
	status.InProgress, status.Completed = running, complete
	j.SetStatus(status)
}

// RunAttempt calls a job's Run. It is for runners, and the innermost RunFunc. It blocks
// until Run returns.
//
// The context that it passes to Run ends at the job's maximum time, with a *MaxTimeError
// as its cause. If the maximum time is used up and the job reports no error, the
// *MaxTimeError becomes the job's error, even if the job marked itself complete: jobs
// often do that with a deferred call. A panic is added to the job's errors as a
// *PanicError. A retryable job is retried after either.
//
// RunAttempt returns an error that wraps the job's. If the job has none and asked to run
// again later, it returns a *SnoozeError.
func RunAttempt(ctx context.Context, j Job) error {
	runInTime(ctx, j)
	if err := j.Error(); err != nil {
		return &attemptError{err}
	}
	return snoozeOf(j)
}

// runInTime calls Run with a context that ends at the job's maximum time.
func runInTime(ctx context.Context, j Job) {
	maxTime := j.TimeInfo().MaxTime
	if maxTime <= 0 {
		runRecovering(ctx, j)
		return
	}
	timed, cancel := context.WithTimeoutCause(ctx, maxTime, &MaxTimeError{maxTime})
	defer cancel()
	runRecovering(timed, j)

	timedOut := timed.Err() != nil && ctx.Err() == nil
	if timedOut && j.Error() == nil {
		j.AddRetryableError(context.Cause(timed))
	}
}

func runRecovering(ctx context.Context, j Job) {
	err := recoverPanic(func() error {
		j.Run(ctx)
		return nil
	})
	if err != nil {
		j.AddRetryableError(err)
	}
}

// recoverPanic calls a function and returns its panic as a *PanicError.
func recoverPanic(call func() error) (err error) {
	defer func() {
		if value := recover(); value != nil {
			err = &PanicError{Value: value, Stack: debug.Stack()}
		}
	}()
	return call()
}

// IsNilJob reports whether j is nil or a nil pointer.
func IsNilJob(j Job) bool {
	if j == nil {
		return true
	}
	v := reflect.ValueOf(j)
	return v.Kind() == reflect.Pointer && v.IsNil()
}

var (
	errNilJob   = &InvalidJobError{Field: "job", Rule: "must not be nil"}
	errNilQueue = &InvalidJobError{Field: "queue", Rule: "must not be nil"}
)

// ValidateJob returns an *InvalidJobError for a job that no queue accepts: the job is nil,
// its ID is empty or longer than MaxIDLength, its type's version is negative, its times are
// invalid, a scope is empty, not UTF-8, or breaks a rule of LimitScope, a tag is not UTF-8, or the limit
// on attempts or interruptions is negative.
func ValidateJob(j Job) error {
	if IsNilJob(j) {
		return errNilJob
	}
	id := j.ID()
	refuse := func(field string, value any, rule string) error {
		return &InvalidJobError{JobID: id, Field: field, Value: value, Rule: rule}
	}
	if id == "" {
		return refuse("ID", id, "must not be empty")
	}
	if len(id) > MaxIDLength {
		short := strings.ToValidUTF8(id[:MaxIDLength], "") + "…"
		return &InvalidJobError{JobID: short, Field: "ID", Value: short, Rule: fmt.Sprintf("must be at most %d bytes long, and has %d", MaxIDLength, len(id))}
	}
	if version := j.Type().Version; version < 0 {
		return refuse("type version", version, "must not be negative")
	}
	if err := j.TimeInfo().Validate(); err != nil {
		return withJobID(err, id)
	}
	if field, scope, rule := validateScopes(j.Scopes(), j.EnqueueScopes()); rule != "" {
		return refuse(field, scope, rule)
	}
	for _, tag := range TagsOf(j) {
		if !utf8.ValidString(tag) {
			return refuse("tag", tag, "must be UTF-8")
		}
	}
	if retry := j.RetryInfo(); retry.MaxAttempts < 0 {
		return refuse("max attempts", retry.MaxAttempts, "must not be negative")
	} else if retry.MaxInterruptions < 0 {
		return refuse("max interruptions", retry.MaxInterruptions, "must not be negative")
	}
	return nil
}

// withJobID sets the job ID of an *InvalidJobError.
func withJobID(err error, id string) error {
	var invalid *InvalidJobError
	if errors.As(err, &invalid) {
		invalid.JobID = id
	}
	return err
}

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

// SnoozedUntil returns when a job whose run has ended wants to run again. It returns the
// zero time if the job reported an error, did not ask to be snoozed, or is not a SnoozableJob.
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
