package mongotest

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"math/big"
	"strings"

	"go.mongodb.org/mongo-driver/bson"
	"go.mongodb.org/mongo-driver/bson/primitive"
)

// The order of types, from
// https://www.mongodb.com/docs/manual/reference/bson-type-comparison-order/.
const (
	rankMinKey = iota
	rankUndefined
	rankNull
	rankNumber
	rankString
	rankObject
	rankArray
	rankBinary
	rankObjectID
	rankBool
	rankDate
	rankTimestamp
	rankRegex
	rankPointer
	rankCode
	rankCodeWithScope
	rankMaxKey
)

// rank returns the position of a value's type in the order of types.
func rank(v any) int {
	switch v.(type) {
	case primitive.MinKey:
		return rankMinKey
	case primitive.Undefined:
		return rankUndefined
	case nil, primitive.Null:
		return rankNull
	case int32, int64, float64, primitive.Decimal128:
		return rankNumber
	case string, primitive.Symbol:
		return rankString
	case bson.D:
		return rankObject
	case bson.A:
		return rankArray
	case primitive.Binary:
		return rankBinary
	case primitive.ObjectID:
		return rankObjectID
	case bool:
		return rankBool
	case primitive.DateTime:
		return rankDate
	case primitive.Timestamp:
		return rankTimestamp
	case primitive.Regex:
		return rankRegex
	case primitive.DBPointer:
		return rankPointer
	case primitive.JavaScript:
		return rankCode
	case primitive.CodeWithScope:
		return rankCodeWithScope
	case primitive.MaxKey:
		return rankMaxKey
	default:
		panic(fmt.Sprintf("mongotest: %T is not a BSON value", v))
	}
}

// compare orders two values as the server does: by type, then by value.
func compare(a, b any) int {
	switch x := a.(type) { // the most frequent types
	case string:
		if y, ok := b.(string); ok {
			return strings.Compare(x, y)
		}
	case int32:
		if y, ok := b.(int32); ok {
			return cmp.Compare(x, y)
		}
	case bool:
		if y, ok := b.(bool); ok {
			return compareBools(x, y)
		}
	case primitive.DateTime:
		if y, ok := b.(primitive.DateTime); ok {
			return cmp.Compare(x, y)
		}
	}
	if c := cmp.Compare(rank(a), rank(b)); c != 0 {
		return c
	}
	switch x := a.(type) {
	case int32, int64, float64, primitive.Decimal128:
		return compareNumbers(a, b)
	case string, primitive.Symbol:
		return strings.Compare(text(a), text(b))
	case bson.D:
		return compareDocuments(x, b.(bson.D))
	case bson.A:
		return compareArrays(x, b.(bson.A))
	case primitive.Binary:
		y := b.(primitive.Binary)
		return cmp.Or(cmp.Compare(len(x.Data), len(y.Data)), cmp.Compare(x.Subtype, y.Subtype), bytes.Compare(x.Data, y.Data))
	case primitive.ObjectID:
		y := b.(primitive.ObjectID)
		return bytes.Compare(x[:], y[:])
	case bool:
		return compareBools(x, b.(bool))
	case primitive.DateTime:
		return cmp.Compare(x, b.(primitive.DateTime))
	case primitive.Timestamp:
		return x.Compare(b.(primitive.Timestamp))
	case primitive.Regex:
		y := b.(primitive.Regex)
		return cmp.Or(strings.Compare(x.Pattern, y.Pattern), strings.Compare(x.Options, y.Options))
	default: // null, the key limits and code, whose values are not distinguished
		return strings.Compare(fmt.Sprint(a), fmt.Sprint(b))
	}
}

// undefined is the value of a missing field.
var undefined = primitive.Undefined{}

func equal(a, b any) bool { return compare(a, b) == 0 }

func text(v any) string {
	if s, ok := v.(primitive.Symbol); ok {
		return string(s)
	}
	return v.(string)
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
func compareDocuments(a, b bson.D) int {
	for i := range min(len(a), len(b)) {
		c := cmp.Or(
			cmp.Compare(rank(a[i].Value), rank(b[i].Value)),
			strings.Compare(a[i].Key, b[i].Key),
			compare(a[i].Value, b[i].Value),
		)
		if c != 0 {
			return c
		}
	}
	return cmp.Compare(len(a), len(b))
}

func compareArrays(a, b bson.A) int {
	for i := range min(len(a), len(b)) {
		if c := compare(a[i], b[i]); c != 0 {
			return c
		}
	}
	return cmp.Compare(len(a), len(b))
}

// compareNumbers compares by value, across numeric types. NaN is less than every other
// number and equal to itself.
func compareNumbers(a, b any) int {
	x, xIsInt := integer(a)
	y, yIsInt := integer(b)
	if xIsInt && yIsInt {
		return cmp.Compare(x, y)
	}
	f, g := float(a), float(b)
	if math.IsNaN(f) || math.IsNaN(g) || math.IsInf(f, 0) || math.IsInf(g, 0) {
		return cmp.Compare(f, g)
	}
	return rational(a).Cmp(rational(b))
}

// integer returns the value of a number of an integer type.
func integer(v any) (int64, bool) {
	switch n := v.(type) {
	case int32:
		return int64(n), true
	case int64:
		return n, true
	default:
		return 0, false
	}
}

// float returns the float64 nearest to a number.
func float(v any) float64 {
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
		f, _ := rational(n).Float64()
		return f
	default:
		panic(fmt.Sprintf("mongotest: %T is not a number", v))
	}
}

// rational returns the exact value of a finite number.
func rational(v any) *big.Rat {
	switch n := v.(type) {
	case float64:
		return new(big.Rat).SetFloat64(n)
	case primitive.Decimal128:
		digits, exponent, err := n.BigInt()
		if err != nil {
			panic(fmt.Sprintf("mongotest: %s is not finite", n))
		}
		scale := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(max(exponent, -exponent))), nil)
		if exponent < 0 {
			return new(big.Rat).SetFrac(digits, scale)
		}
		return new(big.Rat).SetInt(digits.Mul(digits, scale))
	default:
		i, _ := integer(v)
		return new(big.Rat).SetInt64(i)
	}
}

// keyString returns a text that two values share if they are equal, for lookups in maps.
func keyString(v any) string {
	var b strings.Builder
	writeKey(&b, v)
	return b.String()
}

func writeKey(b *strings.Builder, v any) {
	fmt.Fprintf(b, "%x:", rank(v))
	switch x := v.(type) {
	case int32, int64:
		fmt.Fprintf(b, "%d", x)
	case float64, primitive.Decimal128:
		if f := float(x); math.IsNaN(f) || math.IsInf(f, 0) {
			fmt.Fprint(b, f)
		} else {
			b.WriteString(rationalText(rational(x)))
		}
	case string, primitive.Symbol:
		fmt.Fprintf(b, "%q", text(x))
	case bson.D:
		for _, e := range x {
			fmt.Fprintf(b, "%q=", e.Key)
			writeKey(b, e.Value)
			b.WriteByte(',')
		}
		b.WriteByte('}')
	case bson.A:
		for _, e := range x {
			writeKey(b, e)
			b.WriteByte(',')
		}
		b.WriteByte(']')
	default:
		fmt.Fprintf(b, "%v", x)
	}
}

func rationalText(r *big.Rat) string {
	if r.IsInt() {
		return r.Num().String()
	}
	return r.String()
}

// show formats a value for an error message, as servers do.
func show(v any) string {
	switch x := v.(type) {
	case nil:
		return "null"
	case string:
		return fmt.Sprintf("%q", x)
	case primitive.ObjectID:
		return fmt.Sprintf("ObjectId('%s')", x.Hex())
	case primitive.DateTime:
		return fmt.Sprintf("new Date(%d)", int64(x))
	case bson.D:
		if len(x) == 0 {
			return "{}"
		}
		fields := make([]string, len(x))
		for i, e := range x {
			fields[i] = e.Key + ": " + show(e.Value)
		}
		return "{ " + strings.Join(fields, ", ") + " }"
	case bson.A:
		items := make([]string, len(x))
		for i, e := range x {
			items[i] = show(e)
		}
		return "[ " + strings.Join(items, ", ") + " ]"
	default:
		return fmt.Sprint(x)
	}
}
