package mongodb

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"go.mongodb.org/mongo-driver/bson"
)

// A document holds the scopes in its scopes field; a unique index ensures that each scope
// has one holder. A document that needs a held scope waits in a line for it, and claims
// do not read it. When a scope may have been taken or freed, it is rearranged: if it is
// held, ready documents that want it are made to wait; if it is free, the first waiter is
// made ready, unless a ready document comes before it. Rearranging is idempotent, so two
// processes may do it at once, and a sweep does it for a process that died.

// scopesBatch is the number of scopes that one command queries, because a pipeline must
// not have more than 1,000 stages.
const scopesBatch = 50

// rivalsBatch is the maximum number of documents that are made to wait in one write.
const rivalsBatch = 1000

// fewRivals is the number of ready documents up to which all that want some scopes are read,
// although their scopes may have room.
const fewRivals = 100

// maxArrangements is the maximum number of rounds in which scopes are rearranged because
// of earlier changes.
const maxArrangements = 1000

// scopeSet is a set of scopes by queue. Limited scopes are in it by key (see slots.go).
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

// touch adds the scopes that a change of a document took or freed, and those whose first
// waiter it may have changed. before is nil for a new document.
func (s scopeSet) touch(before, after *document) {
	var was document
	if before != nil {
		was = *before
	}
	s.add(after.Group, keysOfHeld(without(was.Scopes, after.Scopes))...)
	s.add(after.Group, keysOfHeld(without(after.Scopes, was.Scopes))...)
	if was.competes() != after.competes() || was.Line.Priority != after.Line.Priority || was.Line.Scope != after.Line.Scope {
		s.add(after.Group, was.competing()...)
		s.add(after.Group, after.competing()...)
	}
}

// competes reports whether the document competes for scopes.
func (doc *document) competes() bool { return len(doc.competing()) > 0 }

// competing returns the scopes that the document competes for.
func (doc *document) competing() []string {
	if doc.Line.In == inReady || doc.Line.In == inScope {
		return doc.Line.Wants
	}
	return nil
}

// arrange rearranges scopes. It reports whether that made a document ready.
func (d *Driver) arrange(ctx context.Context, scopes scopeSet) (readied bool, err error) {
	for queue, set := range scopes {
		some, err := d.arrangeIn(ctx, queue, slices.Sorted(maps.Keys(set)))
		readied = readied || some
		if err != nil {
			return readied, fmt.Errorf("arranging scopes of queue %q: %w", queue, err)
		}
	}
	return readied, nil
}

func (d *Driver) arrangeIn(ctx context.Context, queue string, left []string) (readied bool, err error) {
	for round := 0; len(left) > 0 && round < maxArrangements; round++ {
		scopes := left[:min(len(left), scopesBatch)]
		left = left[len(scopes):]
		a, err := d.readScopes(ctx, queue, scopes)
		if err != nil {
			return readied, err
		}
		changes := a.changes(scopes)
		err = d.write(ctx, changes)
		if err != nil {
			return readied, err
		}
		d.avoid(ctx, changes)
		for _, c := range changes {
			if c.landed() && c.after.Line.In == inReady {
				readied = true
				d.announcer.add(c.after)
			}
			left = append(left, without(c.recheck(), left)...)
		}
	}
	return readied, nil
}

// recheck returns the scopes that must be checked again after a change. If the change
// made a document wait, its scope may have been freed just before, another document
// may be first for the other scopes, and more may have to wait.
func (c *change) recheck() []string {
	switch {
	case errors.Is(c.err, errBlocked):
		return nil // its scopes are left alone for a while
	case !c.landed():
		return c.before.competing()
	case c.after.Line.In == inScope:
		return c.after.Line.Wants
	case c.after.Line.In == inReady:
		return c.after.limited() // there may be room for another
	default:
		return nil
	}
}

// arrangement holds the holders and waiters of some scopes.
type arrangement struct {
	*Driver
	queue string
	// holders are the _ids of the documents that hold the scopes, by key.
	holders map[string][]string
	// limits are the smallest limits that the holders have, by key.
	limits map[string]int
	// rivals are ready documents that want some of the scopes (see readRivals).
	rivals []*document
	// waiters are the first waiters of each scope.
	waiters map[string]*document
	// avoided are the scopes to leave alone.
	avoided map[key]bool
}

// readScopes queries scopes of a queue with one command. It takes a second one if a first waiter
// wants other scopes too, and one if there are many rivals.
func (d *Driver) readScopes(ctx context.Context, queue string, scopes []string) (*arrangement, error) {
	a := &arrangement{Driver: d, queue: queue, holders: map[string][]string{}, limits: map[string]int{}, waiters: map[string]*document{}}
	docs, avoided := d.avoided.at(d.elapsed())
	a.avoided = avoided
	pipeline := append(a.holdersOf(scopes), d.union(
		match(a.rivalsFor(scopes)),
		bson.D{{Key: "$limit", Value: fewRivals}},
		bson.D{{Key: "$project", Value: withoutJob}},
		project("rival", "$$ROOT"),
	))
	for _, scope := range scopes {
		pipeline = append(pipeline, d.union(
			match(d.inQueue(queue, bson.E{Key: "line.scope", Value: scope})),
			bson.D{{Key: "$sort", Value: inRank}},
			bson.D{{Key: "$limit", Value: 1}},
			bson.D{{Key: "$project", Value: withoutJob}},
			project("waiter", "$$ROOT"),
		))
	}
	err := d.pipe(ctx, pipeline, a.add)
	if err == nil && len(a.rivals) == fewRivals {
		err = a.readRivals(ctx, scopes)
	}
	if err != nil {
		return nil, err
	}
	a.rivals = slices.DeleteFunc(a.rivals, func(doc *document) bool { return docs[key{queue, doc.Name}] })
	err = a.findOtherHolders(ctx, scopes)
	return a, err
}

// readRivals reads the first rivals for the scopes that need them, beside any few. While a
// scope has room and nothing waits for it, its rivals stay as they are, however many they are.
// A rival with a smaller limit than the holders may so be missed; it waits once a claim meets it.
func (a *arrangement) readRivals(ctx context.Context, scopes []string) error {
	scopes = slices.DeleteFunc(slices.Clone(scopes), func(scope string) bool { return !a.needsRivals(scope) })
	if len(scopes) == 0 {
		return nil
	}
	few := a.rivals
	a.rivals = nil
	err := a.pipe(ctx, bson.A{
		match(a.rivalsFor(scopes)),
		bson.D{{Key: "$project", Value: withoutJob}}, // no index sorts them, and a sort has a limit of memory
		bson.D{{Key: "$sort", Value: inRank}},
		bson.D{{Key: "$limit", Value: rivalsBatch}},
		project("rival", "$$ROOT"),
	}, a.add)
	first := a.rivals
	for _, doc := range few {
		if !slices.ContainsFunc(first, func(other *document) bool { return other.id == doc.id }) {
			a.rivals = append(a.rivals, doc)
		}
	}
	return err
}

// needsRivals reports whether the rivals for a scope must wait, or those that were not read may
// come before its first waiter.
func (a *arrangement) needsRivals(scope string) bool {
	n, doc := len(a.holders[scope]), a.waiters[scope]
	return n > 0 && n >= a.limits[scope] || doc != nil && !a.isOvertaken(doc, scope) || a.avoided[key{a.queue, scope}]
}

// rivalsFor returns a filter for the ready documents that want some of the scopes.
func (a *arrangement) rivalsFor(scopes []string) bson.D {
	return a.inQueue(a.queue, bson.E{Key: "line.wants", Value: field("$in", scopes)}, bson.E{Key: "line.in", Value: inReady})
}

// holdersOf returns the stages that find the holders of scopes.
func (a *arrangement) holdersOf(scopes []string) bson.A {
	return bson.A{
		match(a.inQueue(a.queue, bson.E{Key: "scopes", Value: field("$in", holding(scopes))})),
		project("holder", bson.D{{Key: "_id", Value: "$_id"}, {Key: "scopes", Value: "$scopes"}, {Key: "required_scopes", Value: "$required_scopes"}}),
	}
}

func (a *arrangement) add(raw bson.Raw) {
	if holder, ok := raw.Lookup("holder").DocumentOK(); ok {
		doc := decode(holder)
		for _, held := range doc.Scopes {
			a.hold(keyOf(held), doc)
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

// hold adds a holder, which may have been read before.
func (a *arrangement) hold(key string, doc *document) {
	if slices.Contains(a.holders[key], doc.id) {
		return
	}
	limit := doc.limitOf(key)
	if len(a.holders[key]) > 0 {
		limit = min(limit, a.limits[key])
	}
	a.holders[key], a.limits[key] = append(a.holders[key], doc.id), limit
}

// findOtherHolders finds the holders of the other scopes that the first waiters want.
func (a *arrangement) findOtherHolders(ctx context.Context, scopes []string) error {
	var others []string
	for _, doc := range a.waiters {
		others = append(others, without(doc.Line.Wants, scopes)...)
	}
	if len(others) == 0 {
		return nil
	}
	return a.pipe(ctx, a.holdersOf(others), a.add)
}

// changes returns the changes that put all documents in the right places.
func (a *arrangement) changes(scopes []string) []*change {
	var changes []*change
	for _, doc := range a.rivals {
		if scope, held := a.obstacle(doc); held {
			changes = append(changes, a.move(doc, func(doc *document) { doc.block(scope) }))
		}
	}
	for _, scope := range scopes {
		doc := a.waiters[scope]
		if doc == nil || a.avoided[key{a.queue, scope}] || a.isOvertaken(doc, scope) {
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

// obstacle returns a scope that the document wants and another one holds, or that is left
// alone.
func (a *arrangement) obstacle(doc *document) (scope string, held bool) {
	for _, scope := range doc.Line.Wants {
		if a.others(doc, scope) >= doc.limitOf(scope) || a.avoided[key{a.queue, scope}] {
			return scope, true
		}
	}
	return "", false
}

// others counts the holders of a key beside the document.
func (a *arrangement) others(doc *document, key string) int {
	n := len(a.holders[key])
	if slices.Contains(a.holders[key], doc.id) {
		n--
	}
	return n
}

// isOvertaken reports whether a scope has no room for a document beside its holders and the ready
// documents that want it and come first.
func (a *arrangement) isOvertaken(doc *document, scope string) bool {
	taken := len(a.holders[scope])
	for _, rival := range a.rivals {
		_, blocked := a.obstacle(rival)
		if !blocked && slices.Contains(rival.Line.Wants, scope) && rival.before(doc) {
			taken++
		}
	}
	return taken >= doc.limitOf(scope)
}

// before reports whether a document runs before another one.
func (doc *document) before(other *document) bool {
	if doc.Line.Priority != other.Line.Priority {
		return doc.Line.Priority > other.Line.Priority
	}
	return doc.Line.Order < other.Line.Order
}

// move returns a change of a document that is still in the place where it was read.
func (a *arrangement) move(doc *document, to func(*document)) *change {
	in, scope := doc.Line.In, doc.Line.Scope
	return &change{
		queue:  a.queue,
		name:   doc.Name,
		before: doc,
		quiet:  true, // see announcer
		step: func(doc *document) error {
			if !doc.waits() || doc.Line.In != in || doc.Line.Scope != scope {
				return errMoved
			}
			to(doc)
			return nil
		},
	}
}
