package management

import (
	"errors"
	"fmt"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/driver"
)

// ErrUnsupported is wrapped by the error of a call that is not supported here, for
// instance because it needs a queue in this process.
var ErrUnsupported = driver.ErrUnsupported

// ErrUnknownQueue is wrapped by the error of a call that names a queue that does not exist.
var ErrUnknownQueue = errors.New("no such queue")

// ErrNotRecorded is wrapped by the error of a call that could not write an entry to the audit list
// about what it did (see NotRecordedError).
var ErrNotRecorded = errors.New("the action was not written to the audit list")

// NotRecordedError reports an action of which no entry could be written to the audit list. It wraps
// ErrNotRecorded and both of its errors.
type NotRecordedError struct {
	// Failure is the error of the action. It is nil if the action was done, which must then not be
	// repeated as if nothing had happened.
	Failure error
	// Reason is why the entry could not be written.
	Reason error
}

func (e *NotRecordedError) Error() string {
	text := fmt.Sprintf("%v: %v", ErrNotRecorded, e.Reason)
	if e.Failure != nil {
		text = e.Failure.Error() + "; " + text
	}
	return text
}

// Unwrap returns the errors that e wraps.
func (e *NotRecordedError) Unwrap() []error {
	wrapped := []error{ErrNotRecorded, e.Reason}
	if e.Failure != nil {
		wrapped = append(wrapped, e.Failure)
	}
	return wrapped
}

// StateError reports that the state of a job forbids an action. Use errors.As to find it.
type StateError struct {
	Job    JobRef
	State  amboy.JobState
	Action ActionKind
	// Rule states which jobs allow the action, or what to do instead.
	Rule string
}

// Error names the job, its state, the action and the rule.
func (e *StateError) Error() string {
	return fmt.Sprintf("job %q of queue %q is %s: %s %s", e.Job.ID, e.Job.Queue, e.State, e.Action, e.Rule)
}

// ActionKind names an action that an operator takes on jobs.
type ActionKind string

// The kinds of actions. In other states than those named, an action is refused with a
// *StateError or, where that is said, skips the job. A repeated action skips the job too.
const (
	// Retry runs a job now. A scheduled job becomes due, including one that waits for its next
	// attempt or that a dependency manager or an outside worker put off. A job that failed, was
	// canceled or expired runs again as the same attempt, after the jobs that it depends on: it
	// waits for those that have not ended, and fails without running if one of them has ended
	// without success, unless it runs after failures. It does not wait for a job that the queue
	// has removed. One call of Act retries jobs before those that depend on them. Retry skips a
	// job that is pending, running, retrying, or blocked by a scope or a dependency. It is
	// refused while another job holds an enqueue scope or the unique key that the job needs.
	Retry ActionKind = "retry"
	// Cancel ends a job that has not ended. A running job is asked to end: it ends when
	// its process has learned of the request and the job returns, as canceled unless it
	// returns without an error.
	Cancel ActionKind = "cancel"
	// Park sets aside a job that is scheduled, pending or blocked.
	Park ActionKind = "park"
	// Release makes a parked job eligible to run again. It skips other jobs that have not ended.
	Release ActionKind = "release"
	// Reschedule changes the time at which a job may start, which must not be after its deadline.
	// The job must not have started, and must not be parked.
	Reschedule ActionKind = "reschedule"
	// Prioritize changes the priority of a job that has not ended.
	Prioritize ActionKind = "prioritize"
	// Complete marks a job that has not ended as complete (see Manager). It skips other jobs.
	Complete ActionKind = "complete"
	// Abandon takes away the lease of a running job that is stuck. The job runs again, or
	// ends if it was to be canceled; its scopes are free until then. The context of its
	// run ends. If that run does not return, it continues beside the next one. Abandon
	// skips a job that has not started, and is refused for jobs that are held by reference.
	Abandon ActionKind = "abandon"
	// Delete removes a job that has ended.
	Delete ActionKind = "delete"
)

// ActionKinds lists all kinds of actions.
func ActionKinds() []ActionKind {
	return []ActionKind{Retry, Cancel, Park, Release, Reschedule, Prioritize, Complete, Abandon, Delete}
}

// Action is an action on jobs.
type Action struct {
	Kind ActionKind `json:"action"`
	// At is the new time. Reschedule requires it; other kinds refuse it.
	At time.Time `json:"at,omitzero"`
	// Priority is the new priority. Prioritize requires it; other kinds refuse it.
	Priority *int `json:"priority,omitempty"`
	// Reason is shown with the job. It is for Cancel and Park only, and has at most
	// MaxReasonBytes.
	Reason string `json:"reason,omitempty"`
	// IgnoreDependencies is for Retry only: a job that failed, was canceled or expired runs
	// again whatever became of the jobs that it depends on. Jobs that have not ended still
	// wait.
	IgnoreDependencies bool `json:"ignore_dependencies,omitempty"`
}

// MaxReasonBytes is the maximum length of a reason.
const MaxReasonBytes = 1024

// Validate returns an *InvalidArgumentError for an unknown kind, and for a field that is
// missing or does not belong to the kind.
func (a Action) Validate() error {
	switch {
	case !slices.Contains(ActionKinds(), a.Kind):
		return invalid("action", string(a.Kind), fmt.Sprintf("must be one of %q", ActionKinds()))
	case a.Kind == Reschedule && a.At.IsZero():
		return invalid("at", "", "is required to reschedule")
	case a.Kind != Reschedule && !a.At.IsZero():
		return invalid("at", a.At.Format(time.RFC3339Nano), "is for reschedule only")
	case a.Kind == Prioritize && a.Priority == nil:
		return invalid("priority", "", "is required to prioritize")
	case a.Kind != Prioritize && a.Priority != nil:
		return invalid("priority", fmt.Sprint(*a.Priority), "is for prioritize only")
	case a.Reason != "" && a.Kind != Cancel && a.Kind != Park:
		return invalid("reason", a.Reason, "is for cancel and park only")
	case a.IgnoreDependencies && a.Kind != Retry:
		return invalid("ignore_dependencies", "true", "is for retry only")
	case !utf8.ValidString(a.Reason):
		return invalid("reason", a.Reason, "must be valid UTF-8")
	case len(a.Reason) > MaxReasonBytes:
		return invalid("reason", a.Reason, fmt.Sprintf("must be at most %d bytes long, and has %d", MaxReasonBytes, len(a.Reason)))
	default:
		return validTime("at", a.At)
	}
}

// ActRequest requests an action on the jobs that a filter selects, or on a page of them.
type ActRequest struct {
	Action
	Filter JobFilter `json:"filter"`
	// All must be true if the filter selects all jobs (see JobFilter.SelectsAll), and
	// false otherwise. It guards against a filter that was left empty by mistake.
	All bool `json:"all,omitempty"`
	// Cursor is Acted.Next of the previous call; empty for the first call.
	Cursor string `json:"cursor,omitempty"`
	// Limit is the maximum number of jobs to read, from 1 to MaxActLimit.
	Limit int `json:"limit"`
	// DryRun changes nothing, and reports what would be done.
	DryRun bool `json:"dry_run,omitempty"`
}

// Validate returns an *InvalidArgumentError for each field that is not valid, joined. It does
// not check Cursor.
func (r ActRequest) Validate() error {
	errs := []error{r.Action.Validate(), r.Filter.Validate()}
	switch all := r.Filter.SelectsAll(); {
	case all && !r.All:
		errs = append(errs, invalid("all", "false", "must be true if the filter selects all jobs"))
	case r.All && !all:
		errs = append(errs, invalid("all", "true", "must be left out if the filter does not select all jobs"))
	}
	if r.Limit < 1 || r.Limit > MaxActLimit {
		errs = append(errs, invalid("limit", fmt.Sprint(r.Limit), fmt.Sprintf("must be from 1 to %d", MaxActLimit)))
	}
	return errors.Join(errs...)
}

// Acted reports the result of an action.
type Acted struct {
	// Done counts the jobs that the action changed. Skipped counts the jobs whose state
	// does not allow it, and the jobs that the action would leave unchanged.
	Done    int `json:"done"`
	Skipped int `json:"skipped"`
	// States counts, in a dry run of Act, the jobs in Done by their states.
	States StateCounts `json:"states,omitzero"`
	// Next is the cursor of the next call; empty if no jobs are left.
	Next string `json:"next,omitempty"`
}
