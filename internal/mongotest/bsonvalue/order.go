package bsonvalue

import (
	"bytes"
	"fmt"
	"math"
	"math/big"
	"strings"

	"go.mongodb.org/mongo-driver/bson/primitive"
)

// The ranks of the types in the order of values, from
// https://www.mongodb.com/docs/manual/reference/bson-type-comparison-order/.
const (
	RankMinKey = iota
	RankUndefined
	RankNull
	RankNumber
	RankString
	RankObject
	RankArray
	RankBinary
	RankObjectID
	RankBool
	RankDate
	RankTimestamp
	RankRegex
	RankPointer
	RankCode
	RankCodeWithScope
	RankMaxKey
)

// Rank returns the position of a value's type in the order of types.
func Rank(v any) int {
	switch v.(type) {
	case primitive.MinKey:
		return RankMinKey
	case primitive.Undefined:
		return RankUndefined
	case nil, primitive.Null:
		return RankNull
	case int32, int64, float64, primitive.Decimal128:
		return RankNumber
	case string, primitive.Symbol:
		return RankString
	case primitive.D:
		return RankObject
	case primitive.A:
		return RankArray
	case primitive.Binary:
		return RankBinary
	case primitive.ObjectID:
		return RankObjectID
	case bool:
		return RankBool
	case primitive.DateTime:
		return RankDate
	case primitive.Timestamp:
		return RankTimestamp
	case primitive.Regex:
		return RankRegex
	case primitive.DBPointer:
		return RankPointer
	case primitive.JavaScript:
		return RankCode
	case primitive.CodeWithScope:
		return RankCodeWithScope
	case primitive.MaxKey:
		return RankMaxKey
	default:
		panic(fmt.Sprintf("bsonvalue: %T is not a BSON value", v))
	}
}

// Compare orders two values as servers do: by type, then by value. The result is negative, zero or
// positive.
func Compare(a, b any) int {
	switch x := a.(type) { // the most frequent types
	case string:
		if y, ok := b.(string); ok {
			return strings.Compare(x, y)
		}
	case int32:
		if y, ok := b.(int32); ok {
			return compareInts(int64(x), int64(y))
		}
	case bool:
		if y, ok := b.(bool); ok {
			return compareBools(x, y)
		}
	case primitive.DateTime:
		if y, ok := b.(primitive.DateTime); ok {
			return compareInts(int64(x), int64(y))
		}
	}
	if c := Rank(a) - Rank(b); c != 0 {
		return c
	}
	switch x := a.(type) {
	case int32, int64, float64, primitive.Decimal128:
		return compareNumbers(a, b)
	case string, primitive.Symbol:
		return strings.Compare(Text(a), Text(b))
	case primitive.D:
		return compareDocuments(x, b.(primitive.D))
	case primitive.A:
		return compareArrays(x, b.(primitive.A))
	case primitive.Binary:
		y := b.(primitive.Binary)
		return first(len(x.Data)-len(y.Data), int(x.Subtype)-int(y.Subtype), bytes.Compare(x.Data, y.Data))
	case primitive.ObjectID:
		y := b.(primitive.ObjectID)
		return bytes.Compare(x[:], y[:])
	case bool:
		return compareBools(x, b.(bool))
	case primitive.DateTime:
		return compareInts(int64(x), int64(b.(primitive.DateTime)))
	case primitive.Timestamp:
		return x.Compare(b.(primitive.Timestamp))
	case primitive.Regex:
		y := b.(primitive.Regex)
		return first(strings.Compare(x.Pattern, y.Pattern), strings.Compare(x.Options, y.Options))
	default: // null, the key limits and code, whose values are not distinguished
		return strings.Compare(fmt.Sprint(a), fmt.Sprint(b))
	}
}

// Missing is the value of a missing field.
var Missing = primitive.Undefined{}

// Equal reports whether two values are equal in the order of values.
func Equal(a, b any) bool { return Compare(a, b) == 0 }

// Text returns the value of a string or symbol.
func Text(v any) string {
	if s, ok := v.(primitive.Symbol); ok {
		return string(s)
	}
	return v.(string)
}

// first returns the first of some results that is not zero, or zero.
func first(results ...int) int {
	for _, c := range results {
		if c != 0 {
			return c
		}
	}
	return 0
}

func compareInts(a, b int64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	default:
		return 0
	}
}

func compareBools(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	default:
		return 1
	}
}

// compareDocuments compares field by field: type, then name, then value.
func compareDocuments(a, b primitive.D) int {
	for i := range min(len(a), len(b)) {
		c := first(Rank(a[i].Value)-Rank(b[i].Value), strings.Compare(a[i].Key, b[i].Key), Compare(a[i].Value, b[i].Value))
		if c != 0 {
			return c
		}
	}
	return len(a) - len(b)
}

func compareArrays(a, b primitive.A) int {
	for i := range min(len(a), len(b)) {
		if c := Compare(a[i], b[i]); c != 0 {
			return c
		}
	}
	return len(a) - len(b)
}

// compareNumbers compares by value, across numeric types. NaN is less than every other
// number and equal to itself.
func compareNumbers(a, b any) int {
	x, xIsInt := Integer(a)
	y, yIsInt := Integer(b)
	if xIsInt && yIsInt {
		return compareInts(x, y)
	}
	f, g := Float(a), Float(b)
	switch {
	case math.IsNaN(f) || math.IsNaN(g):
		return compareBools(!math.IsNaN(f), !math.IsNaN(g))
	case math.IsInf(f, 0) || math.IsInf(g, 0):
		return compareBools(f > g, f < g)
	}
	return Rational(a).Cmp(Rational(b))
}

// Integer returns the value of a number of an integer type.
func Integer(v any) (int64, bool) {
	switch n := v.(type) {
	case int32:
		return int64(n), true
	case int64:
		return n, true
	default:
		return 0, false
	}
}

// Float returns the float64 nearest to a number.
func Float(v any) float64 {
	switch n := v.(type) {
	case int32:
		return float64(n)
	case int64:
		return float64(n)
	case float64:
		return n
	case primitive.Decimal128:
		if n.IsNaN() {
			return math.NaN()
		}
		if sign := n.IsInf(); sign != 0 {
			return math.Inf(sign)
		}
		f, _ := Rational(n).Float64()
		return f
	default:
		panic(fmt.Sprintf("bsonvalue: %T is not a number", v))
	}
}

// Rational returns the exact value of a finite number.
func Rational(v any) *big.Rat {
	switch n := v.(type) {
	case float64:
		return new(big.Rat).SetFloat64(n)
	case primitive.Decimal128:
		digits, exponent, err := n.BigInt()
		if err != nil {
			panic(fmt.Sprintf("bsonvalue: %s is not finite", n))
		}
		scale := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(max(exponent, -exponent))), nil)
		if exponent < 0 {
			return new(big.Rat).SetFrac(digits, scale)
		}
		return new(big.Rat).SetInt(digits.Mul(digits, scale))
	default:
		i, _ := Integer(v)
		return new(big.Rat).SetInt64(i)
	}
}

// CompareKeys orders two keys of an index, of whose fields descending says which descend. A key that
// ends before they differ is equal to the other.
func CompareKeys(a, b []any, descending []bool) int {
	for i := range min(len(a), len(b)) {
		if c := Compare(a[i], b[i]); c != 0 {
			if descending[i] {
				return -c
			}
			return c
		}
	}
	return 0
}
