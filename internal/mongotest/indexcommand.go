package mongotest

import (
	"math"
	"slices"
	"strings"

	"go.mongodb.org/mongo-driver/bson"
	"go.mongodb.org/mongo-driver/bson/primitive"

	"github.com/mongodb/amboy/internal/mongotest/bsonvalue"
)

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
	x := &index{name: args.Name, keys: args.Key, unique: args.Unique, sparse: args.Sparse, expireAfter: args.ExpireAfter}
	x.init()
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

// parsePartial reads the filter of a partial index, in which only some operators are
// allowed. See https://www.mongodb.com/docs/manual/core/index-partial/.
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

// signature distinguishes indexes with the same keys. It never changes, so it is computed
// once. The caller holds the server's lock.
func (x *index) signature() string {
	if x.signed == "" {
		x.signed = keyString(bson.A{x.keys, x.unique, x.sparse, x.filter})
	}
	return x.signed
}

func sameExpiry(a, b *int32) bool {
	return a == nil && b == nil || a != nil && b != nil && *a == *b
}

// conflict compares a wanted index with the existing ones. See
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
	if s.options.Standalone && args.CommitQuorum != nil {
		return nil, errorf(codeBadValue, "Standalones can't specify commitQuorum")
	}
	_, existed := s.collections[req.generic.DB+"."+args.Collection]
	c, err := s.collection(req, args.Collection)
	if err != nil {
		return nil, err
	}
	if err := s.awaitMembers(req, c, wanted, args.CommitQuorum); err != nil {
		return nil, err
	}
	before := len(c.indexes)
	for _, x := range wanted {
		exists, err := c.conflict(x)
		if err == nil && !exists {
			c.built++
			x.number = c.built
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

// LoseMember takes a voting secondary down. A build of an index then ends only if its
// commit quorum is "majority" or a number, not with the default "votingMembers". It does
// nothing on a standalone server.
func (s *Server) LoseMember() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.memberBack == nil && !s.options.Standalone {
		s.memberBack = make(chan struct{})
	}
}

// RegainMember brings the secondary back.
func (s *Server) RegainMember() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.memberBack != nil {
		close(s.memberBack)
		s.memberBack = nil
	}
}

// awaitMembers waits until enough members have built the indexes, and until other builds of
// the same indexes have ended. Meanwhile the indexes are listed, but refuse nothing. See
// https://www.mongodb.com/docs/manual/core/index-creation/#index-builds-in-replicated-environments.
func (s *Server) awaitMembers(req *request, c *collection, wanted []*index, quorum any) error {
	builds := func(x *index) bool {
		return slices.ContainsFunc(c.building, func(b *index) bool { return b.name == x.name && b.signature() == x.signature() })
	}
	present := func(x *index) bool {
		return slices.ContainsFunc(c.indexes, func(p *index) bool { return p.name == x.name && p.signature() == x.signature() })
	}
	for s.memberBack != nil {
		joins := slices.ContainsFunc(wanted, builds)
		if !joins && (quorum != nil && quorum != "votingMembers" || !slices.ContainsFunc(wanted, func(x *index) bool { return !present(x) })) {
			return nil
		}
		if !joins {
			c.building = append(c.building, wanted...)
		}
		back := s.memberBack
		err := s.wait(req, back, math.MaxInt64)
		if !joins {
			c.building = slices.DeleteFunc(c.building, func(b *index) bool { return slices.Contains(wanted, b) })
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// listIndexes lists indexes, including those that are being built. See
// https://www.mongodb.com/docs/manual/reference/command/listIndexes/.
func (s *Server) listIndexes(req *request) (bson.D, error) {
	var args struct {
		Collection string    `bson:"listIndexes"`
		Cursor     batchArgs `bson:"cursor"`
		BuildUUIDs bool      `bson:"includeBuildUUIDs"`
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
	for _, x := range c.building {
		spec := x.spec()
		if args.BuildUUIDs {
			spec = bson.D{{Key: "spec", Value: spec}, {Key: "buildUUID", Value: primitive.Binary{Subtype: bson.TypeBinaryUUID, Data: make([]byte, 16)}}}
		}
		specs = append(specs, spec)
	}
	return s.replyWith(c.namespace(), specs, args.Cursor.BatchSize)
}

// dropIndexes drops an index by its name or keys, or all except the index on _id. See
// https://www.mongodb.com/docs/manual/reference/command/dropIndexes/.
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
	wanted := func(x *index) bool { return x.named(v) }
	switch {
	case bsonvalue.Rank(v) == bsonvalue.RankString && v.(string) == "*":
		c.indexes = c.indexes[:1]
	case bsonvalue.Rank(v) != bsonvalue.RankString && bsonvalue.Rank(v) != bsonvalue.RankObject:
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
