package driver

import (
	"time"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/registry"
)

// Query selects records by their current contents. Empty fields match everything;
// non-empty fields are ANDed.
type Query struct {
	// Queues are the queues to search.
	Queues []string
	// States are the accepted states, as StateOf derives them.
	States []amboy.JobState
	// Types are the accepted job types.
	Types []string
	// ID is a pattern for the job's ID: * matches any characters, ? matches one, and all
	// others match themselves.
	ID string
	// IDPart and TypePart are parts of the job's ID and type, and TagPart is a part of one of the
	// record's tags (see HasPart).
	IDPart, TypePart, TagPart string
	// JobIDs are the accepted job IDs.
	JobIDs []string
	// Tags must all be tags of the record.
	Tags []string
	// Scope is a scope that the record needs, held or not.
	Scope string
	// Holding selects the records that hold Scope, or that hold any scope if Scope is empty. The
	// cost of finding the holders of a Scope does not grow with the number of other records.
	Holding bool
	// DependsOn is the ID of a job among the record's edges, whether that job has ended
	// or not. It requires at least one of Queues.
	DependsOn string
	// Error is a part of the record's last error (see LastError and HasPart).
	Error string
	// Created, Due and Ended bound when the record was put, when it may start (its
	// wait-until time), and when it ended.
	Created, Due, Ended TimeRange
	// Latest excludes attempts that a later attempt replaced.
	Latest bool
}

// TimeRange contains the times from From, inclusive, to To, exclusive. A zero bound does
// not apply. A time that is not set lies only in the range without bounds.
type TimeRange struct{ From, To time.Time }

// IsZero reports whether the range has no bounds.
func (r TimeRange) IsZero() bool { return r.From.IsZero() && r.To.IsZero() }

// Contains reports whether a time lies in the range.
func (r TimeRange) Contains(t time.Time) bool {
	if r.IsZero() {
		return true
	}
	return !t.IsZero() && !t.Before(r.From) && (r.To.IsZero() || t.Before(r.To))
}

// Cursor is a position in the order of records: after the last record of a page. Its
// format is private to the driver. The empty cursor is the beginning. A cursor stays
// valid while records are added and removed, also the record before it, and in other processes.
type Cursor string

// PageRequest asks for a part of the records that a query selects, in the order
// in which they were added.
type PageRequest struct {
	// After is the Next of the last page.
	After Cursor
	// Limit is the maximum number of records. It must be at least 1.
	Limit int
	// Newest reverses the order.
	Newest bool
	// Brief asks for no more of the records than their queues, job IDs, types, scopes that they
	// require and take when they are put, start and end, and last errors (see LastError). A driver
	// may return more.
	Brief bool
	// Body, if it is set, leaves out the records for whose bodies it returns false, and those
	// whose bodies are empty or longer than MaxSearchedBody. It is called for each record that
	// the query selects, perhaps by several goroutines at once or under a lock of the driver, so it
	// must be fast and must not call the driver, nor keep the body, whose bytes the driver may reuse.
	// A page ends early after a time.
	Body func(registry.Body) bool
}

// Wants reports whether Body selects a body.
func (p PageRequest) Wants(body registry.Body) bool {
	return p.Body == nil || !body.IsZero() && len(body.Raw()) <= MaxSearchedBody && p.Body(body)
}

// MaxSearchedBody is the maximum length in bytes of a body that PageRequest.Body selects.
const MaxSearchedBody = 16 << 10

// Page is a part of the records that a query selects.
type Page struct {
	// Records show in their status what they wait for, so that StateOf returns their
	// state: a record waits for its edges (blocked), then for its time (scheduled, or
	// blocked if it was handed back), then for its scopes (blocked). A page may have
	// fewer records than Limit, or none, before the end.
	Records []*Record
	// Next is where the next page begins. It is empty if there is none.
	Next Cursor
}
