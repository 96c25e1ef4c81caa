package amboy

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// ErrQueueDraining is wrapped by the error of Put on a draining queue, which runs the
// jobs that it holds and accepts no new ones.
var ErrQueueDraining = errors.New("queue is draining")

// ErrQueueClosed is returned by calls on a closed queue.
var ErrQueueClosed = errors.New("queue is closed")

// ErrGroupClosed is wrapped by the errors of calls on a closed queue group.
var ErrGroupClosed = errors.New("queue group is closed")

// ErrLeftBehind is wrapped by the error of QueueGroup.Close if jobs, callbacks or
// driver calls that ignore their contexts still ran a second after its context ended.
// The error names the queues and jobs.
var ErrLeftBehind = errors.New("left behind at Close")

// ErrQueueNotStarted is returned by calls that need a started queue.
var ErrQueueNotStarted = errors.New("queue is not started")

// ErrAlreadyStarted is returned by calls that must come before Start.
var ErrAlreadyStarted = errors.New("already started")

// ErrLeaseLost is the cause with which a job's context ends when the job's lease was
// lost. Writes by a worker whose lease was lost return it too.
var ErrLeaseLost = errors.New("the job's lease was lost")

// ErrAborted is the cause with which a job's context ends when the job was aborted.
var ErrAborted = errors.New("the job was aborted")

// ErrStoreFull is wrapped by the errors of calls that write to a file of SQLite or to PostgreSQL
// while its disk is full, or has reached a limit set for it. Nothing was written. The ends of jobs
// that run meanwhile are written once there is room.
var ErrStoreFull = errors.New("the disk of the store is full")

// InvalidJobError is why no queue accepts a job. Use errors.As to find it.
type InvalidJobError struct {
	// JobID is the ID of the job; empty if the job has none.
	JobID string
	// Field is the invalid field.
	Field string
	// Value is the field's value.
	Value any
	// Rule is what the field must satisfy.
	Rule string
}

// Error names the job, the field, its value and the rule.
func (e *InvalidJobError) Error() string {
	if e.JobID == "" {
		return fmt.Sprintf("invalid job: %s %s (is %#v)", e.Field, e.Rule, printable(e.Value))
	}
	return fmt.Sprintf("invalid job %q: %s %s (is %#v)", e.JobID, e.Field, e.Rule, printable(e.Value))
}

// printable returns the text of a time or another fmt.Stringer, and any other value unchanged.
func printable(v any) any {
	switch v := v.(type) {
	case time.Time: // its String contains the reading of the monotonic clock
		return v.Format(time.RFC3339Nano)
	case fmt.Stringer:
		return v.String()
	default:
		return v
	}
}

// DuplicateReason is why a queue refused a job as a duplicate.
type DuplicateReason string

// The reasons, in the order in which a queue checks them: if several apply, the error
// contains the first.
const (
	// DuplicateID means that the existing job has the same ID. A job keeps its ID until
	// it is deleted, so the existing job may have ended.
	DuplicateID DuplicateReason = "id"
	// DuplicateUniqueKey means that the existing job holds the same unique key.
	DuplicateUniqueKey DuplicateReason = "unique_key"
	// DuplicateEnqueueScope means that the existing job holds an enqueue scope of the job.
	DuplicateEnqueueScope DuplicateReason = "enqueue_scope"
)

// DuplicateJobError is why a queue did not add a job: another job is in its way. All
// queues return the same one for the same Put. Use errors.As to find it;
// IsDuplicateJobError is true for it, and IsDuplicateJobScopeError if the reason is
// DuplicateEnqueueScope.
type DuplicateJobError struct {
	// JobID is the ID of the job that was not added.
	JobID string
	// Reason is what the two jobs have in common.
	Reason DuplicateReason
	// Value is that ID, unique key or scope.
	Value string
	// ExistingID is the ID of the job in the queue. It is empty if that job was removed, or
	// released the key or scope, while the store was refusing the new one.
	ExistingID string
}

// Error names both jobs and the reason.
func (e *DuplicateJobError) Error() string {
	switch {
	case e.Reason == DuplicateID && (e.ExistingID == e.JobID || e.ExistingID == ""):
		return fmt.Sprintf("job %q is in the queue already", e.JobID)
	case e.Reason == DuplicateID:
		return fmt.Sprintf("ID of job %q is the name of a record of job %q", e.JobID, e.ExistingID)
	case e.Reason == DuplicateUniqueKey:
		return fmt.Sprintf("unique key %q of job %q is held by %s", e.Value, e.JobID, e.existing())
	default:
		return fmt.Sprintf("enqueue scope %q of job %q is held by %s", e.Value, e.JobID, e.existing())
	}
}

func (e *DuplicateJobError) existing() string {
	if e.ExistingID == "" {
		return "another job"
	}
	return fmt.Sprintf("job %q", e.ExistingID)
}

// DependencyNotPutError is why PutMany did not add a job: a job that it depends on was given
// to the same PutMany, and was not added. The error of that job says why. Use errors.As to
// find it. IsDuplicateJobError is false for it, but it does not change the kind of an error
// that it is combined with: see CollateWriteErrors.
type DependencyNotPutError struct {
	// JobID is the ID of the job that was not added.
	JobID string
	// DependencyID is the ID of the job that it depends on.
	DependencyID string
}

// Error names both jobs.
func (e *DependencyNotPutError) Error() string {
	return fmt.Sprintf("job %q depends on job %q, which was not put", e.JobID, e.DependencyID)
}

// duplicateJobError marks an error as a duplicate job.
type duplicateJobError struct{ error }

func (e *duplicateJobError) Unwrap() error { return e.error }

// duplicateJobScopeError marks an error as a duplicate scope, which is a
// duplicate job too.
type duplicateJobScopeError struct{ error }

func (e *duplicateJobScopeError) Unwrap() error { return e.error }

// NewDuplicateJobError returns an error for which IsDuplicateJobError is true.
func NewDuplicateJobError(msg string) error { return &duplicateJobError{errors.New(msg)} }

// NewDuplicateJobErrorf is like NewDuplicateJobError, with a format as in fmt.Errorf.
func NewDuplicateJobErrorf(msg string, args ...any) error {
	return &duplicateJobError{fmt.Errorf(msg, args...)}
}

// MakeDuplicateJobError wraps err so that IsDuplicateJobError is true for it. It
// returns nil if err is nil.
func MakeDuplicateJobError(err error) error {
	if err == nil {
		return nil
	}
	return &duplicateJobError{err}
}

// NewDuplicateJobScopeError returns an error for which IsDuplicateJobScopeError is
// true.
func NewDuplicateJobScopeError(msg string) error {
	return &duplicateJobScopeError{errors.New(msg)}
}

// NewDuplicateJobScopeErrorf is like NewDuplicateJobScopeError, with a format as in
// fmt.Errorf.
func NewDuplicateJobScopeErrorf(msg string, args ...any) error {
	return &duplicateJobScopeError{fmt.Errorf(msg, args...)}
}

// MakeDuplicateJobScopeError wraps err so that IsDuplicateJobScopeError is true for
// it. It returns nil if err is nil.
func MakeDuplicateJobScopeError(err error) error {
	if err == nil {
		return nil
	}
	return &duplicateJobScopeError{err}
}

// IsDuplicateJobError reports whether err, however wrapped, means that a job was not
// added because its ID or its unique key is taken, or because another job holds one of
// its enqueue scopes. It is true for nothing else. A *DuplicateJobError contains the
// reason and the existing job.
func IsDuplicateJobError(err error) bool {
	return isMarked(err, func(err error) bool {
		switch err.(type) { //nolint:errorlint // isMarked unwraps the error.
		case *DuplicateJobError, *duplicateJobError, *duplicateJobScopeError:
			return true
		default:
			return false
		}
	})
}

// IsDuplicateJobScopeError reports whether err, however wrapped, means that a job was
// not added because another job holds one of its enqueue scopes. It is true for
// nothing else.
func IsDuplicateJobScopeError(err error) bool {
	return isMarked(err, func(err error) bool {
		switch e := err.(type) { //nolint:errorlint // isMarked unwraps the error.
		case *DuplicateJobError:
			return e.Reason == DuplicateEnqueueScope
		case *duplicateJobScopeError:
			return true
		default:
			return false
		}
	})
}

// isMarked reports whether is returns true for err or an error that it wraps, except for
// errors of CollateWriteErrors: those are about several jobs, so their cause alone decides.
func isMarked(err error, is func(error) bool) bool {
	if err == nil {
		return false
	}
	if is(err) {
		return true
	}
	switch e := err.(type) { //nolint:errorlint // It unwraps the error itself.
	case *writeErrors:
		return isMarked(e.cause, is)
	case interface{ Unwrap() error }:
		return isMarked(e.Unwrap(), is)
	case interface{ Unwrap() []error }:
		return slices.ContainsFunc(e.Unwrap(), func(err error) bool { return isMarked(err, is) })
	default:
		return false
	}
}

// JobNotFoundError means that a queue does not hold a job.
type JobNotFoundError struct{ err error }

// Error returns the message of the wrapped error.
func (e *JobNotFoundError) Error() string { return e.err.Error() }

// Unwrap returns the wrapped error.
func (e *JobNotFoundError) Unwrap() error { return e.err }

// NewJobNotFoundError returns an error for which IsJobNotFoundError is true.
func NewJobNotFoundError(msg string) *JobNotFoundError {
	return &JobNotFoundError{errors.New(msg)}
}

// NewJobNotFoundErrorf is like NewJobNotFoundError, with a format as in fmt.Errorf.
func NewJobNotFoundErrorf(msg string, args ...any) *JobNotFoundError {
	return &JobNotFoundError{fmt.Errorf(msg, args...)}
}

// MakeJobNotFoundError wraps err so that IsJobNotFoundError is true for it. It returns
// a nil pointer if err is nil, so check err before converting the result to an error.
func MakeJobNotFoundError(err error) *JobNotFoundError {
	if err == nil {
		return nil
	}
	return &JobNotFoundError{err}
}

// IsJobNotFoundError reports whether err, however wrapped, means that a queue does not
// hold a job.
func IsJobNotFoundError(err error) bool {
	_, ok := errors.AsType[*JobNotFoundError](err)
	return ok
}

// writeErrors combines the errors of several jobs.
type writeErrors struct {
	cause error
	all   []error
}

func (e *writeErrors) Error() string { return e.cause.Error() }

// Cause is read by errors.Cause of github.com/pkg/errors.
func (e *writeErrors) Cause() error { return e.cause }

// Unwrap lets errors.Is and errors.As find the error of every job.
func (e *writeErrors) Unwrap() []error { return e.all }

// CollateWriteErrors combines the errors of adding several jobs. The message contains
// all of their messages. The kind is plain if any error is neither a duplicate job nor
// a duplicate scope; otherwise duplicate scope if any error is one; otherwise duplicate
// job. A DependencyNotPutError is not counted, as it follows from the error of another job.
// CollateWriteErrors returns nil if errs contains no error, and a single error
// unchanged.
func CollateWriteErrors(errs []error) error {
	var all []error
	worst := severityConsequence
	for _, err := range errs {
		if err == nil {
			continue
		}
		all = append(all, err)
		worst = max(worst, severityOf(err))
	}
	switch len(all) {
	case 0:
		return nil
	case 1:
		return all[0]
	}
	cause := errors.New(errors.Join(all...).Error())
	switch worst {
	case severityDuplicateScope:
		cause = MakeDuplicateJobScopeError(cause)
	case severityDuplicateJob:
		cause = MakeDuplicateJobError(cause)
	}
	return &writeErrors{cause: cause, all: all}
}

// severity orders the kinds of errors that adding a job can return. The kind of a
// combined error is the most severe one.
type severity int

const (
	severityConsequence severity = iota // of the error of another job
	severityDuplicateJob
	severityDuplicateScope
	severityPlain
)

func severityOf(err error) severity {
	switch {
	case isDependencyNotPut(err):
		return severityConsequence
	case !IsDuplicateJobError(err):
		return severityPlain
	case IsDuplicateJobScopeError(err):
		return severityDuplicateScope
	default:
		return severityDuplicateJob
	}
}

// isDependencyNotPut reports whether err, which is about one job, wraps a DependencyNotPutError.
func isDependencyNotPut(err error) bool {
	for ; err != nil; err = errors.Unwrap(err) {
		if _, ok := err.(*DependencyNotPutError); ok { //nolint:errorlint // The loop unwraps.
			return true
		}
	}
	return false
}

// DependencyCycleError means that jobs depend on each other in a cycle. None of them
// is added.
type DependencyCycleError struct {
	// Path lists the IDs of the jobs along the edges. The last ID equals the first.
	Path []string
}

// The bounds on the message of a DependencyCycleError: each job of a cycle gets one.
const (
	maxJobsInMessage = 5
	maxIDInMessage   = 100
)

// Error returns the path. It names the first jobs of a long path and the total count,
// and truncates long IDs.
func (e *DependencyCycleError) Error() string {
	named := make([]string, 0, maxJobsInMessage+2)
	for i, id := range e.Path {
		isLast := i == len(e.Path)-1
		if i < maxJobsInMessage || isLast {
			named = append(named, truncate(id, maxIDInMessage))
		} else if i == maxJobsInMessage {
			named = append(named, "…")
		}
	}
	what := "dependency cycle"
	if len(e.Path) > len(named) {
		what = fmt.Sprintf("dependency cycle of %d jobs", len(e.Path)-1)
	}
	return what + ": " + strings.Join(named, " -> ")
}
