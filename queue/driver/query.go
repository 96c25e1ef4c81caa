package driver

import (
	"time"

	"github.com/mongodb/amboy"
)

// Query selects records by what they are now. A field that is empty selects all;
// fields that are not select what meets all of them.
type Query struct {
	// Queues are those that the record may belong to.
	Queues []string
	// States are those that it may be in, as StateOf derives them.
	States []amboy.JobState
	// Types are those that it may have.
	Types []string
	// ID is a pattern for the job's ID: * stands for any characters, ? for one,
	// and all others for themselves.
	ID string
	// JobIDs are those that the job may have.
	JobIDs []string
	// Tags are those that it has, all of them.
	Tags []string
	// Scope is one that it needs, whether it holds it or not.
	Scope string
	// Holding selects the records that hold a scope, whichever it is.
	Holding bool
	// DependsOn is the ID of a job that it has among its edges, whether that has
	// ended or not. It needs one of Queues.
	DependsOn string
	// Error is a part of the last of its errors. Case matters.
	Error string
	// Created, Due and Ended are when it was put, when it may start (which is
	// its wait-until time), and when it ended.
	Created, Due, Ended TimeRange
	// Latest leaves out the attempts that others have replaced.
	Latest bool
}

// TimeRange is the times from From on and before To. Where either is zero there
// is no such bound. A time that is not set lies in no range but the one without
// bounds.
type TimeRange struct{ From, To time.Time }

// IsZero is true for the range without bounds.
func (r TimeRange) IsZero() bool { return r.From.IsZero() && r.To.IsZero() }

// Contains tells whether a time lies in the range.
func (r TimeRange) Contains(t time.Time) bool {
	if r.IsZero() {
		return true
	}
	return !t.IsZero() && !t.Before(r.From) && (r.To.IsZero() || t.Before(r.To))
}

// Cursor is a place in the order of records: after the last one of a page. It is
// the driver's own; the empty one stands for the beginning. It stays good while
// records come and go.
type Cursor string

// PageRequest asks for a part of the records that a query selects, in the order
// in which they were added.
type PageRequest struct {
	// After is where the last page ended.
	After Cursor
	// Limit is the number of records at most. It must be at least 1.
	Limit int
	// Newest reverses the order.
	Newest bool
}

// Page is a part of the records that a query selects.
type Page struct {
	// Records tell what they wait for in their status, so that StateOf gives
	// their state: a record waits for its edges (blocked), then for its time
	// (scheduled, or blocked where it was handed back), then for its scopes
	// (blocked). There may be fewer than Limit, also none, before the end.
	Records []*Record
	// Next is where the next page begins; empty where there is none.
	Next Cursor
}
