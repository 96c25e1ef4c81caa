package mongodb

import (
	"time"

	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/internal/nameset"
	"github.com/mongodb/amboy/queue/internal/schedule"
)

// place is the place of a waiting document in the line. The names are stored.
type place string

const (
	inReady     place = "ready"     // a claim may take it
	inScheduled place = "scheduled" // its wait-until time has not come
	inPostponed place = "postponed" // it was handed back until a time
	inScope     place = "scope"     // another document holds one of its scopes
	inEdges     place = "edges"     // its dependencies have not ended
	inParked    place = "parked"    // set aside by an operator, or because its type is unknown
	inHandover  place = "handover"  // it will replace an attempt that still has the job's ID
)

// line is the state of a document while it waits to run; indexes cover it. A document
// that runs or has ended has none.
type line struct {
	In       place `bson:"in"`
	Priority int   `bson:"priority"`
	// Order is the document's order, repeated here for the indexes.
	Order int64 `bson:"order"`
	// Due is when a scheduled or postponed document may continue.
	Due time.Time `bson:"due,omitempty"`
	// Since is when the wait until Due began, if the document was handed back or put by a
	// retry. It is zero if Due must not be moved.
	Since time.Time `bson:"since,omitempty"`
	// Scope is the key of the held scope that the document waits for (see slots.go).
	Scope string `bson:"scope,omitempty"`
	// Wants are the keys of the scopes that the document needs and does not hold.
	Wants []string `bson:"wants,omitempty"`
	// Edges are the IDs of the dependencies that have not ended. They are kept while the
	// document is parked.
	Edges []string `bson:"edges,omitempty"`
	// Expires is the dispatch-by time, unless the document is parked.
	Expires time.Time `bson:"expires,omitempty"`
	// Kind is the key of the document's kind, by which claims exclude kinds that their
	// owner does not know.
	Kind string `bson:"kind,omitempty"`
}

// IsZero reports whether the document is not in the line.
func (l line) IsZero() bool { return l.In == "" }

// schedulePlaces maps places to those of package schedule.
var schedulePlaces = map[place]schedule.Place{
	inReady:     schedule.Ready,
	inScheduled: schedule.Scheduled,
	inPostponed: schedule.Postponed,
	inScope:     schedule.ScopeBlocked,
	inEdges:     schedule.Waiting,
	inParked:    schedule.Parked,
	inHandover:  schedule.Scheduled,
}

// enter puts a document in the line, or moves it if it is already in it. It waits for its
// edges, then for its time, and is ready otherwise. Held scopes are left to the claim to
// find.
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

// newLine returns the line of a document without a place.
func (doc *document) newLine() line {
	return line{
		Priority: doc.Priority,
		Order:    doc.Order,
		Wants:    doc.wants(),
		Expires:  doc.TimeInfo.DispatchBy,
		Kind:     doc.kind(),
	}
}

// kind returns the key of the document's kind.
func (doc *document) kind() string { return driver.KindOf(&doc.Record).Key() }

// wants returns the keys of the scopes that the document needs and does not hold, each once.
func (doc *document) wants() []string {
	return nameset.Without(keysOfHeld(doc.RequiredScopes), keysOfHeld(doc.Scopes))
}

// block makes a document that is ready wait for a scope.
func (doc *document) block(scope string) {
	doc.Line.In, doc.Line.Scope, doc.Line.Due = inScope, scope, time.Time{}
}

// admit makes a document ready that waited for its time or for a scope.
func (doc *document) admit() {
	doc.Status.Reason = ""
	doc.Line.In, doc.Line.Scope = inReady, ""
	doc.Line.Due, doc.Line.Since = time.Time{}, time.Time{}
}

// park sets a document aside for a reason. It keeps its open edges and does not expire.
func (doc *document) park(reason string) {
	edges, since := doc.Line.Edges, doc.Line.Since
	doc.Line = doc.newLine()
	doc.Line.In, doc.Line.Edges, doc.Line.Expires = inParked, edges, time.Time{}
	doc.Line.Since = since
	doc.Status.Reason = reason
}

// ceilMillisecond rounds t up to a millisecond, the resolution of stored dates.
func ceilMillisecond(t time.Time) time.Time {
	floor := t.Truncate(time.Millisecond)
	if floor.Equal(t) {
		return t
	}
	return floor.Add(time.Millisecond)
}
