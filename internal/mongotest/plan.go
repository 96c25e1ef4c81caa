package mongotest

import (
	"math"
	"slices"
	"strings"

	"go.mongodb.org/mongo-driver/bson"
	"go.mongodb.org/mongo-driver/bson/primitive"

	"github.com/mongodb/amboy/internal/mongotest/bsonvalue"
)

// plan describes how the documents of a query are found: in ranges of an index, in ranges
// of several indexes for the alternatives of $or, or, if there is no walk, among all
// documents of the collection.
type plan struct {
	walks []indexWalk
	// ordered is true if each range yields its documents in the wanted order, so that a
	// limit ends the walk.
	ordered bool
}

// indexWalk is a walk through ranges of an index.
type indexWalk struct {
	index    *index
	ranges   []keyRange
	backward bool
}

// Examined counts the index keys and documents that queries have examined, as explain
// reports them for one query (totalKeysExamined and totalDocsExamined). A real server may
// examine fewer documents because it filters by the keys first. See
// https://www.mongodb.com/docs/manual/reference/explain-results/.
type Examined struct{ Keys, Documents int64 }

// Examined returns what all queries and writes have examined since the server
// was started.
func (s *Server) Examined() Examined {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.costs.Examined
}

// maxProduct bounds the number of ranges for several fields with several values each.
// Further fields are left to the filter.
const maxProduct = 1000

// plan chooses indexes for a query: the hinted one, or else the one that narrows it down
// most. See https://www.mongodb.com/docs/manual/core/query-plans/.
func (c *collection) plan(filter bson.D, order []sortField, hint *index) plan {
	if hint != nil {
		p, _ := hint.plan(required(filter), order)
		return p
	}
	best, worth := c.choose(filter, order)
	walks := c.union(conjunction(filter))
	if worth == 0 || worth < worthUnique && walks != nil && haveFewKeys(walks) {
		best = plan{walks: walks, ordered: len(order) == 0}
	}
	return best
}

// fewKeys is the number of keys up to which an $or is planned by its alternatives
// although one index has the order. The server runs all plans for a while and takes the
// first that comes to an end or returns this many documents. See
// https://www.mongodb.com/docs/manual/core/query-plans/.
const fewKeys = 101

// haveFewKeys reports whether walks visit at most fewKeys keys.
func haveFewKeys(walks []indexWalk) bool {
	n := 0
	for _, w := range walks {
		for _, r := range w.ranges {
			w.index.walk(r, w.backward, func(entry) bool {
				n++
				return n <= fewKeys
			})
		}
	}
	return n <= fewKeys
}

// conjunction returns the conditions of a filter, with those of each $and in its place.
func conjunction(filter bson.D) bson.D {
	var all bson.D
	for _, e := range filter {
		if e.Key != "$and" {
			all = append(all, e)
			continue
		}
		for _, clause := range e.Value.(bson.A) {
			all = append(all, conjunction(clause.(bson.D))...)
		}
	}
	return all
}

// choose returns the plan of the best index for all conditions of a filter, and its worth,
// which is 0 if there is none.
func (c *collection) choose(filter bson.D, order []sortField) (best plan, most int) {
	all := newConditions(filter)
	return c.best(order, func(*index) *conditions { return all })
}

// conditions are a filter with what it requires.
type conditions struct {
	filter bson.D
	limits requirements
}

func newConditions(filter bson.D) *conditions { return &conditions{filter, required(filter)} }

// best returns the plan of the best index and its worth, which is 0 if there is none. usable
// returns the conditions that an index can use.
func (c *collection) best(order []sortField, usable func(*index) *conditions) (best plan, most int) {
	for _, x := range c.indexes {
		use := usable(x)
		if !x.covers(use) {
			continue
		}
		if p, worth := x.plan(use.limits, order); worth > most {
			best, most = p, worth
		}
		if most >= worthUnique {
			break
		}
	}
	return best, most
}

// union plans each alternative of an $or by an index. It returns nil if one of them has
// none. Conditions beside the $or limit a partial index only if the alternative is not needed
// to imply its filter, as explain shows on a server. See
// https://www.mongodb.com/docs/manual/reference/operator/query/or/#-or-clauses-and-indexes.
func (c *collection) union(filter bson.D) []indexWalk {
	i := slices.IndexFunc(filter, func(e bson.E) bool { return e.Key == "$or" })
	if i < 0 {
		return nil
	}
	common := newConditions(slices.Delete(slices.Clone(filter), i, i+1))
	var walks []indexWalk
	for _, one := range filter[i].Value.(bson.A) {
		alternative := newConditions(one.(bson.D))
		both := newConditions(append(slices.Clip(common.filter), alternative.filter...))
		p, worth := c.best(nil, func(x *index) *conditions {
			if x.partial != nil && !x.covers(common) {
				return alternative
			}
			return both
		})
		if worth == 0 {
			return nil
		}
		walks = append(walks, p.walks...)
	}
	return walks
}

// The worth of plans: a unique key above all, then fields with one value, then the order,
// then a range.
const (
	worthUnique = 1000
	worthOrder  = 3
	worthValue  = 2
	worthRange  = 1
)

// plan returns how the index finds documents, and what that is worth.
func (x *index) plan(limits requirements, order []sortField) (p plan, worth int) {
	prefixes, fixed := x.prefixes(limits)
	worth = fixed * worthValue
	if x.unique && fixed == len(x.fields) {
		worth += worthUnique
	}
	walk := indexWalk{index: x}
	walk.backward, p.ordered = x.sorts(order, fixed)
	if p.ordered && len(order) > 0 {
		worth += worthOrder
	}
	low, high := x.bounds(limits, fixed)
	if low != nil || high != nil {
		worth += worthRange
	}
	gaps := []gap{{low, high}}
	if low == nil && high == nil {
		gaps = x.gaps(limits, fixed)
		worth += min(worthRange, len(gaps)-1)
	}
	for _, prefix := range prefixes {
		for _, g := range gaps {
			r := withPrefix(prefix)
			if g.low != nil {
				r.from = g.low.after(prefix)
			}
			if g.high != nil {
				r.to = g.high.after(prefix)
			}
			walk.ranges = append(walk.ranges, r)
		}
	}
	p.walks = []indexWalk{walk}
	return p, worth
}

// gap is a range of one field. A nil end is unbounded.
type gap struct{ low, high *end }

// gaps returns the ranges between the excluded values of the field after the fixed ones,
// in the order of the index. There is at least one.
func (x *index) gaps(limits requirements, fixed int) []gap {
	if fixed == len(x.fields) || x.fields[fixed].multikey {
		return []gap{{}}
	}
	f := x.fields[fixed]
	var low *end
	var gaps []gap
	for _, v := range f.sorted(limits.of(f.name).excluded) {
		gaps = append(gaps, gap{low, &end{v, firstRecord}})
		low = &end{v, lastRecord}
	}
	return append(gaps, gap{low: low})
}

// sorted returns values in the order of the field, each once.
func (f indexField) sorted(values []any) []any {
	values = slices.Clone(values)
	slices.SortFunc(values, func(a, b any) int {
		if f.descending {
			a, b = b, a
		}
		return bsonvalue.Compare(a, b)
	})
	return slices.CompactFunc(values, bsonvalue.Equal)
}

// prefixes returns the beginnings of keys that a query requires, and their number of
// fields.
func (x *index) prefixes(limits requirements) (prefixes [][]any, fixed int) {
	prefixes = [][]any{{}}
	for i, f := range x.fields {
		values := limits.of(f.name).values
		if values == nil || !x.limitable(i) || len(prefixes) > 1 && len(prefixes)*len(values) > maxProduct {
			return prefixes, i
		}
		values = f.sorted(values)
		var longer [][]any
		for _, prefix := range prefixes {
			for _, v := range values {
				longer = append(longer, append(slices.Clip(prefix), v))
			}
		}
		prefixes = longer
	}
	return prefixes, len(x.fields)
}

// limitable reports whether field i can be limited if the fields before it are. Of the
// fields that had arrays only the first can be, because different elements of one array
// may satisfy the different conditions. See
// https://www.mongodb.com/docs/manual/core/indexes/index-types/index-multikey/multikey-index-bounds/.
func (x *index) limitable(i int) bool {
	return !x.fields[i].multikey || !slices.ContainsFunc(x.fields[:i], func(f indexField) bool { return f.multikey })
}

// end is one end of a range on a field.
type end struct {
	value  any
	record *record
}

func (e *end) after(prefix []any) entry {
	return entry{append(slices.Clip(prefix), e.value), e.record}
}

// bounds returns the ends of the range that a query requires of the field after the fixed
// ones, in the order of the index. They are nil if it requires none.
func (x *index) bounds(limits requirements, fixed int) (low, high *end) {
	if fixed == len(x.fields) || !x.limitable(fixed) {
		return nil, nil
	}
	f := x.fields[fixed]
	comparisons := limits.of(f.name).comparisons
	if len(comparisons) == 0 {
		return nil, nil
	}
	if f.multikey { // different elements may satisfy the comparisons
		comparisons = comparisons[:1]
	}
	for _, c := range comparisons {
		from, to := c.ends()
		if low == nil || compareEnds(from, low) > 0 {
			low = from
		}
		if high == nil || compareEnds(to, high) < 0 {
			high = to
		}
	}
	if f.descending {
		low, high = high.turned(), low.turned()
	}
	return low, high
}

func compareEnds(a, b *end) int {
	if c := bsonvalue.Compare(a.value, b.value); c != 0 {
		return c
	}
	return int(min(a.record.number, 1)) - int(min(b.record.number, 1))
}

// turned returns the end in a descending index.
func (e *end) turned() *end {
	if e.record == firstRecord {
		return &end{e.value, lastRecord}
	}
	return &end{e.value, firstRecord}
}

// sorts reports whether keys that begin with one prefix are in an order, forward or
// backward.
func (x *index) sorts(order []sortField, fixed int) (backward, ok bool) {
	next := fixed
	for _, o := range order {
		constant := slices.ContainsFunc(x.fields[:fixed], func(f indexField) bool { return !f.multikey && slices.Equal(f.path, o.path) })
		if constant {
			continue
		}
		if next == len(x.fields) {
			return false, false
		}
		f := x.fields[next]
		turned := f.descending != o.descending
		if f.multikey || !slices.Equal(f.path, o.path) || next > fixed && turned != backward {
			return false, false
		}
		backward = turned
		next++
	}
	return backward, true
}

// covers reports whether the index contains all documents that can meet the conditions. See
// https://www.mongodb.com/docs/manual/core/index-partial/#query-coverage.
func (x *index) covers(c *conditions) bool {
	if x.sparse && !slices.ContainsFunc(x.fields, func(f indexField) bool { return c.limits.of(f.name).exists }) {
		return false
	}
	return x.partial == nil || c.limits.imply(c.filter, x.filter)
}

// requirement is the part of a filter on one field that an index can use. Each part must
// hold for some value if the field has an array.
type requirement struct {
	values      []any // one of which is required; nil if there are none
	comparisons []comparison
	exists      bool
	// excluded are values that the field must not have.
	excluded []any
}

type comparison struct {
	operator string
	bound    any
}

// requirements are the requirements of a filter by field.
type requirements map[string]*requirement

func (r requirements) of(name string) *requirement {
	if found, ok := r[name]; ok {
		return found
	}
	return &requirement{}
}

func required(filter bson.D) requirements {
	r := requirements{}
	r.read(filter)
	return r
}

// read adds the requirements of a filter.
func (r requirements) read(filter bson.D) {
	for _, e := range filter {
		if e.Key == "$and" {
			for _, clause := range e.Value.(bson.A) {
				r.read(clause.(bson.D))
			}
		}
		if strings.HasPrefix(e.Key, "$") {
			continue
		}
		if r[e.Key] == nil {
			r[e.Key] = &requirement{}
		}
		r[e.Key].read(e.Value)
	}
}

func (r *requirement) read(v any) {
	if !isOperators(v) {
		r.oneOf(bson.A{v})
		return
	}
	for _, op := range v.(bson.D) {
		switch op.Key {
		case "$eq":
			r.oneOf(bson.A{op.Value})
		case "$in":
			r.oneOf(op.Value.(bson.A))
		case "$nin":
			r.noneOf(op.Value.(bson.A))
		case "$exists":
			r.exists = r.exists || truthy(op.Value)
		case "$gt", "$gte", "$lt", "$lte":
			if bracketed(op.Value) {
				r.comparisons = append(r.comparisons, comparison{op.Key, op.Value})
				r.exists = true
			}
		}
	}
}

// oneOf requires one of some values, unless the keys of the documents that match one of
// them are unknown.
func (r *requirement) oneOf(list bson.A) {
	values := []any{}
	exists := true
	for _, v := range list {
		switch bsonvalue.Rank(v) {
		case bsonvalue.RankArray, bsonvalue.RankRegex, bsonvalue.RankUndefined:
			return
		case bsonvalue.RankNull: // matches missing fields too
			exists = false
		}
		values = append(values, v)
	}
	r.exists = r.exists || exists
	if r.values == nil || len(values) < len(r.values) {
		r.values = values
	}
}

// noneOf excludes values, except values for which the keys of the matching documents are
// unknown.
func (r *requirement) noneOf(list bson.A) {
	for _, v := range list {
		switch bsonvalue.Rank(v) {
		case bsonvalue.RankArray, bsonvalue.RankRegex, bsonvalue.RankUndefined, bsonvalue.RankNull:
		default:
			r.excluded = append(r.excluded, v)
		}
	}
}

// bracketed reports whether a comparison with a value applies only to values of its type.
func bracketed(v any) bool {
	switch bsonvalue.Rank(v) {
	case bsonvalue.RankMinKey, bsonvalue.RankMaxKey, bsonvalue.RankUndefined, bsonvalue.RankNull, bsonvalue.RankArray:
		return false
	case bsonvalue.RankNumber:
		return !isNaN(v)
	default:
		return true
	}
}

// least holds the least values of the types.
var least = [...]any{
	bsonvalue.RankMinKey: primitive.MinKey{}, bsonvalue.RankUndefined: bsonvalue.Missing, bsonvalue.RankNull: nil, bsonvalue.RankNumber: math.NaN(), bsonvalue.RankString: "",
	bsonvalue.RankObject: bson.D{}, bsonvalue.RankArray: bson.A{}, bsonvalue.RankBinary: primitive.Binary{}, bsonvalue.RankObjectID: primitive.ObjectID{},
	bsonvalue.RankBool: false, bsonvalue.RankDate: primitive.DateTime(math.MinInt64), bsonvalue.RankTimestamp: primitive.Timestamp{},
	bsonvalue.RankRegex: primitive.Regex{}, bsonvalue.RankPointer: primitive.DBPointer{}, bsonvalue.RankCode: primitive.JavaScript(""),
	bsonvalue.RankCodeWithScope: primitive.CodeWithScope{}, bsonvalue.RankMaxKey: primitive.MaxKey{},
}

// ends returns the ends of the values that satisfy a comparison, in ascending order.
func (c comparison) ends() (low, high *end) {
	low = &end{least[bsonvalue.Rank(c.bound)], firstRecord}
	high = &end{least[bsonvalue.Rank(c.bound)+1], firstRecord}
	switch c.operator {
	case "$gt":
		low = &end{c.bound, lastRecord}
	case "$gte":
		low = &end{c.bound, firstRecord}
	case "$lt":
		high = &end{c.bound, firstRecord}
	case "$lte":
		high = &end{c.bound, lastRecord}
	}
	return low, high
}

// imply reports whether the filter of a partial index matches all documents that the
// requirements' filter matches.
func (r requirements) imply(filter, partial bson.D) bool {
	for _, clause := range partial {
		if !slices.ContainsFunc(filter, func(e bson.E) bool { return e.Key == clause.Key && bsonvalue.Equal(e.Value, clause.Value) }) && !r.implyClause(filter, clause) {
			return false
		}
	}
	return true
}

func (r requirements) implyClause(filter bson.D, clause bson.E) bool {
	each := func(v any) bool { return r.imply(filter, v.(bson.D)) }
	switch {
	case clause.Key == "$and":
		return !slices.ContainsFunc(clause.Value.(bson.A), func(v any) bool { return !each(v) })
	case clause.Key == "$or":
		return slices.ContainsFunc(clause.Value.(bson.A), each)
	case !isOperators(clause.Value):
		return r.of(clause.Key).implies(bson.E{Key: "$eq", Value: clause.Value})
	}
	for _, op := range clause.Value.(bson.D) {
		if !r.of(clause.Key).implies(op) {
			return false
		}
	}
	return true
}

// implies reports whether values that satisfy the requirement satisfy an operator.
func (r *requirement) implies(op bson.E) bool {
	if op.Key == "$exists" {
		return r.exists
	}
	meets, err := parseOperator(op, nil)
	if err != nil || r.values != nil {
		return err == nil && !slices.ContainsFunc(r.values, func(v any) bool { return !meets([]any{v}) })
	}
	return slices.ContainsFunc(r.comparisons, func(c comparison) bool { return c.implies(op) })
}

// implies reports whether values that satisfy the comparison satisfy another one.
func (c comparison) implies(op bson.E) bool {
	if bsonvalue.Rank(op.Value) != bsonvalue.Rank(c.bound) || !slices.Contains([]string{"$gt", "$gte", "$lt", "$lte"}, op.Key) {
		return false
	}
	low, high := c.ends()
	from, to := comparison{op.Key, op.Value}.ends()
	return compareEnds(low, from) >= 0 && compareEnds(high, to) <= 0
}
