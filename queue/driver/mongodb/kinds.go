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
	// kindRounds is how often one look asks again because it learned of kinds.
	kindRounds = 10
	// kindsAtOnce is the number of kinds of which one branch merges the first
	// documents. A server merges up to 200 ranges of an index, and sorts all documents
	// of more.
	kindsAtOnce = 100
)

// noKind is that of a document that is ready and has none, as another library wrote it.
const noKind = ""

// kinds remembers the kinds of the documents that claims have met, so that one that
// leaves out some can name the others: of each the index has the first documents, in
// their order. Of kinds that are new it asks for one document.
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

// but returns the kinds that are not left out, sorted.
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

// kindSet is the kinds that a claim leaves out, by their keys. Most are empty.
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

// leaves reports whether a document is to be left.
func (s kindSet) leaves(doc *document) bool { return len(s) > 0 && s[doc.kind()] }

// others is the condition for documents of kinds that are neither left out nor among
// those that are known.
func (s kindSet) others(known []string) bson.D {
	if len(s) == 0 {
		return nil
	}
	keys := bson.A{}
	for key := range s {
		keys = append(keys, key)
	}
	return field("line.kind", field("$nin", append(keys, values(known)...)))
}

// values are keys as they are stored.
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

// candidatesOfKinds are the branches for the candidates of a queue whose kinds are known
// and not left out, and for the other kinds that there are.
func (l *look) candidatesOfKinds(queue string) []branch {
	var branches []branch
	known := l.kinds.but(l.except)
	for some := range slices.Chunk(known, kindsAtOnce) {
		which := append(slices.Clip(ready), field("line.kind", field("$in", values(some)))...)
		branches = append(branches, branch{collection: l.jobs.Name(), stages: l.first(queue, which)})
	}
	return append(branches, branch{collection: l.jobs.Name(), stages: bson.A{
		match(l.inQueue(queue, append(slices.Clip(ready), l.except.others(known)...)...)),
		bson.D{{Key: "$limit", Value: 1}},
		project("kind", bson.D{{Key: "_id", Value: "$_id"}, {Key: "kind", Value: "$line.kind"}}),
	}})
}

// sort orders candidates that several branches may have found.
func (l *look) sort(v *view) {
	if len(l.except) == 0 {
		return
	}
	for _, docs := range v.ready {
		slices.SortFunc(docs, func(a, b *document) int {
			return cmp.Or(cmp.Compare(b.Line.Priority, a.Line.Priority), cmp.Compare(a.Line.Order, b.Line.Order))
		})
	}
}

// markKinds gives documents their kind that are to be left and have none, so that the
// next look does not meet them.
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
		return 0, fmt.Errorf("giving %d records their kinds: %w", len(changes), err)
	}
	return len(changes), nil
}
