package driver

import (
	"fmt"
	"time"

	"github.com/mongodb/amboy/registry"
)

// ActionKind is an administrative action on jobs.
type ActionKind string

// The kinds of actions. Each comment names the records that the action applies to; other
// records are skipped. Every action except Prioritize and Delete adds one to the
// ModificationCount of a stored record that is not running, so that a process that read
// the record before can no longer claim it.
const (
	// Cancel ends a record that has not ended, with the outcome amboy.OutcomeCanceled,
	// and frees what it holds. The record stops waiting for its edges, and jobs that
	// depend on it find it among their Failed edges. A record that awaits its retry ends
	// too. A running record is only marked (see Driver.CancelRequests) and continues
	// until its owner ends it. A marked record never runs again: if its lease is handed
	// back or recovered, if it fails, or if it would await a retry, it ends as canceled.
	// If it succeeds, it has succeeded and shows no trace of the Cancel.
	Cancel ActionKind = "cancel"
	// RunNow makes a record due if it waits for its time or was handed back until a time.
	// The record still waits for its edges and scopes.
	RunNow ActionKind = "run now"
	// Reschedule gives a record that has not started, and is not parked, the wait-until
	// time At. The record then waits for that time, its edges and its scopes.
	Reschedule ActionKind = "reschedule"
	// Prioritize gives a record that has not ended another priority.
	Prioritize ActionKind = "prioritize"
	// Park sets aside a record that has not started, for Reason.
	Park ActionKind = "park"
	// Unpark lets a parked record continue: it waits for its edges, its time and its
	// scopes.
	Unpark ActionKind = "unpark"
	// Restart runs again a job that failed, was canceled or expired. It is the same
	// attempt, queued as if it were new. Its errors stay among its attempt errors. It
	// takes its enqueue scopes and its unique key again, and is skipped if another job
	// has one of them. Its dispatch-by time is dropped, and jobs that depended on it are
	// not notified. It waits for its edges as they are now: for a job that has not ended,
	// and it finds one that ended in another state than amboy.StateSucceeded among its
	// Failed edges. It does not wait for a job that no longer exists, which does not count
	// as failed either. Act restarts records in their order, so that a record waits for
	// those that came before it.
	Restart ActionKind = "restart"
	// Delete removes a record that has ended for good.
	Delete ActionKind = "delete"
	// Edit gives a record that has not started, parked or not, another body, priority or
	// wait-until time, as Action.Edit says. It skips a record whose ModificationCount is not
	// Edit.Count, because it changed since it was read.
	Edit ActionKind = "edit"
)

// ActionKinds lists the kinds.
func ActionKinds() []ActionKind {
	return []ActionKind{Cancel, RunNow, Reschedule, Prioritize, Park, Unpark, Restart, Delete, Edit}
}

// Action is a change to make to the records that a query selects.
type Action struct {
	Kind ActionKind
	// At is the time for Reschedule. For Restart it is when the record may start; zero leaves
	// its time as it is. Other actions ignore it.
	At time.Time
	// Priority is the new priority for Prioritize.
	Priority int
	// Reason is for Cancel and Park. The record's status shows it, also after the record
	// ended as canceled.
	Reason string
	// ForgetAt is for Cancel: the time from which the canceled record may be forgotten,
	// whether it ends at once or later (see Record.ForgetAt).
	ForgetAt time.Time
	// IgnoreEdges is for Restart: the record does not wait for its edges, and none of them
	// counts as failed. Other actions ignore it.
	IgnoreEdges bool
	// Edit is what Edit changes. Other actions ignore it.
	Edit *EditedFields
}

// EditedFields are the fields that Edit changes in one step. Fields that are nil stay as they
// are.
type EditedFields struct {
	// Count is the ModificationCount of the record as it was read.
	Count int
	// Body replaces the body. It must be of the type and version of the record.
	Body *registry.Body
	// Priority and WaitUntil are what Prioritize and Reschedule set. A parked record stays
	// parked, and waits for the time once it is not.
	Priority  *int
	WaitUntil *time.Time
}

// IsStale reports whether the action is an Edit of another version of a record, which has the
// given ModificationCount.
func (a Action) IsStale(count int) bool { return a.Kind == Edit && a.Edit.Count != count }

// Validate returns an error if the kind is not one of ActionKinds, or lacks its fields.
func (a Action) Validate() error {
	for _, kind := range ActionKinds() {
		if a.Kind != kind {
			continue
		}
		if kind == Edit && a.Edit == nil {
			return fmt.Errorf("invalid action: Edit must be set to %s", kind)
		}
		return nil
	}
	return fmt.Errorf("invalid action: Kind must be one of %q (is %q)", ActionKinds(), a.Kind)
}

// ActRequest asks for an action on all or part of the records that a query selects.
type ActRequest struct {
	Query  Query
	Action Action
	// After is the Next of the last call. Empty begins with the first record.
	After Cursor
	// Limit is the maximum number of records that are examined. It must be at least 1.
	Limit int
	// DryRun changes nothing and reports what would be done.
	DryRun bool
}

// Acted is the result of Act.
type Acted struct {
	// Done counts the records that the action was done to. Skipped counts the selected
	// records whose state does not allow the action.
	Done, Skipped int
	// Next is where the next call should begin. It is empty if there are no more records.
	Next Cursor
}
