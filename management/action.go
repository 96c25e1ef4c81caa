package management

import (
	"errors"
	"fmt"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/mongodb/amboy"
)

// ErrUnsupported is wrapped by the error for what can't be done here, for instance
// because it needs a queue in this process.
var ErrUnsupported = errors.New("not supported here")

// ErrUnknownQueue is wrapped by the error for a queue that is not there.
var ErrUnknownQueue = errors.New("there is no such queue")

// ErrNotRecorded is wrapped by the error of a call that did what it should, and could
// not write that to the audit list; also beside the error of one that failed.
var ErrNotRecorded = errors.New("what was done could not be written to the audit list")

// StateError says that the state of a job forbids an action. Use errors.As to find it.
type StateError struct {
	Job    JobRef
	State  amboy.JobState
	Action ActionKind
	// Rule says which states allow it, or what to do instead.
	Rule string
}

// Error names the job, its state, the action and the rule.
func (e *StateError) Error() string {
	return fmt.Sprintf("job %q of queue %q is %s: %s %s", e.Job.ID, e.Job.Queue, e.State, e.Action, e.Rule)
}

// ActionKind is something that a person does to jobs.
type ActionKind string

// The kinds of actions.
const (
	// Retry runs a job now: one that is scheduled, or waits after a failure, becomes
	// due, and one that failed, was canceled or expired runs again, as the same attempt.
	// A job that is pending, blocked or running is left as it is.
	Retry ActionKind = "retry"
	// Cancel ends a job that has not ended. One that runs is asked to end, and does so
	// when its process has heard of that and the job returns.
	Cancel ActionKind = "cancel"
	// Park sets a job aside that has not started.
	Park ActionKind = "park"
	// Release lets a parked job go on.
	Release ActionKind = "release"
	// Reschedule gives a job that has not started, and is not parked, another time at
	// which it may start.
	Reschedule ActionKind = "reschedule"
	// Prioritize gives a job that has not ended another priority.
	Prioritize ActionKind = "prioritize"
	// Complete marks a job complete that has not ended (see Manager).
	Complete ActionKind = "complete"
	// Abandon takes the lease of a running job away, for one that is stuck: the job runs
	// again, or ends if it was to be canceled, and its scopes are free until then. The
	// context of its run ends; what that run still does goes on beside the next one.
	// It is refused for jobs that are held by reference.
	Abandon ActionKind = "abandon"
	// Delete removes a job that has ended.
	Delete ActionKind = "delete"
)

// ActionKinds lists the kinds.
func ActionKinds() []ActionKind {
	return []ActionKind{Retry, Cancel, Park, Release, Reschedule, Prioritize, Complete, Abandon, Delete}
}

// Action is something to do to jobs.
type Action struct {
	Kind ActionKind `json:"action"`
	// At is the time for Reschedule, which requires it; others leave it out.
	At time.Time `json:"at,omitzero"`
	// Priority is for Prioritize, which requires it; others leave it out.
	Priority *int `json:"priority,omitempty"`
	// Reason is for Cancel and Park, of at most MaxReasonBytes. The job shows it.
	Reason string `json:"reason,omitempty"`
}

// MaxReasonBytes is the length of the longest reason.
const MaxReasonBytes = 1024

// Validate returns an *InvalidArgumentError for a kind that does not exist, and for a
// field that is missing, or is not for that kind.
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
	case !utf8.ValidString(a.Reason):
		return invalid("reason", a.Reason, "must be valid UTF-8")
	case len(a.Reason) > MaxReasonBytes:
		return invalid("reason", a.Reason, fmt.Sprintf("must be at most %d bytes long, and has %d", MaxReasonBytes, len(a.Reason)))
	default:
		return validTime("at", a.At)
	}
}

// ActRequest asks for an action on the jobs that a filter selects, or on a part of them.
type ActRequest struct {
	Action
	Filter JobFilter `json:"filter"`
	// All must be true if the filter selects all jobs (see JobFilter.SelectsAll), and
	// false otherwise: a filter that somebody forgot to fill in selects all as well.
	All bool `json:"all,omitempty"`
	// Cursor is where the last call ended.
	Cursor string `json:"cursor,omitempty"`
	// Limit is the number of jobs that are looked at, from 1 to MaxActLimit.
	Limit int `json:"limit"`
	// DryRun changes nothing, and tells what would be done.
	DryRun bool `json:"dry_run,omitempty"`
}

// Validate returns an *InvalidArgumentError for each field that is not valid, joined. It does
// not look at Cursor.
func (r ActRequest) Validate() error {
	errs := []error{r.Action.Validate(), r.Filter.Validate()}
	switch all := r.Filter.SelectsAll(); {
	case all && !r.All:
		errs = append(errs, invalid("all", "false", "must be true where the filter selects all jobs"))
	case r.All && !all:
		errs = append(errs, invalid("all", "true", "must be left out where the filter does not select all jobs"))
	}
	if r.Limit < 1 || r.Limit > MaxActLimit {
		errs = append(errs, invalid("limit", fmt.Sprint(r.Limit), fmt.Sprintf("must be from 1 to %d", MaxActLimit)))
	}
	return errors.Join(errs...)
}

// Acted tells what was done.
type Acted struct {
	// Done counts the jobs to which it was done, and Skipped those whose state does not
	// allow it, or that are as it would leave them.
	Done    int `json:"done"`
	Skipped int `json:"skipped"`
	// Next is where a next call should begin; empty where there are no more jobs.
	Next string `json:"next,omitempty"`
}
