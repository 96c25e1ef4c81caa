package mongotest

import (
	"math"
	"slices"
	"strings"

	"go.mongodb.org/mongo-driver/bson"

	"github.com/mongodb/amboy/internal/mongotest/bsonvalue"
)

// find runs a query. See
// https://www.mongodb.com/docs/manual/reference/command/find/.
func (s *Server) find(req *request) (bson.D, error) {
	var args struct {
		Find        string        `bson:"find"`
		Filter      bson.Raw      `bson:"filter"`
		Sort        bson.Raw      `bson:"sort"`
		Projection  bson.Raw      `bson:"projection"`
		Hint        bson.RawValue `bson:"hint"`
		Skip        int64         `bson:"skip"`
		Limit       int64         `bson:"limit"`
		BatchSize   *int64        `bson:"batchSize"`
		SingleBatch bool          `bson:"singleBatch"`
		// AllowDiskUse and NoCursorTimeout have no effect: sorts are in memory, and
		// cursors live as long as the server.
		AllowDiskUse    bool `bson:"allowDiskUse"`
		NoCursorTimeout bool `bson:"noCursorTimeout"`
	}
	if err := req.decode(&args); err != nil {
		return nil, err
	}
	if args.Skip < 0 || args.Limit < 0 || args.BatchSize != nil && *args.BatchSize < 0 {
		return nil, errorf(51024, "BSON field value must be >= 0, actual value is negative: skip, limit or batchSize")
	}
	c, err := s.existing(req, args.Find)
	if err != nil {
		return nil, err
	}
	project, err := parseProjection(args.Projection)
	if err != nil {
		return nil, err
	}
	docs, err := s.query(req, c, selection{filter: args.Filter, sort: args.Sort, hint: args.Hint, skip: args.Skip, limit: args.Limit})
	if err != nil {
		return nil, err
	}
	projected, err := encodeAll(docs, project)
	if err != nil {
		return nil, err
	}
	rest := &documentCursor{ns: c.namespace(), docs: projected}
	return s.firstBatch(rest, args.BatchSize, args.SingleBatch)
}

// selection describes which documents of a collection are wanted, and in what order.
type selection struct {
	filter, sort bson.Raw
	hint         bson.RawValue
	skip, limit  int64 // limit 0 means no limit
}

// query returns the documents of a selection.
func (s *Server) query(req *request, c *collection, sel selection) ([]*document, error) {
	var docs []*document
	err := s.statement(req, func(tx *transaction) error {
		found, err := c.find(tx, sel)
		docs = nil
		for _, f := range found {
			docs = append(docs, f.doc)
		}
		return err
	})
	return docs, err
}

// match is a record that a query found, with its version in the transaction.
type match struct {
	record *record
	doc    *document
}

// find returns the records of a selection as a transaction sees them.
func (c *collection) find(tx *transaction, sel selection) ([]match, error) {
	q, err := newQuery(sel.filter)
	if err != nil {
		return nil, err
	}
	order, err := parseSort(sel.sort)
	if err != nil {
		return nil, err
	}
	hint, err := c.hinted(sel.hint)
	if err != nil {
		return nil, err
	}
	p := c.plan(q.filter, order, hint)
	enough := sel.skip + sel.limit
	if sel.limit == 0 {
		enough = math.MaxInt64
	}
	found := c.run(tx, q, p, enough)
	sortStable(found, order, func(m match) bson.D { return m.doc.fields })
	if len(order) > 0 && !p.ordered {
		err = checkSort(found[:min(enough, int64(len(found)))], c.sortMemory)
	}
	if err != nil {
		return nil, err
	}
	return found[min(sel.skip, int64(len(found))):min(enough, int64(len(found)))], nil
}

// checkSort refuses a sort that has to keep too much.
func checkSort(kept []match, most int) error {
	size := 0
	for _, m := range kept {
		size += len(m.doc.raw)
	}
	if size > most {
		return errorf(codeQueryExceededMemory, "Executor error during find command :: caused by :: Sort exceeded memory limit of %d bytes, but did not opt in to external sorting.", most)
	}
	return nil
}

// run returns the documents of a plan that a query matches. If they come in order, it
// stops each range after enough documents.
func (c *collection) run(tx *transaction, q *query, p plan, enough int64) []match {
	var found []match
	if len(p.walks) == 0 {
		c.records.Scan(func(_ uint64, r *record) bool {
			c.costs.Examined.Documents++
			if doc := r.visible(tx); doc != nil && q.matches(doc.fields) {
				found = append(found, match{r, doc})
			}
			return !p.ordered || int64(len(found)) < enough
		})
		return found
	}
	seen := map[*record]bool{} // under another of its keys
	for _, w := range p.walks {
		for _, r := range w.ranges {
			start := len(found)
			w.index.walk(r, w.backward, func(e entry) bool {
				c.costs.Examined.Keys++
				doc := w.index.document(tx, e)
				if doc != nil {
					c.costs.Examined.Documents++
				}
				if doc != nil && !seen[e.record] && q.matches(doc.fields) {
					found = append(found, match{e.record, doc})
					seen[e.record] = true
				}
				return !p.ordered || int64(len(found)-start) < enough
			})
		}
	}
	return found
}

// hinted returns the index that a hint names, or nil if there is no hint or no
// collection. See https://www.mongodb.com/docs/manual/reference/method/cursor.hint/.
func (c *collection) hinted(hint bson.RawValue) (*index, error) {
	if hint.Type == 0 || len(c.indexes) == 0 {
		return nil, nil
	}
	v, err := decodeValue(hint)
	if err != nil {
		return nil, err
	}
	if bsonvalue.Rank(v) == bsonvalue.RankObject && len(v.(bson.D)) == 0 {
		return nil, nil // an empty document means no hint
	}
	for _, x := range c.indexes {
		if x.named(v) {
			return x, nil
		}
	}
	return nil, errorf(codeBadValue, "error processing query: ns=%s planner returned error :: caused by :: hint provided does not correspond to an existing index", c.namespace())
}

// sortField is one field of an order.
type sortField struct {
	path       []string
	descending bool
}

// parseSort parses an order. See
// https://www.mongodb.com/docs/manual/reference/method/cursor.sort/.
func parseSort(raw bson.Raw) ([]sortField, error) {
	doc, err := decodeDocument(raw)
	if err != nil {
		return nil, err
	}
	var order []sortField
	for _, e := range doc {
		direction, ok := number(e.Value)
		if !ok || direction != 1 && direction != -1 {
			return nil, errorf(15975, "$sort key ordering must be 1 (for ascending) or -1 (for descending)")
		}
		order = append(order, sortField{strings.Split(e.Key, "."), direction < 0})
	}
	return order, nil
}

func number(v any) (float64, bool) {
	if bsonvalue.Rank(v) != bsonvalue.RankNumber {
		return 0, false
	}
	return bsonvalue.Float(v), true
}

// sortStable sorts by an order. Equal items stay in the order of insertion.
func sortStable[T any](items []T, order []sortField, fields func(T) bson.D) {
	if len(order) == 0 {
		return
	}
	type keyed struct {
		item T
		keys []any
	}
	all := make([]keyed, len(items))
	for i, item := range items {
		all[i] = keyed{item, sortKeys(fields(item), order)}
	}
	slices.SortStableFunc(all, func(a, b keyed) int {
		for i, f := range order {
			c := bsonvalue.Compare(a.keys[i], b.keys[i])
			if f.descending {
				c = -c
			}
			if c != 0 {
				return c
			}
		}
		return 0
	})
	for i, k := range all {
		items[i] = k.item
	}
}

// sortKeys returns the values by which a document is sorted. For an array that is its
// least element, or its greatest for a descending order.
func sortKeys(doc bson.D, order []sortField) []any {
	keys := make([]any, len(order))
	for i, f := range order {
		for j, v := range expand(bsonvalue.Lookup(doc, f.path)) {
			if j == 0 || bsonvalue.Compare(v, keys[i]) < 0 != f.descending {
				keys[i] = v
			}
		}
	}
	return keys
}

// expand replaces arrays by their elements, as an index does. An empty array becomes
// bsonvalue.Missing, a missing value null.
func expand(values []any) []any {
	var all []any
	for _, v := range values {
		switch x := v.(type) {
		case bson.A:
			if len(x) == 0 {
				all = append(all, bsonvalue.Missing)
			}
			all = append(all, x...)
		default:
			if bsonvalue.Rank(v) == bsonvalue.RankUndefined {
				v = nil
			}
			all = append(all, v)
		}
	}
	return all
}

// count counts. See https://www.mongodb.com/docs/manual/reference/command/count/.
func (s *Server) count(req *request) (bson.D, error) {
	var args struct {
		Count string        `bson:"count"`
		Query bson.Raw      `bson:"query"`
		Hint  bson.RawValue `bson:"hint"`
		Skip  int64         `bson:"skip"`
		Limit int64         `bson:"limit"`
	}
	if err := req.decode(&args); err != nil {
		return nil, err
	}
	c, err := s.existing(req, args.Count)
	if err != nil {
		return nil, err
	}
	docs, err := s.query(req, c, selection{filter: args.Query, hint: args.Hint, skip: args.Skip, limit: max(args.Limit, -args.Limit)})
	if err != nil {
		return nil, err
	}
	return bson.D{{Key: "n", Value: int32(len(docs))}}, nil
}

// distinct returns the distinct values of a field, with each element of
// an array as a value. Servers accept a hint only since 7.1. See
// https://www.mongodb.com/docs/manual/reference/command/distinct/.
func (s *Server) distinct(req *request) (bson.D, error) {
	var args struct {
		Distinct string   `bson:"distinct"`
		Key      string   `bson:"key"`
		Query    bson.Raw `bson:"query"`
	}
	if err := req.decode(&args); err != nil {
		return nil, err
	}
	c, err := s.existing(req, args.Distinct)
	if err != nil {
		return nil, err
	}
	docs, err := s.query(req, c, selection{filter: args.Query})
	if err != nil {
		return nil, err
	}
	values := bson.A{}
	seen := map[string]bool{}
	for _, doc := range docs {
		for _, v := range present(bsonvalue.Lookup(doc.fields, strings.Split(args.Key, "."))) {
			if key := keyString(v); !seen[key] {
				seen[key] = true
				values = append(values, v)
			}
		}
	}
	slices.SortStableFunc(values, bsonvalue.Compare)
	return bson.D{{Key: "values", Value: values}}, nil
}

// present returns the values that are not missing, with arrays replaced by their
// elements.
func present(values []any) []any {
	var all []any
	for _, v := range values {
		switch x := v.(type) {
		case bson.A:
			all = append(all, x...)
		default:
			if bsonvalue.Rank(v) != bsonvalue.RankUndefined {
				all = append(all, v)
			}
		}
	}
	return all
}
