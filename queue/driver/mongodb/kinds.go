package mongodb

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"

	"go.mongodb.org/mongo-driver/bson"

	"github.com/mongodb/amboy/queue/driver"
)

const (
	// kindRounds is the maximum number of times that a query is repeated because it met
	// new kinds.
	kindRounds = 10
	// kindsPerBranch is the number of kinds of which one branch merges the first documents.
	// A server merges up to 200 ranges of an index; beyond that it sorts all documents.
	kindsPerBranch = 100
)

// noKind is the kind of a ready document without one, which another library wrote.
const noKind = ""

// kinds remembers the kinds of the documents that claims have met. A claim that excludes
// some kinds can then name all others: the index yields the first documents of each, in
// order. For kinds that are not known it reads one document.
type kinds struct {
	mu    sync.RWMutex
	known map[string]bool
}

func (k *kinds) add(keys ...string) {
	for _, key := range keys {
		k.mu.RLock()
		known := k.known[key]
		k.mu.RUnlock()
		if known {
			continue
		}
		k.mu.Lock()
		if k.known == nil {
			k.known = map[string]bool{}
		}
		k.known[key] = true
		k.mu.Unlock()
	}
}

// but returns the known kinds that are not excluded, sorted.
func (k *kinds) but(except kindSet) []string {
	k.mu.RLock()
	defer k.mu.RUnlock()
	keys := make([]string, 0, len(k.known))
	for key := range k.known {
		if !except[key] {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

// kindSet is the set of kinds that a claim excludes, by key. It is usually empty.
type kindSet map[string]bool

func newKindSet(all []driver.Kind) kindSet {
	if len(all) == 0 {
		return nil
	}
	s := make(kindSet, len(all))
	for _, k := range all {
		s[k.Key()] = true
	}
	return s
}

// leaves reports whether a document is excluded.
func (s kindSet) leaves(doc *document) bool { return len(s) > 0 && s[doc.kind()] }

// others is the condition for documents of kinds that are neither excluded nor known.
func (s kindSet) others(known []string) bson.D {
	if len(s) == 0 && len(known) == 0 {
		return nil
	}
	keys := bson.A{}
	for key := range s {
		keys = append(keys, key)
	}
	return field("line.kind", field("$nin", append(keys, values(known)...)))
}

// values returns keys as they are stored.
func values(keys []string) bson.A {
	all := make(bson.A, len(keys))
	for i, key := range keys {
		all[i] = key
		if key == noKind {
			all[i] = nil
		}
	}
	return all
}

// candidatesOfKinds returns the branches for the candidates of a queue whose kinds are
// known and not excluded, and for one document of an unknown kind.
func (l *claimQuery) candidatesOfKinds(queue string) []branch {
	var branches []branch
	known := l.kinds.but(l.except)
	room := l.rooms[queue]
	mayStart := slices.DeleteFunc(slices.Clone(known), func(kind string) bool { return room.Left(driver.TypeOfKey(kind)) <= 0 })
	for some := range slices.Chunk(mayStart, kindsPerBranch) {
		which := append(slices.Clip(ready), field("line.kind", field("$in", values(some)))...)
		branches = append(branches, branch{collection: l.jobs.Name(), stages: l.first(queue, which)})
	}
	return append(branches, branch{collection: l.jobs.Name(), stages: bson.A{
		match(l.inQueue(queue, append(slices.Clip(ready), l.except.others(known)...)...)),
		bson.D{{Key: "$limit", Value: 1}},
		project("kind", bson.D{{Key: "_id", Value: "$_id"}, {Key: "kind", Value: "$line.kind"}}),
	}})
}

// sort orders candidates, which may come from several branches.
func (l *claimQuery) sort(v *view) {
	if len(l.except) == 0 && len(l.rooms) == 0 {
		return
	}
	for _, docs := range v.ready {
		slices.SortFunc(docs, func(a, b *document) int {
			return cmp.Or(cmp.Compare(b.Line.Priority, a.Line.Priority), cmp.Compare(a.Line.Order, b.Line.Order))
		})
	}
}

// markKinds stores the kind of excluded documents that have none, so that the next query
// does not return them.
func (c *claim) markKinds(ctx context.Context, v *view) (marked int, err error) {
	if len(v.unmarked) == 0 {
		return 0, nil
	}
	changes := make([]*change, len(v.unmarked))
	for i, doc := range v.unmarked {
		changes[i] = &change{
			queue:  doc.Group,
			name:   doc.Name,
			before: doc,
			quiet:  true,
			step: func(doc *document) error {
				if doc.Line.IsZero() || doc.Line.Kind == doc.kind() {
					return errMoved
				}
				doc.Line.Kind = doc.kind()
				return nil
			},
		}
	}
	if err = c.apply(ctx, changes); err != nil {
		return 0, fmt.Errorf("storing the kinds of %d records: %w", len(changes), err)
	}
	return len(changes), nil
}
