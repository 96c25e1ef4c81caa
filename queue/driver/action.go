package driver

import (
	"fmt"
	"time"
)

// ActionKind is something that a person does to jobs.
type ActionKind string

// The kinds of actions. Each says which records it can be done to; the others
// are skipped. Each but Prioritize and Delete adds one to the ModificationCount of
// a stored record that does not run, so that a process that has read it before can't take
// it.
const (
	// Cancel ends a record that has not ended, with the outcome
	// amboy.OutcomeCanceled, and frees what it holds; its edges are not waited
	// for any more, and jobs that depend on it find it among their Failed edges.
	// A record that awaits its retry ends too. One that runs is only marked (see
	// Driver.CancelRequests), and goes on until whoever runs it ends it. It never
	// runs again: where its lease is handed back or recovered, or where it would
	// await a retry, it ends as canceled then. So it does where it fails; where it
	// succeeds it has succeeded, and shows nothing of the Cancel.
	Cancel ActionKind = "cancel"
	// RunNow makes a record due that waits for its time, or that was handed back
	// until a time. It goes on to wait for its edges and scopes.
	RunNow ActionKind = "run now"
	// Reschedule gives a record that has not started, and is not parked, another
	// wait-until time, At. It goes on to wait for that, its edges and its scopes.
	Reschedule ActionKind = "reschedule"
	// Prioritize gives a record that has not ended another priority.
	Prioritize ActionKind = "prioritize"
	// Park sets a record aside that has not started, for Reason.
	Park ActionKind = "park"
	// Unpark lets a parked record go on, to wait for its edges, its time and its
	// scopes.
	Unpark ActionKind = "unpark"
	// Restart runs a job again that failed, was canceled or expired, as the same
	// attempt, which arrives anew. Its errors stay among its attempt errors. It
	// takes its enqueue scopes and its unique key again, and is skipped where
	// another job has one. Its dispatch-by time is dropped, its edges are not
	// waited for, and who depended on it is not told.
	Restart ActionKind = "restart"
	// Delete removes a record that has ended for good.
	Delete ActionKind = "delete"
)

// ActionKinds lists the kinds.
func ActionKinds() []ActionKind {
	return []ActionKind{Cancel, RunNow, Reschedule, Prioritize, Park, Unpark, Restart, Delete}
}

// Action is something to do to the records that a query selects.
type Action struct {
	Kind ActionKind
	// At is the time for Reschedule; others leave it out.
	At time.Time
	// Priority is for Prioritize.
	Priority int
	// Reason is for Cancel and Park. The record's status shows it, and that of one
	// that ends as canceled for good.
	Reason string
	// ForgetAt is for Cancel: when a record that ends because of it, at once or
	// later, may be forgotten (see Record.ForgetAt).
	ForgetAt time.Time
}

// Validate returns an error where the kind is none of ActionKinds.
func (a Action) Validate() error {
	for _, kind := range ActionKinds() {
		if a.Kind == kind {
			return nil
		}
	}
	return fmt.Errorf("invalid action: Kind must be one of %q (is %q)", ActionKinds(), a.Kind)
}

// ActRequest asks for an action on the records that a query selects, or on a part
// of them.
type ActRequest struct {
	Query  Query
	Action Action
	// After is where the last call ended.
	After Cursor
	// Limit is the number of records that are looked at, at most. It must be at
	// least 1.
	Limit int
	// DryRun changes nothing, and tells what would be done.
	DryRun bool
}

// Acted tells what Act did.
type Acted struct {
	// Done counts the records to which the action was done, Skipped those that
	// the query selects whose state does not allow it.
	Done, Skipped int
	// Next is where a next call should begin; empty where there are no more
	// records.
	Next Cursor
}
