package mongodb

import (
	"context"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"go.mongodb.org/mongo-driver/bson"
	"go.mongodb.org/mongo-driver/bson/primitive"
	"go.mongodb.org/mongo-driver/mongo/options"

	"github.com/mongodb/amboy/queue/internal/scope"
)

// A limited scope has slots, as many as its limit says. A document that runs holds one of them, in
// its scopes field, and the unique index on that field ensures that each slot has one holder.
// Documents want and wait for the key of the scope (see scope.Key). So no more documents of a key
// run than the largest limit of a document says. A document with a smaller limit is claimed when
// fewer are seen to run than its own limit says, in any slots.

// slotMark is between the key of a limited scope and the name of a slot.
const slotMark = " #"

// keyEnd ends the key of a limited scope.
var keyEnd = func() string {
	key, _ := scope.Key("x (at most 1)")
	return key[1:]
}()

// isLimited reports whether a key is that of a limited scope.
func isLimited(key string) bool { return strings.HasSuffix(key, keyEnd) }

// keyOf returns the key of what a document holds: a slot, or a scope.
func keyOf(held string) string {
	if at := strings.LastIndex(held, slotMark); at >= 0 && isLimited(held[:at]) {
		return held[:at]
	}
	key, _ := scope.Key(held)
	return key
}

// keysOfHeld returns the keys of what documents hold.
func keysOfHeld(held []string) []string {
	keys := make([]string, len(held))
	for i, name := range held {
		keys[i] = keyOf(name)
	}
	return keys
}

// holding returns the values of the field scopes of the documents that hold scopes of some keys.
func holding(keys []string) bson.A {
	values := make(bson.A, len(keys))
	for i, key := range keys {
		values[i] = key
		if isLimited(key) {
			values[i] = primitive.Regex{Pattern: "^" + quoted(key+" ")}
		}
	}
	return values
}

// limitOf returns how many documents may hold a scope of a key for this one to be claimed.
func (doc *document) limitOf(key string) int {
	if !isLimited(key) {
		return 1
	}
	_, limit := scope.Key(scope.Of(key, doc.RequiredScopes))
	return limit
}

// limited returns the keys of the limited scopes that the document wants.
func (doc *document) limited() []string {
	return slices.DeleteFunc(slices.Clone(doc.Line.Wants), func(key string) bool { return !isLimited(key) })
}

// heldScopes returns the scopes that the document holds, as the job names them.
func (doc *document) heldScopes() []string {
	if !slices.ContainsFunc(doc.Scopes, func(held string) bool { return isLimited(keyOf(held)) }) {
		return doc.Scopes
	}
	names := slices.Clone(doc.Scopes)
	for i, held := range names {
		if name := scope.Of(keyOf(held), doc.RequiredScopes); name != "" {
			names[i] = name
		}
	}
	return names
}

// takeScopes gives the document the scopes that it wants. slots are the slots of limited ones.
func (doc *document) takeScopes(slots map[string]string) {
	held := slices.Clone(doc.Scopes)
	for _, key := range doc.wants() {
		if isLimited(key) {
			key = slots[key]
		}
		held = append(held, key)
	}
	doc.Scopes = held
}

// ownSlots returns slots that no other document takes, for a document that runs when it is
// inserted.
func (doc *document) ownSlots() map[string]string {
	slots := map[string]string{}
	for _, key := range doc.wants() {
		slots[key] = key + slotMark + doc.Name
	}
	return slots
}

// usedSlots are the slots of the limited scopes of a key that are held or about to be.
type usedSlots map[key]map[string]bool

// add adds what a document holds.
func (u usedSlots) add(queue string, held ...string) {
	for _, name := range held {
		k := key{queue, keyOf(name)}
		if !isLimited(k.name) {
			continue
		}
		if u[k] == nil {
			u[k] = map[string]bool{}
		}
		u[k][name] = true
	}
}

// take returns a free slot of a key. It is one of many, so that processes that claim at the same
// time do not all want the same one.
func (u usedSlots) take(k key, limit int) string {
	for _, i := range rand.Perm(limit) {
		slot := k.name + slotMark + strconv.Itoa(i)
		if !u[k][slot] {
			u.add(k.queue, slot)
			return slot
		}
	}
	return "" // not reached while fewer than limit are used
}

// findSlots adds the slots of the limited scopes that documents want.
func (d *Driver) findSlots(ctx context.Context, used usedSlots, docs map[string][]*document) error {
	var queries []bson.D
	for queue, list := range docs {
		wanted := map[string]bool{}
		for _, doc := range list {
			for _, k := range doc.limited() {
				wanted[k] = true
			}
		}
		if len(wanted) > 0 {
			queries = append(queries, d.inQueue(queue, bson.E{Key: "scopes", Value: field("$in", holding(slices.Collect(maps.Keys(wanted))))}))
		}
	}
	if len(queries) == 0 {
		return nil
	}
	only := options.Find().SetProjection(bson.D{{Key: "scopes", Value: 1}, {Key: "group", Value: 1}})
	return d.each(ctx, either(queries...), only, func(doc *document) error {
		used.add(doc.Group, doc.Scopes...)
		return nil
	})
}
