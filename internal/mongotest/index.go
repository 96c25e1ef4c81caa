package mongotest

import (
	"slices"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/bson"
	"go.mongodb.org/mongo-driver/bson/primitive"
)

// index is an index of a collection. Queries use the one on _id; the others
// are there for their rules.
type index struct {
	name    string
	keys    bson.D
	unique  bool
	sparse  bool
	partial *query // nil when all documents are indexed
	filter  bson.D
	// expireAfter is nil when it is no TTL index.
	expireAfter *int32
	// entries are the records that have had a key, for unique indexes.
	entries map[string][]*record
}

const idIndexName = "_id_"

func newIDIndex() *index {
	return &index{name: idIndexName, keys: bson.D{{Key: "_id", Value: int32(1)}}, unique: true, entries: map[string][]*record{}}
}

// spec is the index as listIndexes shows it.
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

// keysOf are the keys of a document: one for each element of an array in it.
// There are none when the index leaves the document out. See
// https://www.mongodb.com/docs/manual/core/indexes/index-types/index-multikey/.
func (x *index) keysOf(doc bson.D) ([]bson.A, error) {
	if x.partial != nil && !x.partial.matches(doc) {
		return nil, nil
	}
	keys := []bson.A{{}}
	arrays, missing := 0, 0
	for _, k := range x.keys {
		found := lookup(doc, strings.Split(k.Key, "."))
		if !slices.ContainsFunc(found, func(v any) bool { return rank(v) != rankUndefined }) {
			missing++
		}
		values := expand(found)
		if len(values) == 0 {
			values = []any{nil}
		}
		if len(values) > 1 || len(found) == 1 && rank(found[0]) == rankArray {
			arrays++
		}
		var longer []bson.A
		for _, key := range keys {
			for _, v := range values {
				longer = append(longer, append(slices.Clone(key), v))
			}
		}
		keys = longer
	}
	if arrays > 1 {
		return nil, errorf(codeParallelArrays, "cannot index parallel arrays in %s", show(x.keys))
	}
	if x.sparse && missing == len(x.keys) {
		return nil, nil
	}
	return keys, nil
}

// add remembers that a record has the keys of a document.
func (x *index) add(r *record, doc *document) {
	if !x.unique {
		return
	}
	keys, err := x.keysOf(doc.fields)
	if err != nil {
		return // check has refused the document
	}
	for _, key := range keys {
		id := keyString(key)
		if !slices.Contains(x.entries[id], r) {
			x.entries[id] = append(x.entries[id], r)
		}
	}
}

// has reports whether a document has a key in the index.
func (x *index) has(doc *document, key string) bool {
	if doc == nil {
		return false
	}
	keys, err := x.keysOf(doc.fields)
	return err == nil && slices.ContainsFunc(keys, func(k bson.A) bool { return keyString(k) == key })
}

// check refuses a document that the index does not admit, or that has a key of
// another record. See https://www.mongodb.com/docs/manual/core/index-unique/.
func (x *index) check(c *collection, tx *transaction, self *record, doc *document) error {
	keys, err := x.keysOf(doc.fields)
	if err != nil || !x.unique {
		return err
	}
	for _, key := range keys {
		id := keyString(key)
		x.entries[id] = slices.DeleteFunc(x.entries[id], func(r *record) bool { return !x.holds(r, id) })
		if len(x.entries[id]) == 0 {
			delete(x.entries, id)
		}
		for _, r := range x.entries[id] {
			if r == self {
				continue
			}
			if err := x.collide(c, tx, r, id, key); err != nil {
				return err
			}
		}
	}
	return nil
}

// holds reports whether a record has a key in some version that counts.
func (x *index) holds(r *record, key string) bool {
	if r.owner != nil && x.has(r.pending, key) {
		return true
	}
	return slices.ContainsFunc(r.versions, func(v version) bool { return x.has(v.doc, key) })
}

// collide says what it means to a transaction that a record has had a key: it
// is a duplicate if the transaction can see it, a conflict if another one has
// changed it meanwhile, and nothing if it is long gone.
func (x *index) collide(c *collection, tx *transaction, r *record, id string, key bson.A) error {
	last := r.latest()
	switch {
	case r.owner == tx:
		if x.has(r.pending, id) {
			return x.duplicate(c, key)
		}
		return nil
	case r.owner != nil && (x.has(r.pending, id) || x.has(last.doc, id)):
		return tx.conflict(r.owner)
	case last.at > tx.snapshot:
		return tx.conflict(nil)
	case x.has(last.doc, id):
		return x.duplicate(c, key)
	default:
		return nil
	}
}

// duplicate is the error of a key that is there already.
func (x *index) duplicate(c *collection, key bson.A) error {
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

// build fills the index with the records there are.
func (x *index) build(c *collection) error {
	for _, r := range c.records {
		doc := r.latest().doc
		if doc == nil {
			continue
		}
		keys, err := x.keysOf(doc.fields)
		if err != nil {
			return err
		}
		for _, key := range keys {
			for _, other := range x.entries[keyString(key)] {
				if other != r {
					return x.duplicate(c, key)
				}
			}
		}
		x.add(r, doc)
	}
	return nil
}

type indexArgs struct {
	Key         bson.D   `bson:"key"`
	Name        string   `bson:"name"`
	Version     int32    `bson:"v"`
	Unique      bool     `bson:"unique"`
	Sparse      bool     `bson:"sparse"`
	Partial     bson.Raw `bson:"partialFilterExpression"`
	ExpireAfter *int32   `bson:"expireAfterSeconds"`
	// Background is ignored by servers since 4.2.
	Background bool `bson:"background"`
}

// newIndex reads the specification of an index.
func newIndex(raw bson.Raw) (*index, error) {
	var args indexArgs
	if err := decodeStrict("createIndexes.indexes", raw, &args); err != nil {
		if e := asCommandError(err); e.code == codeUnknownField {
			e.code = codeIndexOption
		}
		return nil, err
	}
	if args.Name == "" || len(args.Key) == 0 {
		return nil, errorf(codeFailedToParse, "an index needs a name and a key")
	}
	for _, k := range args.Key {
		if f, ok := number(k.Value); !ok || f != 1 && f != -1 {
			return nil, errorf(67, "Values in v:2 index key pattern can only be 1 or -1 in mongotest. Invalid pattern: %s", show(args.Key))
		}
	}
	if args.ExpireAfter != nil && len(args.Key) > 1 {
		return nil, errorf(67, "TTL indexes are single-field indexes, compound indexes do not support TTL. Index spec: %s", show(args.Key))
	}
	x := &index{name: args.Name, keys: args.Key, unique: args.Unique, sparse: args.Sparse, expireAfter: args.ExpireAfter, entries: map[string][]*record{}}
	if len(args.Partial) == 0 {
		return x, nil
	}
	if x.sparse {
		return nil, errorf(67, "cannot mix \"partialFilterExpression\" and \"sparse\" options")
	}
	if err := x.parsePartial(args.Partial); err != nil {
		return nil, err
	}
	return x, nil
}

// parsePartial reads the filter of a partial index, in which not every
// operator may be used. See
// https://www.mongodb.com/docs/manual/core/index-partial/.
func (x *index) parsePartial(raw bson.Raw) error {
	q, err := newQuery(raw)
	if err != nil {
		return err
	}
	x.partial, x.filter = q, q.filter
	return checkPartial(q.filter)
}

func checkPartial(filter bson.D) error {
	for _, e := range filter {
		if e.Key == "$and" || e.Key == "$or" {
			for _, clause := range e.Value.(bson.A) {
				if err := checkPartial(clause.(bson.D)); err != nil {
					return err
				}
			}
			continue
		}
		if strings.HasPrefix(e.Key, "$") {
			return errorf(67, "Expression not supported in partial index: %s", e.Key)
		}
		if !isOperators(e.Value) {
			continue
		}
		for _, op := range e.Value.(bson.D) {
			allowed := slices.Contains([]string{"$eq", "$gt", "$gte", "$lt", "$lte", "$type", "$in"}, op.Key)
			if !allowed && (op.Key != "$exists" || !truthy(op.Value)) {
				return errorf(67, "Expression not supported in partial index: %s: %s", e.Key, op.Key)
			}
		}
	}
	return nil
}

// signature is what makes an index another one than that on the same keys.
func (x *index) signature() string {
	return keyString(bson.A{x.keys, x.unique, x.sparse, x.filter})
}

func sameExpiry(a, b *int32) bool {
	return a == nil && b == nil || a != nil && b != nil && *a == *b
}

// conflict compares a wanted index with those there are. See
// https://www.mongodb.com/docs/manual/reference/method/db.collection.createIndex/#behaviors.
func (c *collection) conflict(x *index) (exists bool, err error) {
	for _, old := range c.indexes {
		same := old.signature() == x.signature()
		switch {
		case old.name == x.name && !same:
			return false, errorf(codeKeySpecsConflict, "An existing index has the same name as the requested index. When index names are not specified, they are auto generated and can cause conflicts. Please refer to our documentation. Requested index: %s, existing index: %s", show(x.spec()), show(old.spec()))
		case same && !sameExpiry(old.expireAfter, x.expireAfter):
			return false, errorf(codeOptionsConflict, "An equivalent index already exists with the same name but different options. Requested index: %s, existing index: %s", show(x.spec()), show(old.spec()))
		case same && old.name != x.name:
			return false, errorf(codeOptionsConflict, "Index already exists with a different name: %s", old.name)
		case same:
			return true, nil
		}
	}
	return false, nil
}

// createIndexes builds indexes. See
// https://www.mongodb.com/docs/manual/reference/command/createIndexes/.
func (s *Server) createIndexes(req *request) (bson.D, error) {
	var args struct {
		Collection   string     `bson:"createIndexes"`
		Indexes      []bson.Raw `bson:"indexes"`
		CommitQuorum any        `bson:"commitQuorum"`
	}
	if err := req.decode(&args); err != nil {
		return nil, err
	}
	wanted := make([]*index, len(args.Indexes))
	for i, raw := range args.Indexes {
		var err error
		if wanted[i], err = newIndex(raw); err != nil {
			return nil, err
		}
	}
	_, existed := s.collections[req.generic.DB+"."+args.Collection]
	c, err := s.collection(req, args.Collection)
	if err != nil {
		return nil, err
	}
	before := len(c.indexes)
	for _, x := range wanted {
		exists, err := c.conflict(x)
		if err == nil && !exists {
			err = x.build(c)
		}
		if err != nil {
			c.indexes = c.indexes[:before]
			return nil, err
		}
		if !exists {
			c.indexes = append(c.indexes, x)
		}
	}
	reply := bson.D{
		{Key: "numIndexesBefore", Value: int32(before)},
		{Key: "numIndexesAfter", Value: int32(len(c.indexes))},
		{Key: "createdCollectionAutomatically", Value: !existed},
	}
	if before == len(c.indexes) {
		reply = append(reply, bson.E{Key: "note", Value: "all indexes already exist"})
	}
	return reply, nil
}

// listIndexes lists indexes. See
// https://www.mongodb.com/docs/manual/reference/command/listIndexes/.
func (s *Server) listIndexes(req *request) (bson.D, error) {
	var args struct {
		Collection string    `bson:"listIndexes"`
		Cursor     batchArgs `bson:"cursor"`
	}
	if err := req.decode(&args); err != nil {
		return nil, err
	}
	c, err := s.stored(req, args.Collection)
	if err != nil {
		return nil, err
	}
	var specs []bson.D
	for _, x := range c.indexes {
		specs = append(specs, x.spec())
	}
	return s.replyWith(c.namespace(), specs, args.Cursor.BatchSize)
}

// dropIndexes drops an index by its name or keys, or all but the one on _id.
// See https://www.mongodb.com/docs/manual/reference/command/dropIndexes/.
func (s *Server) dropIndexes(req *request) (bson.D, error) {
	var args struct {
		Collection string        `bson:"dropIndexes"`
		Index      bson.RawValue `bson:"index"`
	}
	if err := req.decode(&args); err != nil {
		return nil, err
	}
	c, err := s.stored(req, args.Collection)
	if err != nil {
		return nil, err
	}
	v, err := decodeValue(args.Index)
	if err != nil {
		return nil, err
	}
	before := len(c.indexes)
	wanted := func(x *index) bool { return v == any(x.name) || rank(v) == rankObject && equal(v, x.keys) }
	switch {
	case rank(v) == rankString && v.(string) == "*":
		c.indexes = c.indexes[:1]
	case rank(v) != rankString && rank(v) != rankObject:
		return nil, errorf(codeTypeMismatch, "dropIndexes.index must be a name or a key pattern in mongotest")
	case wanted(c.indexes[0]):
		return nil, errorf(codeInvalidOptions, "cannot drop _id index")
	default:
		c.indexes = slices.DeleteFunc(slices.Clone(c.indexes), wanted)
		if len(c.indexes) == before {
			return nil, errorf(codeIndexNotFound, "index not found with name [%s]", strings.Trim(show(v), `"`))
		}
	}
	return bson.D{{Key: "nIndexesWas", Value: int32(before)}}, nil
}

// Expire deletes the documents that the TTL indexes let expire by now, and
// returns how many they are. Servers do so once a minute; here it happens when
// a test says so. What a transaction is writing is left for the next call. See
// https://www.mongodb.com/docs/manual/core/index-ttl/.
func (s *Server) Expire(now time.Time) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	deleted := 0
	for _, c := range s.collections {
		for _, x := range c.indexes {
			if x.expireAfter != nil {
				deleted += s.expire(c, x, now)
			}
		}
	}
	return deleted
}

func (s *Server) expire(c *collection, x *index, now time.Time) int {
	tx := s.begin(true)
	defer s.commit(tx)
	deadline := primitive.NewDateTimeFromTime(now.Add(-time.Duration(*x.expireAfter) * time.Second))
	deleted := 0
	for _, r := range c.records {
		doc := r.visible(tx)
		if doc == nil || r.owner != nil || !x.expired(doc.fields, deadline) {
			continue
		}
		if err := c.write(tx, r, nil, "delete"); err == nil {
			deleted++
		}
	}
	return deleted
}

// expired reports whether the earliest date of the indexed field is past.
func (x *index) expired(doc bson.D, deadline primitive.DateTime) bool {
	keys, err := x.keysOf(doc)
	if err != nil {
		return false
	}
	return slices.ContainsFunc(keys, func(key bson.A) bool {
		date, ok := key[0].(primitive.DateTime)
		return ok && date <= deadline
	})
}
