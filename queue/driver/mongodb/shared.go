package mongodb

import (
	"cmp"
	"encoding/binary"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/bson"

	"github.com/mongodb/amboy/queue/internal/nameset"
)

// One statement claims all candidates of a claim that are alike, one makes due jobs ready, one ends all
// jobs of a batch that are alike, and two statements replace the attempts of retries that are alike: the same
// fields change, and all of the guard but the revision is the same. Fields whose values differ,
// such as the times of the end, are set from a list by _id. All documents get the same new
// revision. If fewer matched than were meant, only the documents with this revision were changed.
//
// The filter names the _ids and the revisions that were read, but not which document had
// which. It matches no document that has changed since, although several documents may have
// one revision: if a document had meanwhile got the revision that another one was read with,
// it would have been claimed, ended or retried together with it. But the guard requires that the
// count is as it was, which each claim increments, and that the document still runs, waits or has
// ended. A document takes the place of the attempt before it once, before it can be claimed. And
// after each of these statements a document that was due is not due any more.

const (
	// maxShared is the maximum number of documents that one statement changes.
	maxShared = 1000
	// maxOwnSize is the size of the new values up to which a document is changed together
	// with others.
	maxOwnSize = 1024
)

// shared divides changes into statements.
func (w *writing) shared(models []*model) [][]*model {
	statements := make([][]*model, 0, len(models))
	byKey := map[string]int{} // the index of a statement that has room
	for _, m := range models {
		key, shares := m.sharedKey()
		if !shares || w.single {
			statements = append(statements, []*model{m})
			continue
		}
		i, there := byKey[key]
		if !there || len(statements[i]) == maxShared {
			i = len(statements)
			byKey[key] = i
			statements = append(statements, nil)
		}
		statements[i] = append(statements[i], m)
	}
	return statements
}

// sharedKey returns what changes that one statement may make have in common.
func (m *model) sharedKey() (key string, shares bool) {
	c, u := m.change, m.update
	if !c.shares || c.alone || c.before.Rev == 0 || len(nameset.Without(m.next.Scopes, c.before.Scopes)) > 0 {
		return "", false // a unique index may refuse scopes
	}
	guard, err := bson.Marshal(c.before.guard[1:])
	if err != nil {
		return "", false
	}
	if c.ends {
		u.includeStart(m.next.TimeInfo.Start)
	}
	slices.SortFunc(u.set, func(a, b bson.E) int { return cmp.Compare(a.Key, b.Key) })
	common := binary.AppendVarint(guard, int64(m.revision()))
	common = binary.AppendVarint(common, int64(u.leaseTime))
	size := 0
	for _, e := range u.set {
		value, ok := e.Value.(bson.RawValue)
		if size += len(value.Value); !ok || size > maxOwnSize {
			return "", false
		}
		common = append(append(common, e.Key...), 0)
	}
	for _, e := range u.unset {
		common = append(append(common, 0), e.Key...)
	}
	return string(common), true
}

// includeStart sets the time of the start also if it does not change, because it changes in
// others of a batch: a claim sets the same time in all of them, in milliseconds.
func (u *update) includeStart(at time.Time) {
	const path = "time_info.start"
	if at.IsZero() || slices.ContainsFunc(u.set, func(e bson.E) bool { return e.Key == path || e.Key == "time_info" }) {
		return
	}
	if kind, value, err := bson.MarshalValue(at); err == nil {
		u.set = append(u.set, bson.E{Key: path, Value: bson.RawValue{Type: kind, Value: value}})
	}
}

// statementFor returns the statement that makes one or several changes with a new revision.
func statementFor(shared []*model, rev int64) bson.D {
	first := shared[0]
	c, u := first.change, *first.update
	set := u.set
	u.set = append(bson.D{}, bson.E{Key: "rev", Value: rev})
	if len(shared) == 1 {
		u.set = append(u.set, set...)
		filter := append(bson.D{{Key: "_id", Value: first.next.id}}, c.before.guard...)
		if c.timely {
			filter = append(filter, c.before.leaseGuard...)
		}
		return statement(filter, u.document())
	}
	var revs bson.A
	known := map[int64]bool{}
	for _, m := range shared {
		u.ids = append(u.ids, m.next.id)
		if before := m.change.before.Rev; !known[before] {
			known[before] = true
			revs = append(revs, before)
		}
	}
	for i, e := range set {
		if values, equal := valuesOf(shared, i); equal {
			u.set = append(u.set, e)
		} else {
			u.own = append(u.own, ownValues{e.Key, values})
		}
	}
	filter := append(bson.D{
		{Key: "_id", Value: field("$in", u.ids)},
		{Key: "rev", Value: field("$in", revs)},
	}, c.before.guard[1:]...)
	// The filter also fits indexes on the status, which match more documents.
	return append(forAll(statement(filter, u.document())), bson.E{Key: "hint", Value: field("_id", 1)})
}

// valuesOf returns the values of the field that is set at an index, and whether all are equal.
func valuesOf(shared []*model, i int) (values bson.A, equal bool) {
	equal = true
	first, _ := shared[0].update.set[i].Value.(bson.RawValue)
	for _, m := range shared {
		value, _ := m.update.set[i].Value.(bson.RawValue)
		values = append(values, value)
		equal = equal && value.Equal(first)
	}
	return values, equal
}
