package amboy

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// ErrQueueDraining is wrapped by the error of a Put in a queue that runs what it
// has, and takes nothing new.
var ErrQueueDraining = errors.New("queue is draining")

// ErrQueueClosed is returned by calls on a queue that was closed.
var ErrQueueClosed = errors.New("queue is closed")

// ErrGroupClosed is wrapped by the errors of calls on a queue group that was closed.
var ErrGroupClosed = errors.New("queue group is closed")

// ErrLeftBehind is wrapped by the error of QueueGroup.Close if its context ended and not
// all had ended within a second: jobs, callbacks or calls of a driver that ignore their
// contexts. The error names queues and jobs.
var ErrLeftBehind = errors.New("left behind at Close")

// ErrQueueNotStarted is returned by calls on a queue that must be started
// first.
var ErrQueueNotStarted = errors.New("queue is not started")

// ErrAlreadyStarted is returned by calls that must come before Start.
var ErrAlreadyStarted = errors.New("already started")

// ErrLeaseLost is the cause of the end of a job's context when the job's lease
// was lost, and is returned by writes of a worker whose lease was lost.
var ErrLeaseLost = errors.New("the job's lease was lost")

// ErrAborted is the cause of the end of a job's context when the job was
// aborted.
var ErrAborted = errors.New("the job was aborted")

// InvalidJobError says why no queue accepts a job. Use errors.As to find it.
type InvalidJobError struct {
	// JobID is the ID of the job, where it has one.
	JobID string
	// Field is what is wrong with it.
	Field string
	// Value is the value of that.
	Value any
	// Rule says what is allowed.
	Rule string
}

// Error names the job, the field, its value and the rule.
func (e *InvalidJobError) Error() string {
	if e.JobID == "" {
		return fmt.Sprintf("invalid job: %s %s (is %#v)", e.Field, e.Rule, printable(e.Value))
	}
	return fmt.Sprintf("invalid job %q: %s %s (is %#v)", e.JobID, e.Field, e.Rule, printable(e.Value))
}

// printable gives values that have a readable form in it.
func printable(v any) any {
	if s, ok := v.(fmt.Stringer); ok {
		return s.String()
	}
	return v
}

// duplicateJobError marks an error as a duplicate job.
type duplicateJobError struct{ error }

func (e *duplicateJobError) Unwrap() error { return e.error }

// duplicateJobScopeError marks an error as a duplicate scope, which is a
// duplicate job too.
type duplicateJobScopeError struct{ error }

func (e *duplicateJobScopeError) Unwrap() error { return e.error }

// NewDuplicateJobError makes an error for which IsDuplicateJobError is true.
func NewDuplicateJobError(msg string) error { return &duplicateJobError{errors.New(msg)} }

// NewDuplicateJobErrorf is NewDuplicateJobError with a format as in fmt.Errorf.
func NewDuplicateJobErrorf(msg string, args ...any) error {
	return &duplicateJobError{fmt.Errorf(msg, args...)}
}

// MakeDuplicateJobError marks err, so that IsDuplicateJobError is true for it.
// It returns nil for nil.
func MakeDuplicateJobError(err error) error {
	if err == nil {
		return nil
	}
	return &duplicateJobError{err}
}

// NewDuplicateJobScopeError makes an error for which IsDuplicateJobScopeError
// is true.
func NewDuplicateJobScopeError(msg string) error {
	return &duplicateJobScopeError{errors.New(msg)}
}

// NewDuplicateJobScopeErrorf is NewDuplicateJobScopeError with a format as in
// fmt.Errorf.
func NewDuplicateJobScopeErrorf(msg string, args ...any) error {
	return &duplicateJobScopeError{fmt.Errorf(msg, args...)}
}

// MakeDuplicateJobScopeError marks err, so that IsDuplicateJobScopeError is
// true for it. It returns nil for nil.
func MakeDuplicateJobScopeError(err error) error {
	if err == nil {
		return nil
	}
	return &duplicateJobScopeError{err}
}

// IsDuplicateJobError is true for an error, however wrapped, that says that a
// job was not added because its ID or its unique key is taken, or an enqueue scope
// of it is held. It is true for nothing else.
func IsDuplicateJobError(err error) bool {
	return isMarked[*duplicateJobError](err) || IsDuplicateJobScopeError(err)
}

// IsDuplicateJobScopeError is true for an error, however wrapped, that says
// that a job was not added because an enqueue scope of it is held. It is true
// for nothing else.
func IsDuplicateJobScopeError(err error) bool {
	return isMarked[*duplicateJobScopeError](err)
}

// isMarked is errors.As for a mark, but for what CollateWriteErrors made: there
// the cause decides, because an error about several jobs is a duplicate only
// where each of them is.
func isMarked[Mark error](err error) bool {
	switch e := err.(type) { //nolint:errorlint // It unwraps the error itself.
	case *writeErrors:
		return isMarked[Mark](e.cause)
	case Mark:
		return true
	case interface{ Unwrap() error }:
		return isMarked[Mark](e.Unwrap())
	case interface{ Unwrap() []error }:
		return slices.ContainsFunc(e.Unwrap(), isMarked[Mark])
	default:
		return false
	}
}

// JobNotFoundError says that a queue does not hold a job.
type JobNotFoundError struct{ err error }

// Error describes what was not found.
func (e *JobNotFoundError) Error() string { return e.err.Error() }

// Unwrap returns the error that was marked.
func (e *JobNotFoundError) Unwrap() error { return e.err }

// NewJobNotFoundError makes an error for which IsJobNotFoundError is true.
func NewJobNotFoundError(msg string) *JobNotFoundError {
	return &JobNotFoundError{errors.New(msg)}
}

// NewJobNotFoundErrorf is NewJobNotFoundError with a format as in fmt.Errorf.
func NewJobNotFoundErrorf(msg string, args ...any) *JobNotFoundError {
	return &JobNotFoundError{fmt.Errorf(msg, args...)}
}

// MakeJobNotFoundError marks err, so that IsJobNotFoundError is true for it. It
// returns a nil pointer for nil, so check err before the result becomes an error.
func MakeJobNotFoundError(err error) *JobNotFoundError {
	if err == nil {
		return nil
	}
	return &JobNotFoundError{err}
}

// IsJobNotFoundError is true for an error, however wrapped, that says that a
// queue does not hold a job.
func IsJobNotFoundError(err error) bool {
	var notFound *JobNotFoundError
	return errors.As(err, &notFound)
}

// writeErrors are the errors of several jobs.
type writeErrors struct {
	cause error
	all   []error
}

func (e *writeErrors) Error() string { return e.cause.Error() }

// Cause is what errors.Cause of github.com/pkg/errors finds.
func (e *writeErrors) Cause() error { return e.cause }

// Unwrap lets errors.Is and errors.As see the error of every job.
func (e *writeErrors) Unwrap() []error { return e.all }

// CollateWriteErrors makes one error of the errors that adding several jobs
// gave. Its message is that of all of them. Its kind is plain where one of them
// is neither a duplicate job nor a duplicate scope; else duplicate scope where
// one of them is; else duplicate job. It returns nil where errs has no error,
// and the error itself where there is one.
func CollateWriteErrors(errs []error) error {
	var all []error
	worst := severityDuplicateJob
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

// severity orders the kinds of errors that adding a job can give: of several
// the worst is the kind of them all.
type severity int

const (
	severityDuplicateJob severity = iota
	severityDuplicateScope
	severityPlain
)

func severityOf(err error) severity {
	switch {
	case !IsDuplicateJobError(err):
		return severityPlain
	case IsDuplicateJobScopeError(err):
		return severityDuplicateScope
	default:
		return severityDuplicateJob
	}
}

// DependencyCycleError says that jobs depend on each other in a circle. None of
// them is added.
type DependencyCycleError struct {
	// Path has the IDs of the jobs along the edges; the last is the first.
	Path []string
}

// The bounds of the message of a DependencyCycleError: each job of a cycle has one.
const (
	maxNamedOfCycle = 5
	maxNameInCycle  = 100
)

// Error gives the path. Of a long one it names the first jobs and gives the count, and
// it cuts long IDs.
func (e *DependencyCycleError) Error() string {
	named := make([]string, 0, maxNamedOfCycle+2)
	for i, id := range e.Path {
		isLast := i == len(e.Path)-1
		if i < maxNamedOfCycle || isLast {
			named = append(named, truncate(id, maxNameInCycle))
		} else if i == maxNamedOfCycle {
			named = append(named, "…")
		}
	}
	what := "dependency cycle"
	if len(e.Path) > len(named) {
		what = fmt.Sprintf("dependency cycle of %d jobs", len(e.Path)-1)
	}
	return what + ": " + strings.Join(named, " -> ")
}
