package mongotest

import (
	"maps"
	"slices"
	"strings"

	"go.mongodb.org/mongo-driver/bson"

	"github.com/mongodb/amboy/internal/mongotest/bsonvalue"
	"github.com/mongodb/amboy/internal/mongotest/codec"
)

// stage is one parsed stage of a pipeline.
type stage func([]bson.D) ([]bson.D, error)

// stageParser parses the specification of one stage.
type stageParser func(any) (stage, error)

// stages are the supported stages, except those that read another collection. See
// https://www.mongodb.com/docs/manual/reference/operator/aggregation-pipeline/.
var stages = map[string]stageParser{
	"$match":       matchStage,
	"$sort":        sortStage,
	"$limit":       limitStage,
	"$skip":        skipStage,
	"$project":     projectStage,
	"$addFields":   addFieldsStage,
	"$set":         addFieldsStage,
	"$unset":       unsetStage,
	"$group":       groupStage,
	"$count":       countStage,
	"$replaceRoot": replaceRootStage,
	"$replaceWith": replaceWithStage,
	"$unwind":      unwindStage,
}

// The stages that may be used in updates and in change streams.
var (
	updateStages = stagesNamed("$addFields", "$set", "$project", "$unset", "$replaceRoot", "$replaceWith")
	streamStages = stagesNamed("$match", "$addFields", "$set", "$project", "$unset", "$replaceRoot", "$replaceWith")
)

func stagesNamed(names ...string) map[string]stageParser {
	named := map[string]stageParser{}
	for _, name := range names {
		named[name] = stages[name]
	}
	return named
}

const unionWith = "$unionWith"

// queryStages returns the stages that are allowed in an aggregate command.
func (s *Server) queryStages(req *request) map[string]stageParser {
	all := maps.Clone(stages)
	if mayUseDisk, _ := req.raw.Lookup("allowDiskUse").BooleanOK(); !mayUseDisk {
		all["$group"] = s.groupInMemory
	}
	all[unionWith] = func(v any) (stage, error) { return s.unionStage(req, v) }
	return all
}

// parsePipeline parses a pipeline of allowed stages.
func parsePipeline(list bson.A, allowed map[string]stageParser) ([]stage, error) {
	pipeline := make([]stage, 0, len(list))
	for _, item := range list {
		doc, ok := item.(bson.D)
		if !ok || len(doc) != 1 {
			return nil, errorf(40323, "A pipeline stage specification object must contain exactly one field.")
		}
		name := doc[0].Key
		parse, ok := allowed[name]
		if _, elsewhere := stages[name]; !ok && (elsewhere || name == unionWith) {
			return nil, errorf(codeInvalidOptions, "%s is not allowed to be used here", name)
		}
		if !ok {
			return nil, errorf(codeUnknownStage, "Unrecognized pipeline stage name: '%s'", name)
		}
		st, err := parse(doc[0].Value)
		if err != nil {
			return nil, err
		}
		pipeline = append(pipeline, st)
	}
	return pipeline, nil
}

func runPipeline(docs []bson.D, pipeline []stage) ([]bson.D, error) {
	for _, st := range pipeline {
		var err error
		if docs, err = st(docs); err != nil {
			return nil, err
		}
	}
	return docs, nil
}

// aggregate runs a pipeline. See
// https://www.mongodb.com/docs/manual/reference/command/aggregate/.
func (s *Server) aggregate(req *request) (bson.D, error) {
	var args struct {
		Aggregate any           `bson:"aggregate"`
		Pipeline  []bson.Raw    `bson:"pipeline"`
		Cursor    *batchArgs    `bson:"cursor"`
		Hint      bson.RawValue `bson:"hint"`
		// AllowDiskUse lets a $group keep any amount.
		AllowDiskUse bool `bson:"allowDiskUse"`
	}
	if err := req.decode(&args); err != nil {
		return nil, err
	}
	if args.Cursor == nil {
		return nil, errorf(codeFailedToParse, "The 'cursor' option is required, except for aggregate with the explain argument")
	}
	var list bson.A
	for _, raw := range args.Pipeline {
		doc, err := decodeDocument(raw)
		if err != nil {
			return nil, err
		}
		list = append(list, doc)
	}
	isStream := len(list) > 0 && bsonvalue.Rank(bsonvalue.Field(list[0].(bson.D), "$changeStream")) != bsonvalue.RankUndefined
	name, ok := args.Aggregate.(string)
	switch {
	case !ok && isStream:
		return s.watch(req, &changeStream{db: req.generic.DB}, list, args.Cursor.BatchSize)
	case !ok:
		return nil, errorf(codeInvalidNamespace, "mongotest aggregates collections only, not %s", show(args.Aggregate))
	}
	c, err := s.existing(req, name)
	if err != nil {
		return nil, err
	}
	if isStream {
		return s.watch(req, &changeStream{db: c.db, name: c.name}, list, args.Cursor.BatchSize)
	}
	read, err := s.pipe(req, c, list, args.Hint)
	if err != nil {
		return nil, err
	}
	docs, err := read()
	if err != nil {
		return nil, err
	}
	return s.replyWith(c.namespace(), docs, args.Cursor.BatchSize)
}

// pipe parses a pipeline over a collection and returns a function that runs it.
func (s *Server) pipe(req *request, c *collection, list bson.A, hint bson.RawValue) (func() ([]bson.D, error), error) {
	pipeline, err := parsePipeline(list, s.queryStages(req))
	if err != nil {
		return nil, err
	}
	sel, used, err := leading(list)
	if err != nil {
		return nil, err
	}
	sel.hint = hint
	return func() ([]bson.D, error) {
		found, err := s.query(req, c, sel)
		if err != nil {
			return nil, err
		}
		docs := make([]bson.D, len(found))
		for i, doc := range found {
			docs[i] = doc.fields
		}
		return runPipeline(docs, pipeline[used:])
	}, nil
}

// leading returns the selection that the first stages of a pipeline form, and how many
// they are: the filter, then the order, then the limit, so that indexes are used for
// them. See https://www.mongodb.com/docs/manual/core/aggregation-pipeline-optimization/.
func leading(list bson.A) (sel selection, used int, err error) {
	filters := bson.A{}
	stageOf := func(name string) any {
		if used < len(list) && list[used].(bson.D)[0].Key == name {
			used++
			return list[used-1].(bson.D)[0].Value
		}
		return nil
	}
	for filter := stageOf("$match"); filter != nil; filter = stageOf("$match") {
		filters = append(filters, filter)
	}
	if len(filters) > 0 {
		if sel.filter, err = codec.Encode(bson.D{{Key: "$and", Value: filters}}); err != nil {
			return sel, 0, errorf(codeBadValue, "encoding a filter: %s", err)
		}
	}
	if order := stageOf("$sort"); order != nil {
		if sel.sort, err = bson.Marshal(order); err != nil {
			return sel, 0, errorf(codeBadValue, "encoding a sort: %s", err)
		}
	}
	if limit := stageOf("$limit"); limit != nil {
		sel.limit = int64(bsonvalue.Float(limit))
	}
	return sel, used, nil
}

// unionStage appends the results of a pipeline over another collection. See
// https://www.mongodb.com/docs/manual/reference/operator/aggregation/unionWith/.
func (s *Server) unionStage(req *request, v any) (stage, error) {
	if req.multiDocument() {
		return nil, errorf(codeNotInTransaction, "Stage not supported inside of a multi-document transaction: $unionWith")
	}
	var args struct {
		Collection string `bson:"coll"`
		Pipeline   bson.A `bson:"pipeline"`
	}
	switch spec := v.(type) {
	case string:
		args.Collection = spec
	case bson.D:
		raw, err := codec.Encode(spec)
		if err != nil {
			return nil, errorf(codeBadValue, "encoding a $unionWith: %s", err)
		}
		if err := decodeStrict("$unionWith", raw, &args); err != nil {
			return nil, err
		}
	default:
		return nil, errorf(codeFailedToParse, "the $unionWith stage specification must be an object or string, but found %s", typeName(v))
	}
	c, err := s.existing(req, args.Collection)
	if err != nil {
		return nil, err
	}
	read, err := s.pipe(req, c, args.Pipeline, bson.RawValue{})
	if err != nil {
		return nil, err
	}
	return func(docs []bson.D) ([]bson.D, error) {
		more, failed := read()
		return append(slices.Clip(docs), more...), failed
	}, nil
}

func matchStage(v any) (stage, error) {
	filter, ok := v.(bson.D)
	if !ok {
		return nil, errorf(15959, "the match filter must be an expression in an object")
	}
	matches, err := parseFilter(filter)
	return func(docs []bson.D) ([]bson.D, error) {
		var kept []bson.D
		for _, doc := range docs {
			if matches(doc) {
				kept = append(kept, doc)
			}
		}
		return kept, nil
	}, err
}

func sortStage(v any) (stage, error) {
	spec, ok := v.(bson.D)
	if !ok || len(spec) == 0 {
		return nil, errorf(15973, "the $sort key specification must be a non-empty object")
	}
	raw, err := codec.Encode(spec)
	if err != nil {
		return nil, errorf(codeBadValue, "encoding a sort: %s", err)
	}
	order, err := parseSort(raw)
	return func(docs []bson.D) ([]bson.D, error) {
		sorted := slices.Clone(docs)
		sortStable(sorted, order, func(doc bson.D) bson.D { return doc })
		return sorted, nil
	}, err
}

func limitStage(v any) (stage, error) {
	f, ok := number(v)
	if !ok || f < 1 {
		return nil, errorf(15958, "the limit must be positive")
	}
	return func(docs []bson.D) ([]bson.D, error) { return docs[:min(int(f), len(docs))], nil }, nil
}

func skipStage(v any) (stage, error) {
	f, ok := number(v)
	if !ok || f < 0 {
		return nil, errorf(15956, "Argument to $skip cannot be negative")
	}
	return func(docs []bson.D) ([]bson.D, error) { return docs[min(int(f), len(docs)):], nil }, nil
}

// eachDocument returns a stage that changes documents one by one.
func eachDocument(change func(bson.D) (bson.D, error)) stage {
	return func(docs []bson.D) ([]bson.D, error) {
		changed := make([]bson.D, len(docs))
		for i, doc := range docs {
			var err error
			if changed[i], err = change(doc); err != nil {
				return nil, err
			}
		}
		return changed, nil
	}
}

func projectStage(v any) (stage, error) {
	spec, ok := v.(bson.D)
	if !ok || len(spec) == 0 {
		return nil, errorf(51272, "Invalid $project :: caused by :: projection specification must have at least one field")
	}
	project, err := newProjection(spec)
	return eachDocument(project), err
}

func addFieldsStage(v any) (stage, error) {
	spec, ok := v.(bson.D)
	if !ok {
		return nil, errorf(40272, "$addFields specification stage must be an object")
	}
	for _, e := range spec {
		if err := checkExpression(e.Value); err != nil {
			return nil, err
		}
	}
	return eachDocument(func(doc bson.D) (bson.D, error) {
		result := doc
		for _, e := range spec {
			v, err := evaluate(doc, e.Value)
			if err != nil {
				return nil, err
			}
			// The value of a missing field, as $$REMOVE, removes the field, and the documents on its path are made.
			missing := bsonvalue.Rank(v) == bsonvalue.RankUndefined
			if missing {
				v = nil
			}
			if result, err = setPath(result, e.Key, v); err != nil {
				return nil, err
			}
			if missing {
				result = unsetPath(result, strings.Split(e.Key, "."))
			}
		}
		return result, nil
	}), nil
}

func unsetStage(v any) (stage, error) {
	list, ok := v.(bson.A)
	if !ok {
		list = bson.A{v}
	}
	var spec bson.D
	for _, item := range list {
		name, isText := item.(string)
		if !isText {
			return nil, errorf(31120, "$unset specification must be a string or an array containing only string values")
		}
		spec = append(spec, bson.E{Key: name, Value: false})
	}
	project, err := newProjection(spec)
	return eachDocument(project), err
}

func replaceRootStage(v any) (stage, error) {
	spec, ok := v.(bson.D)
	if !ok || len(spec) != 1 || spec[0].Key != "newRoot" {
		return nil, errorf(40231, "$replaceRoot needs newRoot and nothing else")
	}
	return replaceWithStage(spec[0].Value)
}

func replaceWithStage(v any) (stage, error) {
	return eachDocument(func(doc bson.D) (bson.D, error) {
		root, err := evaluate(doc, v)
		if err != nil {
			return nil, err
		}
		replaced, ok := root.(bson.D)
		if !ok {
			return nil, errorf(40228, "'newRoot' expression must evaluate to an object, but resulting value was: %s", show(root))
		}
		return replaced, nil
	}), checkExpression(v)
}

func countStage(v any) (stage, error) {
	name, ok := v.(string)
	if !ok || name == "" || strings.ContainsAny(name, ".$") {
		return nil, errorf(40156, "the count field must be a non-empty string without '.' and '$'")
	}
	return func(docs []bson.D) ([]bson.D, error) {
		if len(docs) == 0 {
			return nil, nil
		}
		return []bson.D{{{Key: name, Value: int32(len(docs))}}}, nil
	}, nil
}

// unwindStage makes a document of each element of an array. It supports only the short
// form, a field path.
func unwindStage(v any) (stage, error) {
	path, ok := v.(string)
	if !ok || !strings.HasPrefix(path, "$") {
		return nil, errorf(28818, "path option to $unwind stage should be a string prefixed with a '$': %s", show(v))
	}
	return func(docs []bson.D) ([]bson.D, error) {
		var all []bson.D
		for _, doc := range docs {
			items := bson.A{}
			switch x := at(doc, strings.Split(path[1:], ".")).(type) {
			case bson.A:
				items = x
			default:
				if bsonvalue.Rank(x) > bsonvalue.RankNull {
					items = bson.A{x}
				}
			}
			for _, item := range items {
				unwound, err := setPath(doc, path[1:], item)
				if err != nil {
					return nil, err
				}
				all = append(all, unwound)
			}
		}
		return all, nil
	}, nil
}

// groupStage groups documents. See
// https://www.mongodb.com/docs/manual/reference/operator/aggregation/group/.
func groupStage(v any) (stage, error) {
	spec, ok := v.(bson.D)
	if !ok || bsonvalue.Rank(bsonvalue.Field(spec, "_id")) == bsonvalue.RankUndefined {
		return nil, errorf(15955, "a group specification must include an _id")
	}
	for _, e := range spec {
		if err := checkAccumulator(e); err != nil {
			return nil, err
		}
	}
	return func(docs []bson.D) ([]bson.D, error) { return group(docs, spec) }, nil
}

// groupInMemory is a $group that fails if it has to keep too much.
func (s *Server) groupInMemory(v any) (stage, error) {
	makeGroups, invalid := groupStage(v)
	return func(docs []bson.D) ([]bson.D, error) {
		groups, err := makeGroups(docs)
		size := 0
		for _, g := range groups {
			raw, _ := codec.Encode(g) // what can't be encoded fails later
			size += len(raw)
		}
		if size > s.options.SortMemory {
			return nil, errorf(codeQueryExceededMemory, "Executor error during aggregate command :: caused by :: Exceeded memory limit for $group, but didn't allow external spilling.")
		}
		return groups, err
	}, invalid
}

var accumulators = map[string]bool{
	"$sum": true, "$avg": true, "$min": true, "$max": true, "$first": true, "$last": true,
	"$push": true, "$addToSet": true, "$count": true,
}

func checkAccumulator(e bson.E) error {
	if e.Key == "_id" {
		return checkExpression(e.Value)
	}
	doc, ok := e.Value.(bson.D)
	if !ok || len(doc) != 1 {
		return errorf(40234, "The field '%s' must be an accumulator object", e.Key)
	}
	if !accumulators[doc[0].Key] {
		return errorf(15952, "unknown group operator '%s'", doc[0].Key)
	}
	if doc[0].Key == "$count" && !bsonvalue.Equal(doc[0].Value, bson.D{}) {
		return errorf(codeTypeMismatch, "$count takes no arguments, i.e. $count:{}")
	}
	return checkExpression(doc[0].Value)
}

func group(docs []bson.D, spec bson.D) ([]bson.D, error) {
	type members struct {
		id   any
		docs []bson.D
	}
	byKey := map[string]*members{}
	var order []*members
	for _, doc := range docs {
		id, err := evaluate(doc, bsonvalue.Field(spec, "_id"))
		if err != nil {
			return nil, err
		}
		if bsonvalue.Rank(id) == bsonvalue.RankUndefined {
			id = nil
		}
		key := keyString(id)
		if byKey[key] == nil {
			byKey[key] = &members{id: id}
			order = append(order, byKey[key])
		}
		byKey[key].docs = append(byKey[key].docs, doc)
	}
	var groups []bson.D
	for _, m := range order {
		result := bson.D{{Key: "_id", Value: m.id}}
		for _, e := range spec {
			if e.Key == "_id" {
				continue
			}
			v, err := accumulate(e.Value.(bson.D)[0], m.docs)
			if err != nil {
				return nil, err
			}
			result = append(result, bson.E{Key: e.Key, Value: v})
		}
		groups = append(groups, result)
	}
	return groups, nil
}

// accumulate computes one field of a group.
func accumulate(op bson.E, docs []bson.D) (any, error) {
	if op.Key == "$count" {
		return int32(len(docs)), nil
	}
	values := bson.A{}
	for _, doc := range docs {
		v, err := evaluate(doc, op.Value)
		if err != nil {
			return nil, err
		}
		values = append(values, v)
	}
	switch op.Key {
	case "$sum", "$avg":
		return total(op.Key, values)
	case "$min", "$max":
		return extreme(op.Key, values), nil
	case "$first":
		return known(values[0]), nil
	case "$last":
		return known(values[len(values)-1]), nil
	}
	list := bson.A{}
	seen := map[string]bool{}
	for _, v := range values {
		key := keyString(v)
		if bsonvalue.Rank(v) == bsonvalue.RankUndefined || op.Key == "$addToSet" && seen[key] {
			continue
		}
		seen[key] = true
		list = append(list, v)
	}
	return list, nil
}

// known returns null for a missing value, and other values unchanged.
func known(v any) any {
	if bsonvalue.Rank(v) == bsonvalue.RankUndefined {
		return nil
	}
	return v
}

// total adds up the numbers among values and ignores other values.
func total(operator string, values bson.A) (any, error) {
	var sum any = int32(0)
	n := 0
	for _, v := range values {
		if bsonvalue.Rank(v) != bsonvalue.RankNumber {
			continue
		}
		n++
		var err error
		if sum, err = add(sum, v); err != nil {
			return nil, err
		}
	}
	if operator == "$sum" {
		return sum, nil
	}
	if n == 0 {
		return nil, nil
	}
	return bsonvalue.Float(sum) / float64(n), nil
}

// extreme returns the least or the greatest value that is not null.
func extreme(operator string, values bson.A) any {
	var best any
	for _, v := range values {
		if bsonvalue.Rank(v) <= bsonvalue.RankNull && bsonvalue.Rank(v) != bsonvalue.RankMinKey {
			continue
		}
		if c := bsonvalue.Compare(v, best); bsonvalue.Rank(best) == bsonvalue.RankNull || c < 0 && operator == "$min" || c > 0 && operator == "$max" {
			best = v
		}
	}
	return best
}
