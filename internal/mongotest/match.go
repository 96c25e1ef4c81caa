package mongotest

import (
	"regexp"
	"strings"

	"go.mongodb.org/mongo-driver/bson"
	"go.mongodb.org/mongo-driver/bson/primitive"

	"github.com/mongodb/amboy/internal/mongotest/bsonvalue"
)

// query is a parsed filter.
type query struct {
	filter  bson.D
	matches func(bson.D) bool
}

// newQuery parses a filter. See
// https://www.mongodb.com/docs/manual/reference/operator/query/.
func newQuery(raw bson.Raw) (*query, error) {
	filter, err := decodeDocument(raw)
	if err != nil {
		return nil, err
	}
	matches, err := parseFilter(filter)
	if err != nil {
		return nil, err
	}
	return &query{filter: filter, matches: matches}, nil
}

// equalities returns the fields that a filter requires to equal a value.
func equalities(filter bson.D) bson.D {
	var found bson.D
	for _, e := range filter {
		switch {
		case e.Key == "$and":
			for _, clause := range e.Value.(bson.A) {
				found = append(found, equalities(clause.(bson.D))...)
			}
		case strings.HasPrefix(e.Key, "$"):
		case !isOperators(e.Value):
			if _, ok := e.Value.(primitive.Regex); !ok {
				found = append(found, e)
			}
		default:
			if v := bsonvalue.Field(e.Value.(bson.D), "$eq"); bsonvalue.Rank(v) != bsonvalue.RankUndefined {
				found = append(found, bson.E{Key: e.Key, Value: v})
			}
		}
	}
	return found
}

// isOperators reports whether a value is a document of operators.
func isOperators(v any) bool {
	doc, ok := v.(bson.D)
	return ok && len(doc) > 0 && strings.HasPrefix(doc[0].Key, "$")
}

// predicate is a condition on a document.
type predicate func(bson.D) bool

// parseFilter parses the conditions of a filter, all of which must hold.
func parseFilter(filter bson.D) (func(bson.D) bool, error) {
	var all []predicate
	for _, e := range filter {
		p, err := parseClause(e)
		if err != nil {
			return nil, err
		}
		all = append(all, p)
	}
	return every(all), nil
}

func every(all []predicate) func(bson.D) bool {
	return func(doc bson.D) bool {
		for _, p := range all {
			if !p(doc) {
				return false
			}
		}
		return true
	}
}

func parseClause(e bson.E) (predicate, error) {
	switch e.Key {
	case "$and", "$or", "$nor":
		return parseLogical(e)
	case "$expr":
		return parseExpr(e.Value)
	}
	if strings.HasPrefix(e.Key, "$") {
		return nil, errorf(codeBadValue, "unknown top level operator: %s. If you have a field name that starts with a '$' symbol, consider using $getField or $setField.", e.Key)
	}
	return parseField(e.Key, e.Value)
}

func parseExpr(v any) (predicate, error) {
	if err := checkExpression(v); err != nil {
		return nil, err
	}
	return func(doc bson.D) bool {
		result, err := evaluate(doc, v)
		return err == nil && truthy(result)
	}, nil
}

func parseLogical(e bson.E) (predicate, error) {
	clauses, ok := e.Value.(bson.A)
	if !ok || len(clauses) == 0 {
		return nil, errorf(codeBadValue, "%s argument must be a nonempty array", e.Key)
	}
	parts := make([]predicate, len(clauses))
	for i, clause := range clauses {
		doc, isDoc := clause.(bson.D)
		if !isDoc {
			return nil, errorf(codeBadValue, "$or/$and/$nor entries need to be full objects")
		}
		var err error
		if parts[i], err = parseFilter(doc); err != nil {
			return nil, err
		}
	}
	if e.Key == "$and" {
		return every(parts), nil
	}
	some := func(doc bson.D) bool {
		for _, p := range parts {
			if p(doc) {
				return true
			}
		}
		return false
	}
	if e.Key == "$or" {
		return some, nil
	}
	return func(doc bson.D) bool { return !some(doc) }, nil
}

// parseField parses the condition of a filter on one field.
func parseField(path string, condition any) (predicate, error) {
	test, err := parseCondition(condition)
	if err != nil {
		return nil, err
	}
	parts := strings.Split(path, ".")
	return func(doc bson.D) bool { return test(bsonvalue.Lookup(doc, parts)) }, nil
}

// condition is a test of the values that a path leads to.
type condition func([]any) bool

func parseCondition(v any) (condition, error) {
	if regex, ok := v.(primitive.Regex); ok {
		return parseRegex(regex.Pattern, regex.Options)
	}
	if !isOperators(v) {
		return anyValue(func(x any) bool { return equalOrMissing(x, v) }), nil
	}
	var all []condition
	operators := v.(bson.D)
	for _, op := range operators {
		if op.Key == "$options" && bsonvalue.Rank(bsonvalue.Field(operators, "$regex")) != bsonvalue.RankUndefined {
			continue
		}
		c, err := parseOperator(op, operators)
		if err != nil {
			return nil, err
		}
		all = append(all, c)
	}
	return func(values []any) bool {
		for _, c := range all {
			if !c(values) {
				return false
			}
		}
		return true
	}, nil
}

// equalOrMissing compares values. Null also equals a missing field.
func equalOrMissing(x, v any) bool {
	if bsonvalue.Rank(x) == bsonvalue.RankUndefined && bsonvalue.Rank(v) == bsonvalue.RankNull {
		return true
	}
	return bsonvalue.Equal(x, v)
}

// anyValue tests each value and each element of a value that is an array.
func anyValue(test func(any) bool) condition {
	return func(values []any) bool {
		for _, v := range values {
			if test(v) {
				return true
			}
			list, ok := v.(bson.A)
			if !ok {
				continue
			}
			for _, item := range list {
				if test(item) {
					return true
				}
			}
		}
		return false
	}
}

func not(c condition) condition {
	return func(values []any) bool { return !c(values) }
}

func parseOperator(op bson.E, operators bson.D) (condition, error) {
	switch op.Key {
	case "$eq":
		return anyValue(func(x any) bool { return equalOrMissing(x, op.Value) }), nil
	case "$ne":
		return anyValueNot(func(x any) bool { return equalOrMissing(x, op.Value) }), nil
	case "$gt", "$gte", "$lt", "$lte":
		return parseComparison(op), nil
	case "$in", "$nin":
		return parseIn(op)
	case "$exists":
		return parseExists(op.Value), nil
	case "$not":
		return parseNot(op.Value)
	case "$elemMatch":
		return parseElemMatch(op.Value)
	case "$size":
		return parseSize(op.Value)
	case "$all":
		return parseAll(op.Value)
	case "$type":
		return parseType(op.Value)
	case "$regex":
		return parseRegexOperator(op.Value, bsonvalue.Field(operators, "$options"))
	default:
		return nil, errorf(codeBadValue, "unknown operator: %s", op.Key)
	}
}

func anyValueNot(test func(any) bool) condition { return not(anyValue(test)) }

// parseComparison compares only values of one type, as the server does, except for the
// limits of the order of keys.
func parseComparison(op bson.E) condition {
	return anyValue(func(x any) bool {
		bound := op.Value
		if bsonvalue.Rank(x) == bsonvalue.RankUndefined {
			if bsonvalue.Rank(bound) != bsonvalue.RankNull {
				return false
			}
			x = nil
		}
		limit := bsonvalue.Rank(bound) == bsonvalue.RankMinKey || bsonvalue.Rank(bound) == bsonvalue.RankMaxKey
		if bsonvalue.Rank(x) != bsonvalue.Rank(bound) && !limit {
			return false
		}
		return holds(op.Key, x, bound)
	})
}

// holds reports whether x and bound are in the order that an operator names.
func holds(operator string, x, bound any) bool {
	if isNaN(x) != isNaN(bound) { // NaN is comparable only to itself
		return false
	}
	c := bsonvalue.Compare(x, bound)
	switch operator {
	case "$gt":
		return c > 0
	case "$gte":
		return c >= 0
	case "$lt":
		return c < 0
	default:
		return c <= 0
	}
}

func isNaN(v any) bool {
	if bsonvalue.Rank(v) != bsonvalue.RankNumber {
		return false
	}
	f := bsonvalue.Float(v)
	return f != f //nolint:gocritic // only NaN differs from itself
}

func parseIn(op bson.E) (condition, error) {
	list, ok := op.Value.(bson.A)
	if !ok {
		return nil, errorf(codeBadValue, "%s needs an array", op.Key)
	}
	texts := map[string]bool{} // there may be thousands
	any1 := []condition{anyValue(func(x any) bool { return bsonvalue.Rank(x) == bsonvalue.RankString && texts[bsonvalue.Text(x)] })}
	for _, v := range list {
		if s, isText := v.(string); isText {
			texts[s] = true
			continue
		}
		if isOperators(v) {
			return nil, errorf(codeBadValue, "cannot nest $ under %s", op.Key)
		}
		c, err := parseCondition(v)
		if err != nil {
			return nil, err
		}
		any1 = append(any1, c)
	}
	in := func(values []any) bool {
		for _, c := range any1 {
			if c(values) {
				return true
			}
		}
		return false
	}
	if op.Key == "$nin" {
		return not(in), nil
	}
	return in, nil
}

func parseExists(v any) condition {
	exists := func(values []any) bool {
		for _, x := range values {
			if bsonvalue.Rank(x) != bsonvalue.RankUndefined {
				return true
			}
		}
		return false
	}
	if truthy(v) {
		return exists
	}
	return not(exists)
}

func parseNot(v any) (condition, error) {
	if _, ok := v.(primitive.Regex); !ok && !isOperators(v) {
		return nil, errorf(codeBadValue, "$not needs a regex or a document")
	}
	c, err := parseCondition(v)
	if err != nil {
		return nil, err
	}
	return not(c), nil
}

// parseElemMatch requires one element of an array to satisfy all conditions.
func parseElemMatch(v any) (condition, error) {
	doc, ok := v.(bson.D)
	if !ok {
		return nil, errorf(codeBadValue, "$elemMatch needs an Object")
	}
	element, err := elementTest(doc)
	if err != nil {
		return nil, err
	}
	return func(values []any) bool {
		for _, value := range values {
			list, isList := value.(bson.A)
			if !isList {
				continue
			}
			for _, item := range list {
				if element(item) {
					return true
				}
			}
		}
		return false
	}, nil
}

// elementTest returns a test of an array's element: by operators on the element, or by a
// filter if it is a document.
func elementTest(doc bson.D) (func(any) bool, error) {
	if isOperators(doc) && doc[0].Key != "$and" && doc[0].Key != "$or" && doc[0].Key != "$nor" {
		c, err := parseCondition(doc)
		return func(item any) bool { return c([]any{item}) }, err
	}
	matches, err := parseFilter(doc)
	return func(item any) bool {
		d, ok := item.(bson.D)
		return ok && matches(d)
	}, err
}

func parseSize(v any) (condition, error) {
	if bsonvalue.Rank(v) != bsonvalue.RankNumber || bsonvalue.Float(v) < 0 || bsonvalue.Float(v) != float64(int(bsonvalue.Float(v))) {
		return nil, errorf(codeBadValue, "Failed to parse $size. Expected a non-negative integer in: $size: %s", show(v))
	}
	size := int(bsonvalue.Float(v))
	return func(values []any) bool {
		for _, x := range values {
			if list, ok := x.(bson.A); ok && len(list) == size {
				return true
			}
		}
		return false
	}, nil
}

func parseAll(v any) (condition, error) {
	list, ok := v.(bson.A)
	if !ok {
		return nil, errorf(codeBadValue, "$all needs an array")
	}
	all := make([]condition, len(list))
	for i, item := range list {
		if isOperators(item) && item.(bson.D)[0].Key != "$elemMatch" {
			return nil, errorf(codeBadValue, "no $ expressions in $all")
		}
		var err error
		if all[i], err = parseCondition(item); err != nil {
			return nil, err
		}
	}
	return func(values []any) bool {
		for _, c := range all {
			if !c(values) {
				return false
			}
		}
		return len(all) > 0 // an empty $all matches nothing
	}, nil
}

// typeNames are the aliases of $type and its numbers, from
// https://www.mongodb.com/docs/manual/reference/operator/query/type/.
var typeNames = map[string]int64{
	"double": 1, "string": 2, "object": 3, "array": 4, "binData": 5, "objectId": 7, "bool": 8, "date": 9,
	"null": 10, "regex": 11, "int": 16, "timestamp": 17, "long": 18, "decimal": 19, "minKey": -1, "maxKey": 127,
}

// typeName returns the alias of a value's type.
func typeName(v any) string {
	switch v.(type) {
	case float64:
		return "double"
	case int32:
		return "int"
	case int64:
		return "long"
	case primitive.Decimal128:
		return "decimal"
	}
	return rankNames[bsonvalue.Rank(v)]
}

// rankNames are the aliases of the types, except for numbers.
var rankNames = [...]string{
	bsonvalue.RankMinKey: "minKey", bsonvalue.RankUndefined: "missing", bsonvalue.RankNull: "null", bsonvalue.RankString: "string",
	bsonvalue.RankObject: "object", bsonvalue.RankArray: "array", bsonvalue.RankBinary: "binData", bsonvalue.RankObjectID: "objectId",
	bsonvalue.RankBool: "bool", bsonvalue.RankDate: "date", bsonvalue.RankTimestamp: "timestamp", bsonvalue.RankRegex: "regex",
	bsonvalue.RankPointer: "dbPointer", bsonvalue.RankCode: "javascript", bsonvalue.RankCodeWithScope: "javascriptWithScope", bsonvalue.RankMaxKey: "maxKey",
}

func parseType(v any) (condition, error) {
	list, ok := v.(bson.A)
	if !ok {
		list = bson.A{v}
	}
	wanted := map[string]bool{}
	for _, item := range list {
		names, err := typeAliases(item)
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			wanted[name] = true
		}
	}
	return anyValue(func(x any) bool { return wanted[typeName(x)] }), nil
}

func typeAliases(v any) ([]string, error) {
	if name, ok := v.(string); ok {
		if name == "number" {
			return []string{"int", "long", "double", "decimal"}, nil
		}
		if _, ok = typeNames[name]; !ok {
			return nil, errorf(codeBadValue, "Unknown type name alias: %s", name)
		}
		return []string{name}, nil
	}
	for name, number := range typeNames {
		if bsonvalue.Rank(v) == bsonvalue.RankNumber && bsonvalue.Float(v) == float64(number) {
			return []string{name}, nil
		}
	}
	return nil, errorf(codeBadValue, "Invalid numerical type code: %s", show(v))
}

func parseRegexOperator(v, opts any) (condition, error) {
	var flags string
	if bsonvalue.Rank(opts) != bsonvalue.RankUndefined {
		var ok bool
		if flags, ok = opts.(string); !ok {
			return nil, errorf(codeBadValue, "$options has to be a string")
		}
	}
	switch pattern := v.(type) {
	case string:
		return parseRegex(pattern, flags)
	case primitive.Regex:
		if flags == "" {
			flags = pattern.Options
		}
		return parseRegex(pattern.Pattern, flags)
	default:
		return nil, errorf(codeBadValue, "$regex has to be a string")
	}
}

// parseRegex compiles a pattern. Servers use PCRE; patterns outside Go's syntax are
// refused.
func parseRegex(pattern, flags string) (condition, error) {
	if strings.Trim(flags, "ims") != "" {
		return nil, errorf(codeInvalidRegex, "invalid flag in regex options: %s", flags)
	}
	expression := pattern
	if flags != "" {
		expression = "(?" + flags + ")" + pattern
	}
	re, err := regexp.Compile(expression)
	if err != nil {
		return nil, errorf(codeInvalidRegex, "Regular expression is invalid: %s", err)
	}
	return anyValue(func(x any) bool {
		switch s := x.(type) {
		case string:
			return re.MatchString(s)
		case primitive.Regex:
			return s.Pattern == pattern && s.Options == flags
		default:
			return false
		}
	}), nil
}

// truthy returns the boolean value of a value.
func truthy(v any) bool {
	switch bsonvalue.Rank(v) {
	case bsonvalue.RankUndefined, bsonvalue.RankNull:
		return false
	case bsonvalue.RankBool:
		return v.(bool)
	case bsonvalue.RankNumber:
		return bsonvalue.Float(v) != 0
	default:
		return true
	}
}
