package mongotest

import (
	"errors"
	"slices"
	"strings"

	"go.mongodb.org/mongo-driver/bson"
	"go.mongodb.org/mongo-driver/bson/primitive"

	"github.com/mongodb/amboy/internal/mongotest/bsonvalue"
	"github.com/mongodb/amboy/internal/mongotest/codec"
)

// insert inserts documents. See
// https://www.mongodb.com/docs/manual/reference/command/insert/.
func (s *Server) insert(req *request) (bson.D, error) {
	var args struct {
		Insert    string     `bson:"insert"`
		Documents []bson.Raw `bson:"documents"`
		Ordered   *bool      `bson:"ordered"`
	}
	if err := req.decode(&args); err != nil {
		return nil, err
	}
	c, err := s.collection(req, args.Insert)
	if err != nil {
		return nil, err
	}
	return s.bulk(req, args.Ordered, len(args.Documents), func(i int) (outcome, error) {
		doc, err := newInsert(args.Documents[i])
		if err != nil {
			return outcome{}, err
		}
		return outcome{n: 1}, s.statement(req, func(tx *transaction) error { return c.insert(tx, doc) })
	})
}

// newInsert adds an _id to a document without one, and moves it to the front.
func newInsert(raw bson.Raw) (*document, error) {
	fields, err := decodeDocument(raw)
	if err != nil {
		return nil, err
	}
	id := bsonvalue.Field(fields, "_id")
	switch bsonvalue.Rank(id) {
	case bsonvalue.RankUndefined:
		id = primitive.NewObjectID()
	case bsonvalue.RankArray, bsonvalue.RankRegex:
		return nil, errorf(codeBadValue, "The '_id' value cannot be of type %s", typeName(id))
	}
	doc := &document{fields: fields, raw: slices.Clone(raw)}
	if len(fields) == 0 || fields[0].Key != "_id" {
		doc, err = newDocument(append(bson.D{{Key: "_id", Value: id}}, without(fields, true)...))
		if err != nil {
			return nil, err
		}
	}
	return doc, checkSize(doc, codeBadValue, "object to insert too large. size in bytes: %d, max size: %d")
}

// outcome is the result of one statement of a bulk write.
type outcome struct {
	n, modified int
	upserted    any // the _id of a document that an upsert inserted
	isUpsert    bool
}

// bulk runs the statements of a command, and stops at the first error unless they are
// unordered. In a transaction an error aborts the transaction and is still reported as a
// write error.
func (s *Server) bulk(req *request, ordered *bool, size int, run func(i int) (outcome, error)) (bson.D, error) {
	if size == 0 || size > maxWriteBatch {
		return nil, errorf(21, "Write batch sizes must be between 1 and %d. Got %d operations.", maxWriteBatch, size)
	}
	var total outcome
	upserted, failures, retried := bson.A{}, bson.A{}, bson.A{}
	for i := range size {
		done, again, err := once(s, req, i, func() (outcome, error) { return run(i) })
		if again {
			retried = append(retried, int32(i))
		}
		if err != nil {
			if failsCommand(req, err) {
				return nil, err
			}
			failures = append(failures, asCommandError(err).writeError(i))
			if req.tx != nil {
				s.abortRequest(req)
				break
			}
			if ordered == nil || *ordered {
				break
			}
			continue
		}
		total.n += done.n
		total.modified += done.modified
		if done.isUpsert {
			upserted = append(upserted, bson.D{{Key: "index", Value: int32(i)}, {Key: "_id", Value: done.upserted}})
		}
	}
	reply := bson.D{{Key: "n", Value: int32(total.n)}}
	if req.name == "update" {
		reply = append(reply, bson.E{Key: "nModified", Value: int32(total.modified)})
	}
	for _, list := range []bson.E{{Key: "upserted", Value: upserted}, {Key: "writeErrors", Value: failures}, {Key: "retriedStmtIds", Value: retried}} {
		if len(list.Value.(bson.A)) > 0 {
			reply = append(reply, list)
		}
	}
	return reply, nil
}

// failsCommand reports whether an error fails the whole command instead of one statement:
// the connection's end, the end of its time or of the server's role, and in a transaction
// an error that tells the client to run the whole transaction again.
func failsCommand(req *request, err error) bool {
	if errors.Is(err, errCloseConnection) {
		return true
	}
	code := asCommandError(err).code
	return code == codeMaxTimeExpired || code == codeRoleChanged || req.tx != nil && code == codeWriteConflict
}

// update updates documents. See
// https://www.mongodb.com/docs/manual/reference/command/update/.
func (s *Server) update(req *request) (bson.D, error) {
	var args struct {
		Update  string     `bson:"update"`
		Updates []bson.Raw `bson:"updates"`
		Ordered *bool      `bson:"ordered"`
	}
	if err := req.decode(&args); err != nil {
		return nil, err
	}
	statements := make([]updateStatement, len(args.Updates))
	for i, raw := range args.Updates {
		if err := decodeStrict("update.updates", raw, &statements[i]); err != nil {
			return nil, err
		}
		if err := refuseMulti(req, statements[i].Multi); err != nil {
			return nil, err
		}
	}
	upserts := slices.ContainsFunc(statements, func(st updateStatement) bool { return st.Upsert })
	c, err := s.target(req, args.Update, upserts)
	if err != nil {
		return nil, err
	}
	return s.bulk(req, args.Ordered, len(statements), func(i int) (outcome, error) {
		return s.runUpdate(req, c, &statements[i])
	})
}

// target returns the collection that a command changes. It creates a missing collection
// only if the command can insert.
func (s *Server) target(req *request, name string, inserts bool) (*collection, error) {
	if inserts {
		return s.collection(req, name)
	}
	return s.existing(req, name)
}

// refuseMulti refuses to make a write to many documents retryable. See
// https://www.mongodb.com/docs/manual/core/retryable-writes/#retryable-write-operations.
func refuseMulti(req *request, multi bool) error {
	if multi && req.session != nil && !req.multiDocument() {
		return errorf(codeInvalidOptions, "Cannot use (or request) retryable writes with multi=true")
	}
	return nil
}

// updateStatement is one of the updates of an update command.
type updateStatement struct {
	Filter bson.Raw      `bson:"q"`
	Update bson.RawValue `bson:"u"`
	Multi  bool          `bson:"multi"`
	Upsert bool          `bson:"upsert"`
	Hint   bson.RawValue `bson:"hint"`
}

func (s *Server) runUpdate(req *request, c *collection, st *updateStatement) (done outcome, err error) {
	up, err := parseUpdate(st.Update)
	if err != nil {
		return done, err
	}
	if up.replacement && st.Multi {
		return done, errorf(codeFailedToParse, "multi update is not supported for replacement-style update")
	}
	if st.Multi {
		s.costs.of(c.name).Many++
	}
	err = s.statement(req, func(tx *transaction) error {
		tx.many = st.Multi
		done, err = c.update(tx, st, up)
		tx.many = false
		return err
	})
	return done, err
}

// update runs one update in a transaction.
func (c *collection) update(tx *transaction, st *updateStatement, up *update) (done outcome, err error) {
	if st.Upsert {
		if refusal := refuseExpr(st.Filter); refusal != nil {
			return done, refusal
		}
	}
	sel := selection{filter: st.Filter, hint: st.Hint, limit: 1}
	if st.Multi {
		sel.limit = 0
	}
	found, err := c.find(tx, sel)
	if err != nil {
		return done, err
	}
	for _, m := range found {
		var changed bool
		changed, _, err = c.modify(tx, m, up)
		if err != nil {
			return done, err
		}
		done.n++
		if changed {
			done.modified++
		}
	}
	if len(found) > 0 || !st.Upsert {
		return done, nil
	}
	doc, err := c.upsert(tx, st.Filter, up)
	if err != nil {
		return done, err
	}
	return outcome{n: 1, isUpsert: true, upserted: bsonvalue.Field(doc.fields, "_id")}, nil
}

// modify updates one record and reports whether it changed.
func (c *collection) modify(tx *transaction, m match, up *update) (changed bool, after *document, err error) {
	fields, err := up.apply(m.doc.fields, false)
	if err != nil {
		return false, nil, err
	}
	after, err = newDocument(fields)
	if err != nil {
		return false, nil, err
	}
	if err := checkSize(after, codeUpdateTooLarge, "Resulting document after update is larger than the maximum: size in bytes: %d, max size: %d"); err != nil {
		return false, nil, err
	}
	if string(after.raw) == string(m.doc.raw) {
		return false, m.doc, nil
	}
	kind := "update"
	if up.replacement {
		kind = "replace"
	}
	return true, after, c.write(tx, m.record, after, kind)
}

// refuseExpr refuses an upsert whose filter has an expression. See
// https://www.mongodb.com/docs/manual/reference/method/db.collection.update/.
func refuseExpr(raw bson.Raw) error {
	filter, err := decodeDocument(raw)
	if err != nil {
		return err
	}
	if hasExpr(filter) {
		return errorf(codeQueryFeatureNotAllowed, "$expr is not allowed in the query predicate for an upsert")
	}
	return nil
}

func hasExpr(filter bson.D) bool {
	return slices.ContainsFunc(filter, func(e bson.E) bool {
		clauses, _ := e.Value.(bson.A) // of $and, $or and $nor
		return e.Key == "$expr" || slices.ContainsFunc(clauses, func(clause any) bool {
			d, ok := clause.(bson.D)
			return ok && strings.HasPrefix(e.Key, "$") && hasExpr(d)
		})
	})
}

// upsert inserts the result of an update on the fields that its filter requires. See
// https://www.mongodb.com/docs/manual/reference/method/db.collection.update/#upsert-behavior.
func (c *collection) upsert(tx *transaction, filter bson.Raw, up *update) (*document, error) {
	q, err := newQuery(filter)
	if err != nil {
		return nil, err
	}
	base := bson.D{}
	for _, e := range equalities(q.filter) {
		if up.replacement && e.Key != "_id" {
			continue
		}
		if base, err = setPath(base, e.Key, e.Value); err != nil {
			return nil, err
		}
	}
	fields, err := up.apply(base, true)
	if err != nil {
		return nil, err
	}
	raw, err := codec.Encode(fields)
	if err != nil {
		return nil, errorf(codeBadValue, "encoding a document: %s", err)
	}
	doc, err := newInsert(raw)
	if err != nil {
		return nil, err
	}
	tx.upserts = true
	defer func() { tx.upserts = false }()
	return doc, c.insert(tx, doc)
}

// delete deletes documents. See
// https://www.mongodb.com/docs/manual/reference/command/delete/.
func (s *Server) delete(req *request) (bson.D, error) {
	var args struct {
		Delete  string     `bson:"delete"`
		Deletes []bson.Raw `bson:"deletes"`
		Ordered *bool      `bson:"ordered"`
	}
	if err := req.decode(&args); err != nil {
		return nil, err
	}
	c, err := s.existing(req, args.Delete)
	if err != nil {
		return nil, err
	}
	type deleteStatement struct {
		Filter bson.Raw      `bson:"q"`
		Limit  int64         `bson:"limit"`
		Hint   bson.RawValue `bson:"hint"`
	}
	statements := make([]deleteStatement, len(args.Deletes))
	for i, raw := range args.Deletes {
		if err := decodeStrict("delete.deletes", raw, &statements[i]); err != nil {
			return nil, err
		}
		if limit := statements[i].Limit; limit != 0 && limit != 1 {
			return nil, errorf(codeFailedToParse, "The limit field in delete objects must be 0 or 1. Got %d", limit)
		}
		if err := refuseMulti(req, statements[i].Limit == 0); err != nil {
			return nil, err
		}
	}
	return s.bulk(req, args.Ordered, len(statements), func(i int) (done outcome, err error) {
		st := statements[i]
		err = s.statement(req, func(tx *transaction) error {
			done.n, err = c.delete(tx, selection{filter: st.Filter, hint: st.Hint, limit: st.Limit})
			return err
		})
		return done, err
	})
}

// delete deletes a selection in a transaction.
func (c *collection) delete(tx *transaction, sel selection) (n int, err error) {
	found, err := c.find(tx, sel)
	if err != nil {
		return 0, err
	}
	for _, m := range found {
		if err := c.write(tx, m.record, nil, "delete"); err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}

// findAndModify changes one document and returns it. See
// https://www.mongodb.com/docs/manual/reference/command/findAndModify/.
func (s *Server) findAndModify(req *request) (bson.D, error) {
	var args findAndModifyArgs
	if err := req.decode(&args); err != nil {
		return nil, err
	}
	if args.Remove == (args.Update.Type != 0) {
		return nil, errorf(codeFailedToParse, "Either an update or remove=true must be specified")
	}
	if args.Remove && (args.New || args.Upsert) {
		return nil, errorf(codeFailedToParse, "Cannot specify both new or upsert and remove=true")
	}
	c, err := s.target(req, args.Collection, args.Upsert)
	if err != nil {
		return nil, err
	}
	project, err := parseProjection(args.Fields)
	if err != nil {
		return nil, err
	}
	reply, retried, err := once(s, req, 0, func() (reply bson.D, err error) {
		err = s.statement(req, func(tx *transaction) error {
			reply, err = c.findAndModify(tx, &args, project)
			return err
		})
		return reply, err
	})
	if retried {
		reply = append(reply[:len(reply):len(reply)], bson.E{Key: "retriedStmtId", Value: int32(0)})
	}
	return reply, err
}

type findAndModifyArgs struct {
	Collection string        `bson:"findAndModify"`
	Query      bson.Raw      `bson:"query"`
	Sort       bson.Raw      `bson:"sort"`
	Fields     bson.Raw      `bson:"fields"`
	Hint       bson.RawValue `bson:"hint"`
	Update     bson.RawValue `bson:"update"`
	Remove     bool          `bson:"remove"`
	New        bool          `bson:"new"`
	Upsert     bool          `bson:"upsert"`
}

func (c *collection) findAndModify(tx *transaction, args *findAndModifyArgs, project projection) (bson.D, error) {
	if args.Upsert {
		if err := refuseExpr(args.Query); err != nil {
			return nil, err
		}
	}
	found, err := c.find(tx, selection{filter: args.Query, sort: args.Sort, hint: args.Hint, limit: 1})
	if err != nil {
		return nil, err
	}
	if args.Remove {
		if len(found) == 0 {
			return modifyReply(nil, bson.D{{Key: "n", Value: int32(0)}}, project)
		}
		err = c.write(tx, found[0].record, nil, "delete")
		if err != nil {
			return nil, err
		}
		return modifyReply(found[0].doc, bson.D{{Key: "n", Value: int32(1)}}, project)
	}
	up, err := parseUpdate(args.Update)
	if err != nil {
		return nil, err
	}
	last := bson.D{{Key: "n", Value: int32(len(found))}, {Key: "updatedExisting", Value: len(found) > 0}}
	var returned, after *document
	switch {
	case len(found) > 0:
		if _, after, err = c.modify(tx, found[0], up); err != nil {
			return nil, err
		}
		returned = found[0].doc
	case args.Upsert:
		if after, err = c.upsert(tx, args.Query, up); err != nil {
			return nil, err
		}
		last = bson.D{{Key: "n", Value: int32(1)}, {Key: "updatedExisting", Value: false}, {Key: "upserted", Value: bsonvalue.Field(after.fields, "_id")}}
	}
	if args.New {
		returned = after
	}
	return modifyReply(returned, last, project)
}

func modifyReply(doc *document, last bson.D, project projection) (bson.D, error) {
	var value any
	if doc != nil {
		encoded, err := encodeAll([]*document{doc}, project)
		if err != nil {
			return nil, err
		}
		value = encoded[0]
	}
	return bson.D{{Key: "lastErrorObject", Value: last}, {Key: "value", Value: value}}, nil
}
