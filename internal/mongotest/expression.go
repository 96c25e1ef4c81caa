package mongotest

import (
	"math"
	"slices"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/bson"
	"go.mongodb.org/mongo-driver/bson/primitive"

	"github.com/mongodb/amboy/internal/mongotest/bsonvalue"
)

// expressionOperator computes a value from its arguments.
type expressionOperator struct {
	least, most int
	run         func(args []any) (any, error)
}

const unbounded = math.MaxInt

// expressionOperators are the operators that need only the values of their arguments.
// See https://www.mongodb.com/docs/manual/reference/operator/aggregation/.
var expressionOperators = map[string]expressionOperator{
	"$eq":     {2, 2, compared(func(c int) bool { return c == 0 })},
	"$ne":     {2, 2, compared(func(c int) bool { return c != 0 })},
	"$gt":     {2, 2, compared(func(c int) bool { return c > 0 })},
	"$gte":    {2, 2, compared(func(c int) bool { return c >= 0 })},
	"$lt":     {2, 2, compared(func(c int) bool { return c < 0 })},
	"$lte":    {2, 2, compared(func(c int) bool { return c <= 0 })},
	"$and":    {0, unbounded, func(args []any) (any, error) { return !slices.ContainsFunc(args, falsy), nil }},
	"$or":     {0, unbounded, func(args []any) (any, error) { return slices.ContainsFunc(args, truthy), nil }},
	"$not":    {1, 1, func(args []any) (any, error) { return falsy(args[0]), nil }},
	"$cond":   {3, 3, cond},
	"$ifNull": {2, unbounded, ifNull},
	"$in":     {2, 2, in},
	"$size":   {1, 1, sizeOf},
	"$concat": {0, unbounded, concat},

	"$arrayElemAt":  {2, 2, arrayElement},
	"$indexOfArray": {2, 2, indexOfArray},

	"$type":     {1, 1, func(args []any) (any, error) { return typeName(args[0]), nil }},
	"$add":      {0, unbounded, fold(int32(0), add)},
	"$multiply": {0, unbounded, fold(int32(1), multiply)},
	"$floor":    {1, 1, floor},
	"$subtract": {2, 2, func(args []any) (any, error) { return subtract(args[0], args[1]) }},
	"$min":      {1, unbounded, func(args []any) (any, error) { return extreme("$min", args), nil }},
	"$max":      {1, unbounded, func(args []any) (any, error) { return extreme("$max", args), nil }},
}

func falsy(v any) bool { return !truthy(v) }

// checkExpression refuses an expression with an unsupported operator or variable.
func checkExpression(v any) error {
	switch x := v.(type) {
	case string:
		if strings.HasPrefix(x, "$$") && variable(nil, x) == nil {
			return errorf(17276, "Use of undefined variable: %s", strings.TrimPrefix(x, "$$"))
		}
	case bson.A:
		for _, item := range x {
			if err := checkExpression(item); err != nil {
				return err
			}
		}
	case bson.D:
		if !isOperators(x) {
			return checkFields(x)
		}
		return checkOperator(x)
	}
	return nil
}

func checkFields(doc bson.D) error {
	for _, e := range doc {
		if err := checkExpression(e.Value); err != nil {
			return err
		}
	}
	return nil
}

func checkOperator(doc bson.D) error {
	if len(doc) != 1 {
		return errorf(15983, "An object representing an expression must have exactly one field: %s", show(doc))
	}
	if doc[0].Key == "$literal" {
		return nil
	}
	op, ok := expressionOperators[doc[0].Key]
	if !ok {
		return errorf(codeUnknownExpression, "Unrecognized expression '%s'", doc[0].Key)
	}
	args, err := arguments(doc[0])
	if err != nil {
		return err
	}
	if len(args) < op.least || len(args) > op.most {
		return errorf(16020, "Expression %s takes between %d and %d arguments. %d were passed in.", doc[0].Key, op.least, op.most, len(args))
	}
	for _, arg := range args {
		if err := checkExpression(arg); err != nil {
			return err
		}
	}
	return nil
}

// arguments returns the arguments of an operator: an array or a single one. $cond may
// name its arguments.
func arguments(op bson.E) ([]any, error) {
	if list, ok := op.Value.(bson.A); ok {
		return list, nil
	}
	doc, ok := op.Value.(bson.D)
	if op.Key != "$cond" || !ok {
		return []any{op.Value}, nil
	}
	args := []any{bsonvalue.Field(doc, "if"), bsonvalue.Field(doc, "then"), bsonvalue.Field(doc, "else")}
	if len(doc) != 3 || slices.ContainsFunc(args, func(v any) bool { return bsonvalue.Rank(v) == bsonvalue.RankUndefined }) {
		return nil, errorf(17080, "$cond needs 'if', 'then' and 'else' and nothing else: %s", show(doc))
	}
	return args, nil
}

// evaluate computes an expression that checkExpression has accepted. A missing field is
// undefined.
func evaluate(doc bson.D, v any) (any, error) {
	switch x := v.(type) {
	case string:
		return evaluatePath(doc, x), nil
	case bson.A:
		list := make(bson.A, len(x))
		for i, item := range x {
			value, err := evaluate(doc, item)
			if err != nil {
				return nil, err
			}
			list[i] = known(value)
		}
		return list, nil
	case bson.D:
		if isOperators(x) {
			return evaluateOperator(doc, x[0])
		}
		result := bson.D{}
		for _, e := range x {
			value, err := evaluate(doc, e.Value)
			if err != nil {
				return nil, err
			}
			if bsonvalue.Rank(value) != bsonvalue.RankUndefined {
				result = append(result, bson.E{Key: e.Key, Value: value})
			}
		}
		return result, nil
	default:
		return v, nil
	}
}

func evaluateOperator(doc bson.D, op bson.E) (any, error) {
	if op.Key == "$literal" {
		return op.Value, nil
	}
	exprs, err := arguments(op)
	if err != nil {
		return nil, err
	}
	args := make([]any, len(exprs))
	for i, expr := range exprs {
		if args[i], err = evaluate(doc, expr); err != nil {
			return nil, err
		}
	}
	if len(args) == 1 && (op.Key == "$min" || op.Key == "$max") {
		if list, ok := args[0].(bson.A); ok {
			args = list
		}
	}
	return expressionOperators[op.Key].run(args)
}

func evaluatePath(doc bson.D, text string) any {
	switch {
	case strings.HasPrefix(text, "$$"):
		return variable(doc, text)
	case strings.HasPrefix(text, "$"):
		return fieldPath(doc, strings.Split(text[1:], "."))
	default:
		return text
	}
}

// variable returns the value of a variable, or nil if it does not exist.
func variable(doc bson.D, text string) any {
	switch text {
	case "$$ROOT", "$$CURRENT":
		return doc
	case "$$NOW":
		return primitive.NewDateTimeFromTime(time.Now())
	case "$$REMOVE":
		return bsonvalue.Missing
	default:
		return nil
	}
}

// fieldPath returns the value of a field path. For an array on the path it returns an
// array of the values in its documents.
func fieldPath(v any, path []string) any {
	if len(path) == 0 {
		return v
	}
	switch x := v.(type) {
	case bson.D:
		return fieldPath(bsonvalue.Field(x, path[0]), path[1:])
	case bson.A:
		list := bson.A{}
		for _, item := range x {
			if value := fieldPath(item, path); bsonvalue.Rank(value) != bsonvalue.RankUndefined {
				list = append(list, value)
			}
		}
		return list
	default:
		return bsonvalue.Missing
	}
}

func compared(holds func(c int) bool) func([]any) (any, error) {
	return func(args []any) (any, error) { return holds(bsonvalue.Compare(args[0], args[1])), nil }
}

func cond(args []any) (any, error) {
	if truthy(args[0]) {
		return args[1], nil
	}
	return args[2], nil
}

func ifNull(args []any) (any, error) {
	for _, v := range args {
		if known(v) != nil {
			return v, nil
		}
	}
	return args[len(args)-1], nil
}

func in(args []any) (any, error) {
	list, ok := args[1].(bson.A)
	if !ok {
		return nil, errorf(40081, "$in requires an array as a second argument, found: %s", typeName(args[1]))
	}
	return slices.ContainsFunc(list, func(v any) bool { return bsonvalue.Equal(v, args[0]) }), nil
}

// arrayElement returns an element of an array, counted from its end if the index is negative.
// There is none beyond its ends.
func arrayElement(args []any) (any, error) {
	if known(args[0]) == nil || known(args[1]) == nil {
		return nil, nil
	}
	list, ok := args[0].(bson.A)
	if !ok {
		return nil, errorf(28689, "$arrayElemAt's first argument must be an array, but is %s", typeName(args[0]))
	}
	i, ok := bsonvalue.Integer(args[1])
	if !ok {
		return nil, errorf(28690, "$arrayElemAt's second argument must be a numeric value, but is %s", typeName(args[1]))
	}
	if i < 0 {
		i += int64(len(list))
	}
	if i < 0 || i >= int64(len(list)) {
		return bsonvalue.Missing, nil
	}
	return list[i], nil
}

// indexOfArray returns the index of the first element that equals a value, or -1.
func indexOfArray(args []any) (any, error) {
	if known(args[0]) == nil {
		return nil, nil
	}
	list, ok := args[0].(bson.A)
	if !ok {
		return nil, errorf(40090, "$indexOfArray requires an array as a first argument, found: %s", typeName(args[0]))
	}
	return int32(slices.IndexFunc(list, func(v any) bool { return bsonvalue.Equal(v, args[1]) })), nil
}

func sizeOf(args []any) (any, error) {
	list, ok := args[0].(bson.A)
	if !ok {
		return nil, errorf(17124, "The argument to $size must be an array, but was of type: %s", typeName(args[0]))
	}
	return int32(len(list)), nil
}

func concat(args []any) (any, error) {
	var b strings.Builder
	for _, v := range args {
		if known(v) == nil {
			return nil, nil
		}
		s, ok := v.(string)
		if !ok {
			return nil, errorf(16702, "$concat only supports strings, not %s", typeName(v))
		}
		b.WriteString(s)
	}
	return b.String(), nil
}

// fold combines all arguments. The result is null if one of them is null or missing.
func fold(start any, op func(a, b any) (any, error)) func([]any) (any, error) {
	return func(args []any) (any, error) {
		result := start
		for _, v := range args {
			if known(v) == nil {
				return nil, nil
			}
			var err error
			if result, err = op(result, v); err != nil {
				return nil, err
			}
		}
		return result, nil
	}
}

// add adds numbers, or milliseconds to a date.
func add(a, b any) (any, error) {
	if date, ok := b.(primitive.DateTime); ok {
		a, b = date, a
	}
	if date, ok := a.(primitive.DateTime); ok && bsonvalue.Rank(b) == bsonvalue.RankNumber {
		return date + primitive.DateTime(math.Round(bsonvalue.Float(b))), nil
	}
	return arithmetic(a, b, func(x, y int64) (int64, bool) {
		sum := x + y
		return sum, (sum > x) == (y > 0)
	}, func(x, y float64) float64 { return x + y })
}

// subtract subtracts numbers, milliseconds from a date, or two dates.
func subtract(a, b any) (any, error) {
	if known(a) == nil || known(b) == nil {
		return nil, nil
	}
	date, isDate := a.(primitive.DateTime)
	if other, ok := b.(primitive.DateTime); ok && isDate {
		return int64(date - other), nil
	}
	if isDate && bsonvalue.Rank(b) == bsonvalue.RankNumber {
		return date - primitive.DateTime(math.Round(bsonvalue.Float(b))), nil
	}
	return arithmetic(a, b, func(x, y int64) (int64, bool) {
		d := x - y
		return d, (d < x) == (y > 0)
	}, func(x, y float64) float64 { return x - y })
}

func multiply(a, b any) (any, error) {
	return arithmetic(a, b, func(x, y int64) (int64, bool) {
		p := x * y
		return p, x == 0 || p/x == y && (x != -1 || y != math.MinInt64)
	}, func(x, y float64) float64 { return x * y })
}

// floor keeps the type of its argument.
func floor(args []any) (any, error) {
	switch v := args[0].(type) {
	case float64:
		return math.Floor(v), nil
	case int32, int64:
		return v, nil
	default:
		if known(v) == nil {
			return nil, nil
		}
		return nil, errorf(codeTypeMismatch, "$floor needs a number, not %s", typeName(v))
	}
}

// arithmetic computes in the wider of two numeric types: int, long, double.
func arithmetic(a, b any, whole func(x, y int64) (int64, bool), inexact func(x, y float64) float64) (any, error) {
	if bsonvalue.Rank(a) != bsonvalue.RankNumber || bsonvalue.Rank(b) != bsonvalue.RankNumber {
		return nil, errorf(codeTypeMismatch, "arithmetic needs numbers, not %s and %s", typeName(a), typeName(b))
	}
	for _, v := range []any{a, b} {
		if _, ok := v.(primitive.Decimal128); ok {
			return nil, errorf(codeBadValue, "mongotest does not support arithmetic with decimals")
		}
	}
	x, xIsInt := bsonvalue.Integer(a)
	y, yIsInt := bsonvalue.Integer(b)
	if !xIsInt || !yIsInt {
		return inexact(bsonvalue.Float(a), bsonvalue.Float(b)), nil
	}
	result, fits := whole(x, y)
	if !fits {
		return nil, errorf(codeBadValue, "integer overflow computing with %d and %d", x, y)
	}
	_, aIsLong := a.(int64)
	_, bIsLong := b.(int64)
	if aIsLong || bIsLong || result > math.MaxInt32 || result < math.MinInt32 {
		return result, nil
	}
	return int32(result), nil
}
