package mongotest

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/tidwall/btree"
	"go.mongodb.org/mongo-driver/bson"

	"github.com/mongodb/amboy/internal/mongotest/bsonvalue"
)

// index is an index of a collection: the keys of its records in their order.
type index struct {
	name   string
	number int // no other index of the collection has or had it
	keys   bson.D
	fields []indexField
	// descending is that of the fields, as CompareKeys takes it.
	descending []bool
	unique     bool
	sparse     bool
	partial    *query // nil if all documents are indexed
	filter     bson.D
	signed     string // cached by signature; empty before
	// expireAfter is nil if the index is not a TTL index.
	expireAfter *int32
	// tree contains the keys of all versions that a transaction can see.
	tree *btree.BTreeG[entry]
}

// indexField is one field of an index.
type indexField struct {
	name       string
	path       []string
	descending bool
	// multikey is true once a document had an array in the field. It stays true, as on
	// servers.
	multikey bool
}

const idIndexName = "_id_"

func newIDIndex() *index {
	x := &index{name: idIndexName, keys: bson.D{{Key: "_id", Value: int32(1)}}, unique: true}
	x.init()
	return x
}

// init creates the empty tree of an index whose fields are set.
func (x *index) init() {
	for _, k := range x.keys {
		direction, _ := number(k.Value)
		x.fields = append(x.fields, indexField{name: k.Key, path: strings.Split(k.Key, "."), descending: direction < 0})
		x.descending = append(x.descending, direction < 0)
	}
	x.tree = btree.NewBTreeGOptions(func(a, b entry) bool { return x.compare(a, b) < 0 }, btree.Options{NoLocks: true})
}

// entry is a key of a record, or an end of a range. The key of an end may be shorter than
// the index's keys, and its record is firstRecord or lastRecord, so that it sorts before
// or after all keys that begin with it.
type entry struct {
	key    []any
	record *record
}

var firstRecord, lastRecord = &record{number: 0}, &record{number: math.MaxUint64}

// compare orders entries by their keys, and by the age of their records.
func (x *index) compare(a, b entry) int {
	if c := bsonvalue.CompareKeys(a.key, b.key, x.descending); c != 0 {
		return c
	}
	return cmp.Compare(a.record.number, b.record.number)
}

// keyRange is a range of entries in the order of the index.
type keyRange struct{ from, to entry }

// withPrefix returns the range of the keys that begin with a prefix.
func withPrefix(prefix []any) keyRange {
	return keyRange{from: entry{prefix, firstRecord}, to: entry{prefix, lastRecord}}
}

// walk visits the entries of a range until visit returns false.
func (x *index) walk(r keyRange, backward bool, visit func(entry) bool) {
	if backward {
		x.tree.Descend(r.to, func(e entry) bool { return x.compare(e, r.from) > 0 && visit(e) })
		return
	}
	x.tree.Ascend(r.from, func(e entry) bool { return x.compare(e, r.to) < 0 && visit(e) })
}

// document returns the version of an entry's record that a transaction sees, or nil if it
// does not see it with the entry's key.
func (x *index) document(tx *transaction, e entry) *document {
	doc := e.record.visible(tx)
	if doc == nil || !e.record.changing() && len(e.record.versions) == 1 || x.has(doc, e.key) {
		return doc
	}
	return nil
}

// spec returns the index as listIndexes shows it.
func (x *index) spec() bson.D {
	spec := bson.D{{Key: "v", Value: int32(2)}, {Key: "key", Value: x.keys}, {Key: "name", Value: x.name}}
	if x.unique && x.name != idIndexName {
		spec = append(spec, bson.E{Key: "unique", Value: true})
	}
	if x.sparse {
		spec = append(spec, bson.E{Key: "sparse", Value: true})
	}
	if x.partial != nil {
		spec = append(spec, bson.E{Key: "partialFilterExpression", Value: x.filter})
	}
	if x.expireAfter != nil {
		spec = append(spec, bson.E{Key: "expireAfterSeconds", Value: *x.expireAfter})
	}
	return spec
}

// named reports whether a value is the name or the key pattern of the index.
func (x *index) named(v any) bool {
	return bsonvalue.Rank(v) == bsonvalue.RankString && bsonvalue.Text(v) == x.name || bsonvalue.Rank(v) == bsonvalue.RankObject && bsonvalue.Equal(v, x.keys)
}

// add adds a record under the keys of one of its documents, which check has accepted.
func (x *index) add(r *record, doc *document) {
	for _, key := range doc.keys.of(x) {
		x.tree.Set(entry{key, r})
	}
}

// remove removes a record from the keys of a document that is no longer visible, except
// for keys that other versions still have.
func (x *index) remove(r *record, doc *document) {
	for _, key := range doc.keys.of(x) {
		if !x.holds(r, key) {
			x.tree.Delete(entry{key, r})
		}
	}
}

// holds reports whether a record has a key in a version that is kept.
func (x *index) holds(r *record, key []any) bool {
	return x.has(r.pending, key) || slices.ContainsFunc(r.versions, func(v version) bool { return x.has(v.doc, key) })
}

// has reports whether a document has a key in the index.
func (x *index) has(doc *document, key []any) bool {
	return doc != nil && slices.ContainsFunc(doc.keys.of(x), func(k []any) bool { return sameKey(k, key) })
}

func sameKey(a, b []any) bool {
	return &a[0] == &b[0] || slices.EqualFunc(a, b, bsonvalue.Equal)
}

// check refuses a document that has a key of another record in a unique index.
// See https://www.mongodb.com/docs/manual/core/index-unique/.
func (x *index) check(c *collection, tx *transaction, self *record, doc *document) error {
	if !x.unique {
		return nil
	}
	var err error
	for _, key := range doc.keys.of(x) {
		x.walk(withPrefix(key), false, func(e entry) bool {
			if e.record != self {
				err = x.collide(c, tx, e)
			}
			return err == nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// collide returns the error for a transaction of a key that a record has or had: a
// duplicate if the transaction can see it, a conflict if another transaction has changed
// it meanwhile, or nil if it is out of date.
func (x *index) collide(c *collection, tx *transaction, e entry) error {
	r, last := e.record, e.record.latest()
	switch {
	case r.owner == tx:
		if x.has(r.pending, e.key) {
			return x.duplicate(c, e.key)
		}
		return nil
	case r.owner != nil && (x.has(r.pending, e.key) || x.has(last.doc, e.key)):
		return c.contend(tx, r.owner)
	case last.at > tx.snapshot:
		return c.contend(tx, nil)
	case x.has(last.doc, e.key):
		return x.duplicate(c, e.key)
	default:
		return nil
	}
}

// duplicate returns the error of a key that exists already.
func (x *index) duplicate(c *collection, key []any) error {
	value := make(bson.D, len(key))
	for i, k := range x.keys {
		value[i] = bson.E{Key: k.Key, Value: key[i]}
	}
	return &commandError{
		code:    codeDuplicateKey,
		message: "E11000 duplicate key error collection: " + c.namespace() + " index: " + x.name + " dup key: " + show(value),
		details: bson.D{{Key: "keyPattern", Value: x.keys}, {Key: "keyValue", Value: value}},
	}
}

// build fills the index with the existing records.
func (x *index) build(c *collection) error {
	var err error
	c.records.Scan(func(_ uint64, r *record) bool {
		err = x.buildRecord(c, r)
		return err == nil
	})
	return err
}

func (x *index) buildRecord(c *collection, r *record) error {
	docs := []*document{r.pending}
	for _, v := range r.versions {
		docs = append(docs, v.doc)
	}
	for _, doc := range docs {
		if doc == nil {
			continue
		}
		if err := doc.keys.generate(x, doc); err != nil {
			return err
		}
		x.add(r, doc)
	}
	if !x.unique || r.latest().doc == nil {
		return nil
	}
	for _, key := range r.latest().doc.keys.of(x) {
		duplicate := false
		x.walk(withPrefix(key), false, func(e entry) bool {
			duplicate = e.record != r && x.has(e.record.latest().doc, key)
			return !duplicate
		})
		if duplicate {
			return x.duplicate(c, key)
		}
	}
	return nil
}
