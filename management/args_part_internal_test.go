package management

import (
	"bytes"
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/bson"
	"go.mongodb.org/mongo-driver/bson/primitive"

	"github.com/mongodb/amboy/registry"
)

// What a search reads of plain arguments must be what the pages show.
func FuzzPlainArgs(f *testing.F) {
	for _, seed := range []any{
		bson.M{"args": bson.D{{Key: "a", Value: 1}, {Key: "b", Value: int64(1) << 60}, {Key: "c", Value: "x<&>\u007fé\u2027"}}},
		bson.M{"args": bson.A{true, nil, bson.D{}, bson.A{}, "e"}, "override": bson.M{"x": 1}},
		bson.M{"args": "text"},
		bson.M{"args": nil},
		bson.M{},
		bson.M{"a": bson.M{"args": 1}, "args": 2},
		bson.M{"args": bson.M{"$date": "2030-01-02T03:04:05Z"}},
		bson.M{"args": "\u2028\x00\"\\"},
		bson.M{"a\"b": "\t"},
		bson.M{"args": 1.5},
		bson.M{"args": time.Now()},
		bson.M{"args": primitive.NewObjectID()},
		bson.M{"args": []byte("abc")},
		bson.M{"outside": true, "bytes": []byte("x")},
		bson.M{"args": "\xff"},
		bson.M{"args": "a\n\r\t\"b\\"},
		bson.M{"args": "\b\f\x1f"},
		bson.M{"args": bson.A{0.0, -0.5, 1e21, 1e-7, 1 << 60, math.MaxFloat64, math.Copysign(0, -1), math.NaN(), math.Inf(1)}},
		bson.M{"args": bson.A{time.Time{}, time.UnixMilli(-1), time.UnixMilli(120), time.UnixMilli(math.MaxInt64), time.UnixMilli(math.MinInt64)}},
		bson.M{"args": primitive.Binary{Subtype: bson.TypeBinaryBinaryOld, Data: []byte("abc")}},
		bson.M{"args": primitive.Binary{Subtype: bson.TypeBinaryUUID, Data: []byte("abc")}},
		bson.M{"outside": true, "args": "x"},
		bson.M{"bytes": "x", "args": "y"},
		bson.M{"outside": true, "bytes": nil, "args": "y"},
	} {
		raw, err := bson.Marshal(seed)
		require.NoError(f, err)
		f.Add(raw)
	}
	for _, c := range []string{`"`, `\`, "\n", "\x1f", "\x7f", "é", "\u2028", "\xff"} { // text is read eight bytes at once
		for n := range 10 {
			raw, err := bson.Marshal(bson.M{"args": strings.Repeat("~", n) + c + strings.Repeat(" ", 9)})
			require.NoError(f, err)
			f.Add(raw)
		}
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		plain, ok := appendPlainArgs(nil, raw)
		if !ok {
			return
		}
		args, err := storedArgs(registry.NewBody(raw, false))
		if err != nil {
			return // such as a boolean that is neither true nor false, which no page shows
		}
		var shown bytes.Buffer
		require.NoError(t, json.Compact(&shown, args))
		assert.Equal(t, shown.String(), string(plain))
	})
}

// Most BSON is not decoded, because its bytes show that it can't contain the part. Whatever is shown must be found.
func FuzzPartsOfBSONArguments(f *testing.F) {
	id, err := primitive.ObjectIDFromHex("0123456789abcdef01234567")
	require.NoError(f, err)
	decimal, err := primitive.ParseDecimal128("1.5E+300")
	require.NoError(f, err)
	for name, value := range map[string]any{
		"text": "Ann \"the\" <b>Great</b> & co", "escapes": "a\needle\tof\rall\bad\fine\x01end\u2028\\path", "damaged": "x\xffdead",
		"Grüße": "Über\ufffd", "$key": "$date", "true": true, "null": nil, "number": 4711, "big": int64(1) << 60,
		"double": -1.5e300, "nan": math.NaN(), "infinity": math.Inf(-1), "time": time.UnixMilli(1893553445678),
		"early": time.UnixMilli(-1 << 55), "id": id, "decimal": decimal, "bytes": []byte("needle in bytes"), "": []byte("unnamed"),
		"uuid":  primitive.Binary{Subtype: bson.TypeBinaryUUID, Data: []byte("0123456789abcdef")},
		"regex": primitive.Regex{Pattern: "^needle$", Options: "xmi"}, "code": primitive.JavaScript("f(x)"),
		"scoped": primitive.CodeWithScope{Code: "g(y)", Scope: bson.M{"needle": 1}}, "symbol": primitive.Symbol("needle"),
		"timestamp": primitive.Timestamp{T: 1, I: 2}, "pointer": primitive.DBPointer{DB: "needles", Pointer: id},
		"least": primitive.MinKey{}, "most": primitive.MaxKey{}, "undefined": primitive.Undefined{},
		"date": bson.M{"$date": bson.M{"$numberLong": "1893553445678"}}, "list": bson.A{"one", 2, bson.A{}, bson.D{}},
	} {
		for _, stored := range []bson.M{{"args": value}, {name: value}, {"args": bson.M{name: value}}} {
			raw, err := bson.Marshal(stored)
			require.NoError(f, err)
			f.Add(raw)
		}
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		body := registry.NewBody(raw, false)
		args, err := storedArgs(body)
		if err != nil || len(raw) > MaxSearchedArgs {
			return
		}
		var shown bytes.Buffer
		require.NoError(t, json.Compact(&shown, args))
		text := shown.String()
		for _, size := range []int{1, 2, 3, 5, 8, 13} {
			for from := 0; from+size <= len(text); from++ {
				part := text[from : from+size]
				if utf8.ValidString(part) && !(JobFilter{ArgsPart: part}).body()(body) {
					t.Errorf("%q is not found in %s", part, text)
				}
			}
		}
	})
}

// Most JSON is not decoded, because it can't contain the part.
func TestJSONArgumentsAreFoundWhateverTheSpacesBetweenThem(t *testing.T) {
	body := registry.NewBody([]byte(` { "args" : { "A" : [ 1 , -2.5E3 , "x, y:\"Z\" " ] ,
		"b" : { } , "c" : "\u003ci\u003e" } } `), true)
	for part, want := range map[string]bool{
		`{"a":[1,-2.5e3,"X, Y:`: true,
		`x, y:"z" "]`:           false,
		`x, y:"z" `:             true,
		`],"b":{},`:             true,
		`}}`:                    false,
		`}`:                     true,
		`,`:                     true,
		` `:                     true,
		`" `:                    true,
		`" ,`:                   false,
		`<I>`:                   true,
		`a" :`:                  false,
		`1 ,`:                   false,
		`args`:                  false,
	} {
		assert.Equal(t, want, JobFilter{ArgsPart: part}.body()(body), part)
	}
}

func BenchmarkArgsPart(b *testing.B) {
	for name, value := range map[string]any{"plain": "text", "time": time.Now(), "escapes": "a \"b\"\n", "decimal": primitive.NewDecimal128(1, 2)} {
		args := bson.M{"args": bson.M{"customer": 4711, "name": strings.Repeat("Ann ", 20), "value": value}}
		raw, err := bson.Marshal(args)
		require.NoError(b, err)
		encoded, err := json.Marshal(args)
		require.NoError(b, err)
		for format, body := range map[string]registry.Body{"BSON": registry.NewBody(raw, false), "JSON": registry.NewBody(encoded, true)} {
			matches := JobFilter{ArgsPart: "no such text"}.body()
			b.Run(name+"/"+format, func(b *testing.B) {
				for b.Loop() {
					matches(body)
				}
			})
		}
	}
}
