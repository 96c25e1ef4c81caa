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

// PanicError is the error of a job's attempt, or of a periodic operation's run,
// that panicked. errors.Is and errors.As see the value where that is an error.
type PanicError struct {
	// Value was given to panic.
	Value any
	// Stack is that of the goroutine that panicked.
	Stack []byte
}

// Error gives the value that was given to panic.
func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v", e.Value) }

// Unwrap returns the value where it is an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// MaxTimeError is the cause of the end of a job's context when its maximum
// time is used up. It is a context.DeadlineExceeded.
type MaxTimeError struct{ MaxTime time.Duration }

// Error names the maximum time.
func (e *MaxTimeError) Error() string {
	return fmt.Sprintf("job ran longer than its maximum time of %s", e.MaxTime)
}

// Is is true for context.DeadlineExceeded.
func (e *MaxTimeError) Is(target error) bool { return target == context.DeadlineExceeded }

// RunJob runs a job without a queue, as a pool would: with the job's maximum
// time, its time stamps, and a panic recorded as an error. It blocks until the
// job returns, and returns the job's error; for one that wants to run again later,
// and is not complete, a *SnoozeError; and for a nil job and for times that are not
// valid an *InvalidJobError without running anything. Dependencies, scopes and
// retries are left aside, and the job has no queue, also where ctx is that of a job
// that has one. It is safe to call from several goroutines with different jobs.
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
	setProgress(j, true, false)

	runInTime(ContextWithQueue(ctx, nil), j)

	snoozed := snoozeOf(j)
	setProgress(j, false, snoozed == nil)
	j.UpdateTimeInfo(JobTimeInfo{End: time.Now()})
	if snoozed != nil {
		return snoozed
	}
	return j.Error()
}

func setProgress(j Job, running, complete bool) {
	status := j.Status()
	status.InProgress, status.Completed = running, complete
	j.SetStatus(status)
}

// RunAttempt calls a job's Run, for runners. The context that it gives to Run
// ends at the job's maximum time, with a *MaxTimeError as its cause. A panic is
// added to the job's errors as a *PanicError. A job that used up its time, and
// reports no error, gets the *MaxTimeError as its error, even if it marked itself
// complete: jobs do that from the start. After either, a retryable job is
// retried. RunAttempt blocks until Run returns. It is the innermost RunFunc: it
// returns an error that wraps the job's, and a *SnoozeError for a job without one
// that is to run again later.
func RunAttempt(ctx context.Context, j Job) error {
	runInTime(ctx, j)
	if err := j.Error(); err != nil {
		return &attemptError{err}
	}
	return snoozeOf(j)
}

// runInTime calls Run with the job's maximum time.
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

// recoverPanic calls a function and makes a *PanicError of its panic.
func recoverPanic(call func() error) (err error) {
	defer func() {
		if value := recover(); value != nil {
			err = &PanicError{Value: value, Stack: debug.Stack()}
		}
	}()
	return call()
}

// IsNilJob is true for nil and for a nil pointer.
func IsNilJob(j Job) bool {
	if j == nil {
		return true
	}
	v := reflect.ValueOf(j)
	return v.Kind() == reflect.Pointer && v.IsNil()
}

var errNilJob = &InvalidJobError{Field: "job", Rule: "must not be nil"}

// ValidateJob returns an *InvalidJobError for a job that no queue accepts: one
// that is nil, or whose ID is empty or longer than MaxIDLength, whose type's
// version is negative, whose times are not valid, which has an empty scope
// name, a tag that is not UTF-8, or a negative attempt limit.
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
	for _, scope := range j.Scopes() {
		if scope == "" {
			return refuse("scope", scope, "must not be empty")
		}
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

// withJobID names the job in an *InvalidJobError.
func withJobID(err error, id string) error {
	var invalid *InvalidJobError
	if errors.As(err, &invalid) {
		invalid.JobID = id
	}
	return err
}
