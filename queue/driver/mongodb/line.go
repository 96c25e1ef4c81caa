package mongodb

import (
	"slices"
	"time"

	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/internal/schedule"
)

// place says where in the line a document stands that waits to run. The names
// are stored.
type place string

const (
	inReady     place = "ready"     // a claim may take it
	inScheduled place = "scheduled" // its wait-until time has not come
	inPostponed place = "postponed" // it was handed back until a time
	inScope     place = "scope"     // another one holds a scope of it
	inEdges     place = "edges"     // others must end first
	inParked    place = "parked"    // a person, or an unknown type
	inHandover  place = "handover"  // it is to replace an attempt that has not made way
)

// line is what a document has while it waits to run, and what indexes find it
// by. One that runs, or has ended, has none.
type line struct {
	In       place `bson:"in"`
	Priority int   `bson:"priority"`
	// Order is the document's order, as an index can't have two lists of fields.
	Order int64 `bson:"order"`
	// Due is when one that is scheduled or postponed may go on.
	Due time.Time `bson:"due,omitempty"`
	// Since is when the wait until Due began of one that was handed back or put by a
	// retry; zero if Due is meant as it is.
	Since time.Time `bson:"since,omitempty"`
	// Scope is the one that was found held.
	Scope string `bson:"scope,omitempty"`
	// Wants are the scopes that it needs beside those that it holds.
	Wants []string `bson:"wants,omitempty"`
	// Edges are the IDs of the jobs that have not ended. They are kept while it
	// is parked.
	Edges []string `bson:"edges,omitempty"`
	// Expires is its dispatch-by time, unless it is parked.
	Expires time.Time `bson:"expires,omitempty"`
	// Kind is the key of the document's kind, by which claims leave out those that
	// their owner does not know.
	Kind string `bson:"kind,omitempty"`
}

// IsZero is true for one that is not in the line.
func (l line) IsZero() bool { return l.In == "" }

// schedulePlaces are the places in the terms of the schedule.
var schedulePlaces = map[place]schedule.Place{
	inReady:     schedule.Ready,
	inScheduled: schedule.Scheduled,
	inPostponed: schedule.Postponed,
	inScope:     schedule.ScopeBlocked,
	inEdges:     schedule.Waiting,
	inParked:    schedule.Parked,
	inHandover:  schedule.Scheduled,
}

// enter puts a document in the line, which may stand in it already, where it
// waits for what is in its way: its edges, then its time. Else it is ready,
// where a claim finds the scopes that are held.
func (doc *document) enter(edges []string, now time.Time) {
	since := doc.Line.Since
	doc.Line = doc.newLine()
	doc.Line.Edges = edges
	doc.Status.Reason = ""
	due := ceilMillisecond(doc.TimeInfo.WaitUntil)
	switch {
	case len(edges) > 0:
		doc.Line.In = inEdges
	case due.After(now):
		doc.Line.In, doc.Line.Due, doc.Line.Since = inScheduled, due, since
	default:
		doc.Line.In = inReady
	}
}

// newLine is the line of a document, in which it has no place yet.
func (doc *document) newLine() line {
	return line{
		Priority: doc.Priority,
		Order:    doc.Order,
		Wants:    doc.wants(),
		Expires:  doc.TimeInfo.DispatchBy,
		Kind:     doc.kind(),
	}
}

// kind is the key of the document's kind.
func (doc *document) kind() string { return driver.KindOf(&doc.Record).Key() }

// wants are the scopes that the document needs beside those that it holds, each
// once.
func (doc *document) wants() []string { return without(doc.RequiredScopes, doc.Scopes) }

// block makes a document that is ready wait for a scope.
func (doc *document) block(scope string) {
	doc.Line.In, doc.Line.Scope, doc.Line.Due = inScope, scope, time.Time{}
}

// admit makes a document ready that waits for its time, or for a scope.
func (doc *document) admit() {
	doc.Status.Reason = ""
	doc.Line.In, doc.Line.Scope = inReady, ""
	doc.Line.Due, doc.Line.Since = time.Time{}, time.Time{}
}

// park sets a document aside, for a reason. It keeps its open edges, and does not
// expire.
func (doc *document) park(reason string) {
	edges, since := doc.Line.Edges, doc.Line.Since
	doc.Line = doc.newLine()
	doc.Line.In, doc.Line.Edges, doc.Line.Expires = inParked, edges, time.Time{}
	doc.Line.Since = since
	doc.Status.Reason = reason
}

// ceilMillisecond is the first time from t on that a stored date can tell.
func ceilMillisecond(t time.Time) time.Time {
	floor := t.Truncate(time.Millisecond)
	if floor.Equal(t) {
		return t
	}
	return floor.Add(time.Millisecond)
}

// without lists the names, each once, that are not among the others.
func without(names, others []string) []string {
	var left []string
	for _, name := range names {
		if !slices.Contains(others, name) && !slices.Contains(left, name) {
			left = append(left, name)
		}
	}
	return left
}
