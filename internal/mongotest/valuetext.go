package mongotest

import (
	"fmt"
	"math"
	"math/big"
	"strings"

	"go.mongodb.org/mongo-driver/bson"
	"go.mongodb.org/mongo-driver/bson/primitive"

	"github.com/mongodb/amboy/internal/mongotest/bsonvalue"
)

// keyString returns a text that two values share if they are equal, for lookups in maps.
func keyString(v any) string {
	var b strings.Builder
	writeKey(&b, v)
	return b.String()
}

func writeKey(b *strings.Builder, v any) {
	fmt.Fprintf(b, "%x:", bsonvalue.Rank(v))
	switch x := v.(type) {
	case int32, int64:
		fmt.Fprintf(b, "%d", x)
	case float64, primitive.Decimal128:
		if f := bsonvalue.Float(x); math.IsNaN(f) || math.IsInf(f, 0) {
			fmt.Fprint(b, f)
		} else {
			b.WriteString(rationalText(bsonvalue.Rational(x)))
		}
	case string, primitive.Symbol:
		fmt.Fprintf(b, "%q", bsonvalue.Text(x))
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
