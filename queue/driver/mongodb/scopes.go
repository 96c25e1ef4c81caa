package mongodb

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"

	"go.mongodb.org/mongo-driver/bson"

	"github.com/mongodb/amboy/queue/internal/nameset"
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

// waitersBatch is the maximum number of waiters for a scope that are read at once.
const waitersBatch = 200

// fewRivals is the number of ready documents up to which all that want some scopes are read,
// although their scopes may have room.
const fewRivals = 100

// maxArrangements is the maximum number of rounds in which scopes are rearranged because
// of earlier changes.
const maxArrangements = 1000

// scopeSet is a set of scopes by queue, with the number of documents that are known to have
// released each. Limited scopes are in it by key (see slots.go).
type scopeSet map[string]map[string]int

func (s scopeSet) add(queue string, scopes ...string) {
	s.free(queue, 0, scopes...)
}

// free adds scopes that a number of documents have released.
func (s scopeSet) free(queue string, holders int, scopes ...string) {
	if len(scopes) == 0 {
		return
	}
	if s[queue] == nil {
		s[queue] = map[string]int{}
	}
	for _, scope := range scopes {
		s[queue][scope] += holders
	}
}

// touch adds the scopes that a change of a document took or freed, and those whose first
// waiter it may have changed. before is nil for a new document.
func (s scopeSet) touch(before, after *document) {
	var was document
	if before != nil {
		was = *before
	}
	s.free(after.Group, 1, keysOfHeld(nameset.Without(was.Scopes, after.Scopes))...)
	s.add(after.Group, keysOfHeld(nameset.Without(after.Scopes, was.Scopes))...)
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
	var some atomic.Bool
	err = eachQueue(scopes, func(queue string, set map[string]int) error {
		readiedIn, failure := d.arrangeIn(ctx, queue, set)
		if readiedIn {
			some.Store(true)
		}
		if failure != nil {
			return fmt.Errorf("arranging scopes of queue %q: %w", queue, failure)
		}
		return nil
	})
	return some.Load(), err
}

func (d *Driver) arrangeIn(ctx context.Context, queue string, set map[string]int) (readied bool, err error) {
	left := slices.Sorted(maps.Keys(set))
	// windows are the numbers of waiters to read for the limited scopes: one more than the released
	// places, which shows that the others behind it have no room either.
	windows := map[string]int{}
	for scope, freed := range set {
		if isLimited(scope) {
			windows[scope] = min(freed+1, waitersBatch)
		}
	}
	for round := 0; len(left) > 0 && round < maxArrangements; round++ {
		scopes := left[:min(len(left), scopesBatch)]
		left = left[len(scopes):]
		a, err := d.readScopes(ctx, queue, scopes, windows)
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
			left = append(left, nameset.Without(a.recheck(c), left)...)
		}
		for scope := range a.more {
			windows[scope] = min(4*a.window(scope), waitersBatch)
		}
	}
	return readied, nil
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
	// waiters are the first waiters of each scope, in their order.
	waiters map[string][]*document
	// windows are the numbers of waiters that are read of limited scopes.
	windows map[string]int
	// arranged are the scopes whose waiters were read, and more those of them that may have
	// room for more waiters than were read.
	arranged, more map[string]bool
	// admitted are the waiters that are made ready.
	admitted []*document
	// avoided are the scopes to leave alone.
	avoided map[key]bool
}

// readScopes queries scopes of a queue with one command. It takes another one if a first waiter
// wants other scopes too, and another if there are many rivals.
func (d *Driver) readScopes(ctx context.Context, queue string, scopes []string, windows map[string]int) (*arrangement, error) {
	a := &arrangement{
		Driver: d, queue: queue, windows: windows, holders: map[string][]string{}, limits: map[string]int{},
		waiters: map[string][]*document{}, arranged: map[string]bool{}, more: map[string]bool{},
	}
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
			bson.D{{Key: "$limit", Value: a.window(scope)}},
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

// window returns the number of waiters to read for a scope.
func (a *arrangement) window(scope string) int { return max(1, a.windows[scope]) }

// readRivals reads the first rivals for the scopes that need them, and keeps those that were read. While a
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
	n, waiters := len(a.holders[scope]), a.waiters[scope]
	return n > 0 && n >= a.limits[scope] || len(waiters) > 0 && !a.isOvertaken(waiters[0], scope) || a.avoided[key{a.queue, scope}]
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
		a.waiters[doc.Line.Scope] = append(a.waiters[doc.Line.Scope], doc)
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
	for _, waiters := range a.waiters {
		for _, doc := range waiters {
			others = append(others, nameset.Without(nameset.Without(doc.Line.Wants, scopes), others)...)
		}
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
		changes = append(changes, a.advance(scope)...)
	}
	return changes
}

// advance returns the changes that move the first waiters for a scope, as far as it has room.
func (a *arrangement) advance(scope string) (changes []*change) {
	a.arranged[scope] = true
	if a.avoided[key{a.queue, scope}] {
		return nil
	}
	for _, doc := range a.waiters[scope] {
		if a.isOvertaken(doc, scope) {
			return changes
		}
		if other, blocked := a.obstacle(doc); blocked {
			changes = append(changes, a.move(doc, func(doc *document) { doc.block(other) }))
			continue
		}
		changes = append(changes, a.move(doc, (*document).admit))
		a.admitted = append(a.admitted, doc)
	}
	if len(changes) == a.window(scope) {
		a.more[scope] = true
	}
	return changes
}

// recheck returns the scopes that must be checked again after a change. If the change
// made a document wait, its scope may have been freed just before, another document
// may be first for the other scopes, and more may have to wait.
func (a *arrangement) recheck(c *change) []string {
	switch {
	case errors.Is(c.err, errBlocked):
		return nil // its scopes are left alone for a while
	case !c.landed():
		return c.before.competing()
	case c.after.Line.In == inScope:
		return c.after.Line.Wants
	case c.after.Line.In == inReady:
		// There may be room for another.
		return slices.DeleteFunc(c.after.limited(), func(scope string) bool { return a.arranged[scope] && !a.more[scope] })
	default:
		return nil
	}
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

// others counts the holders of a key except the document.
func (a *arrangement) others(doc *document, key string) int {
	n := len(a.holders[key])
	if slices.Contains(a.holders[key], doc.id) {
		n--
	}
	return n
}

// isOvertaken reports whether a scope has no room for a document besides its holders and the
// documents that want it, are ready or made ready, and come first.
func (a *arrangement) isOvertaken(doc *document, scope string) bool {
	taken := len(a.holders[scope])
	for _, rival := range slices.Concat(a.rivals, a.admitted) {
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

// move returns a change of a document, which is made only if the document is still in the same run and place.
func (a *arrangement) move(doc *document, to func(*document)) *change {
	in, scope, order := doc.Line.In, doc.Line.Scope, doc.Order
	return &change{
		queue:  a.queue,
		name:   doc.Name,
		before: doc,
		quiet:  true, // see announcer
		step: func(doc *document) error {
			if !doc.waits() || doc.Line.In != in || doc.Line.Scope != scope || doc.Order != order {
				return errMoved
			}
			to(doc)
			return nil
		},
	}
}
