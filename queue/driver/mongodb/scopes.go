package mongodb

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"go.mongodb.org/mongo-driver/bson"
)

// A scope is held by the document that has it among its scopes, of which the
// unique index sees to it that there is one. Who needs a scope that is held stands
// in line for it, where no claim meets it. When a scope may have been taken or
// freed it is looked at, and who stands in the wrong place is moved: where it is
// held, those that are ready wait for it; where it is free, the first of those
// that wait is ready, unless another one that is ready comes before it. Looking
// again is harmless, so that two processes may do so at once, and a sweep does it
// for one that died.

// scopesAtOnce is the number of scopes that one command looks at, as a pipeline
// may not have more than 1,000 stages.
const scopesAtOnce = 50

// rivalsAtOnce is the number of documents, at most, that are made to wait at once.
const rivalsAtOnce = 1000

// maxArrangements is how often scopes are looked at again because what was found
// has changed others.
const maxArrangements = 1000

// scopeSet are scopes by queue.
type scopeSet map[string]map[string]bool

func (s scopeSet) add(queue string, scopes ...string) {
	if len(scopes) == 0 {
		return
	}
	if s[queue] == nil {
		s[queue] = map[string]bool{}
	}
	for _, scope := range scopes {
		s[queue][scope] = true
	}
}

// touch adds the scopes that a change of a document took or freed, or for which
// others may be first now. before is nil for one that is new.
func (s scopeSet) touch(before, after *document) {
	var was document
	if before != nil {
		was = *before
	}
	s.add(after.Group, without(was.Scopes, after.Scopes)...)
	s.add(after.Group, without(after.Scopes, was.Scopes)...)
	if was.competes() != after.competes() || was.Line.Priority != after.Line.Priority || was.Line.Scope != after.Line.Scope {
		s.add(after.Group, was.competing()...)
		s.add(after.Group, after.competing()...)
	}
}

// competes is true of a document that wants scopes and may have them.
func (doc *document) competes() bool { return len(doc.competing()) > 0 }

// competing are the scopes for which the document competes with others.
func (doc *document) competing() []string {
	if doc.Line.In == inReady || doc.Line.In == inScope {
		return doc.Line.Wants
	}
	return nil
}

// arrange looks at scopes, and moves those that stand in the wrong place. It tells
// whether somebody is ready because of that.
func (d *Driver) arrange(ctx context.Context, scopes scopeSet) (readied bool, err error) {
	for queue, set := range scopes {
		some, err := d.arrangeIn(ctx, queue, slices.Sorted(maps.Keys(set)))
		readied = readied || some
		if err != nil {
			return readied, fmt.Errorf("of queue %q: %w", queue, err)
		}
	}
	return readied, nil
}

func (d *Driver) arrangeIn(ctx context.Context, queue string, left []string) (readied bool, err error) {
	for round := 0; len(left) > 0 && round < maxArrangements; round++ {
		scopes := left[:min(len(left), scopesAtOnce)]
		left = left[len(scopes):]
		a, err := d.lookAt(ctx, queue, scopes)
		if err != nil {
			return readied, err
		}
		changes := a.changes(scopes)
		err = d.write(ctx, changes)
		if err != nil {
			return readied, err
		}
		for _, c := range changes {
			if c.landed() && c.after.Line.In == inReady {
				readied = true
				d.herald.add(c.after)
			}
			left = append(left, without(c.lookAgain(), left)...)
		}
		if a.more {
			left = append(left, without(scopes, left)...)
		}
	}
	return readied, nil
}

// lookAgain are the scopes at which one must look again after a change. That for
// which a document was made to wait may have been freed before it did. For the
// others another one may be first now.
func (c *change) lookAgain() []string {
	switch {
	case !c.landed():
		return c.before.competing()
	case c.after.Line.In == inScope:
		return c.after.Line.Wants
	default:
		return nil
	}
}

// arrangement is what a look at scopes finds.
type arrangement struct {
	*Driver
	queue string
	// holders are the _ids of those that hold the scopes.
	holders map[string]string
	// rivals are ready, and want some of the scopes. Those that run first come
	// first.
	rivals []*document
	// waiters are the first in each line.
	waiters map[string]*document
	// more is true where there may be more rivals.
	more bool
}

// lookAt looks at scopes of a queue, with one command; and with another one where
// the first in a line wants more than these.
func (d *Driver) lookAt(ctx context.Context, queue string, scopes []string) (*arrangement, error) {
	a := &arrangement{Driver: d, queue: queue, holders: map[string]string{}, waiters: map[string]*document{}}
	in := bson.D{{Key: "$in", Value: scopes}}
	pipeline := bson.A{
		match(d.inQueue(queue, bson.E{Key: "scopes", Value: in})),
		project("holder", bson.D{{Key: "_id", Value: "$_id"}, {Key: "scopes", Value: "$scopes"}}),
		d.union(
			match(d.inQueue(queue, bson.E{Key: "line.wants", Value: in}, bson.E{Key: "line.in", Value: inReady})),
			bson.D{{Key: "$sort", Value: inRank}},
			bson.D{{Key: "$limit", Value: rivalsAtOnce}},
			bson.D{{Key: "$project", Value: withoutJob}},
			project("rival", "$$ROOT"),
		),
	}
	for _, scope := range scopes {
		pipeline = append(pipeline, d.union(
			match(d.inQueue(queue, bson.E{Key: "line.scope", Value: scope})),
			bson.D{{Key: "$sort", Value: inRank}},
			bson.D{{Key: "$limit", Value: 1}},
			bson.D{{Key: "$project", Value: withoutJob}},
			project("waiter", "$$ROOT"),
		))
	}
	err := d.pipe(ctx, pipeline, func(raw bson.Raw) { a.add(raw) })
	if err != nil {
		return nil, err
	}
	a.more = len(a.rivals) == rivalsAtOnce
	err = a.findOtherHolders(ctx, scopes)
	return a, err
}

func (a *arrangement) add(raw bson.Raw) {
	if holder, ok := raw.Lookup("holder").DocumentOK(); ok {
		var h struct {
			ID     string   `bson:"_id"`
			Scopes []string `bson:"scopes"`
		}
		if bson.Unmarshal(holder, &h) == nil {
			for _, scope := range h.Scopes {
				a.holders[scope] = h.ID
			}
		}
	}
	if rival, ok := raw.Lookup("rival").DocumentOK(); ok {
		a.rivals = append(a.rivals, decode(rival))
	}
	if waiter, ok := raw.Lookup("waiter").DocumentOK(); ok {
		doc := decode(waiter)
		a.waiters[doc.Line.Scope] = doc
	}
}

// findOtherHolders finds who holds the other scopes of the first in each line.
func (a *arrangement) findOtherHolders(ctx context.Context, scopes []string) error {
	var others []string
	for _, doc := range a.waiters {
		others = append(others, without(doc.Line.Wants, scopes)...)
	}
	if len(others) == 0 {
		return nil
	}
	return a.pipe(ctx, bson.A{
		match(a.inQueue(a.queue, bson.E{Key: "scopes", Value: bson.D{{Key: "$in", Value: others}}})),
		project("holder", bson.D{{Key: "_id", Value: "$_id"}, {Key: "scopes", Value: "$scopes"}}),
	}, a.add)
}

// changes are those that put everybody in the right place.
func (a *arrangement) changes(scopes []string) []*change {
	var changes []*change
	for _, doc := range a.rivals {
		if scope, held := a.obstacle(doc); held {
			changes = append(changes, a.move(doc, func(doc *document) { doc.block(scope) }))
		}
	}
	for _, scope := range scopes {
		doc := a.waiters[scope]
		if _, held := a.holders[scope]; held || doc == nil || a.isOvertaken(doc, scope) {
			continue
		}
		if other, blocked := a.obstacle(doc); blocked {
			changes = append(changes, a.move(doc, func(doc *document) { doc.block(other) }))
			continue
		}
		changes = append(changes, a.move(doc, (*document).admit))
	}
	return changes
}

// obstacle returns a scope that a document wants, and another one holds.
func (a *arrangement) obstacle(doc *document) (scope string, held bool) {
	for _, scope := range doc.Line.Wants {
		if holder, held := a.holders[scope]; held && holder != doc.id {
			return scope, true
		}
	}
	return "", false
}

// isOvertaken tells whether one that is ready wants the scope, and comes first.
func (a *arrangement) isOvertaken(doc *document, scope string) bool {
	return slices.ContainsFunc(a.rivals, func(rival *document) bool {
		_, blocked := a.obstacle(rival)
		return !blocked && slices.Contains(rival.Line.Wants, scope) && rival.before(doc)
	})
}

// before tells whether a document runs before another one.
func (doc *document) before(other *document) bool {
	if doc.Line.Priority != other.Line.Priority {
		return doc.Line.Priority > other.Line.Priority
	}
	return doc.Line.Order < other.Line.Order
}

// move is a change of a document that waits where it was seen.
func (a *arrangement) move(doc *document, to func(*document)) *change {
	in, scope := doc.Line.In, doc.Line.Scope
	return &change{
		queue:  a.queue,
		name:   doc.Name,
		before: doc,
		quiet:  true, // see herald
		step: func(doc *document) error {
			if !doc.waits() || doc.Line.In != in || doc.Line.Scope != scope {
				return errMoved
			}
			to(doc)
			return nil
		},
	}
}
