package management

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

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
	} {
		raw, err := bson.Marshal(seed)
		require.NoError(f, err)
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		plain, ok := appendPlainArgs(nil, raw)
		if !ok {
			return
		}
		args, err := storedArgs(registry.NewBody(raw, false))
		require.NoError(t, err)
		var shown bytes.Buffer
		require.NoError(t, json.Compact(&shown, args))
		assert.Equal(t, shown.String(), string(plain))
	})
}

func BenchmarkArgsPart(b *testing.B) {
	for name, value := range map[string]any{"plain": "text", "with a time": time.Now()} {
		raw, err := bson.Marshal(bson.M{"args": bson.M{"customer": 4711, "name": strings.Repeat("Ann ", 20), "value": value}})
		require.NoError(b, err)
		matches, body := JobFilter{ArgsPart: "no such text"}.body(), registry.NewBody(raw, false)
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				matches(body)
			}
		})
	}
}
