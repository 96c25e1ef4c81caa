package mongotest_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/bson"
	"go.mongodb.org/mongo-driver/bson/primitive"

	"github.com/mongodb/amboy/internal/mongotest/codec"
)

// everyType returns a value of each type that the server may receive or send.
func everyType(t *testing.T) bson.D {
	t.Helper()
	decimal, err := primitive.ParseDecimal128("1.5")
	require.NoError(t, err)
	values := bson.A{
		nil, true, false, int32(-1), int32(math.MaxInt32), int64(math.MinInt64), 1.5, math.Inf(-1), "", "text\x00with a zero",
		primitive.NewDateTimeFromTime(time.Unix(-1, 5e6)),
		primitive.Timestamp{T: math.MaxUint32, I: 7},
		primitive.NewObjectID(),
		primitive.Binary{Data: []byte{1, 0, 2}},
		primitive.Binary{Subtype: 2, Data: []byte{1}},
		primitive.Binary{Subtype: 4, Data: make([]byte, 16)},
		primitive.Regex{Pattern: "^a", Options: "i"},
		primitive.MinKey{},
		primitive.MaxKey{},
		primitive.Undefined{},
		decimal,
		bson.D{},
		bson.A{},
		bson.D{{Key: "", Value: bson.A{bson.D{{Key: "deep", Value: int32(1)}}, nil}}},
	}
	doc := bson.D{{Key: "all of them", Value: values}}
	for i, v := range values {
		doc = append(doc, bson.E{Key: string(rune('a' + i)), Value: v})
	}
	return doc
}

func TestCodecAgreesWithTheBSONPackage(t *testing.T) {
	t.Parallel()
	all := everyType(t)
	for _, doc := range append([]bson.D{{}, all}, singles(all)...) {
		want, err := bson.Marshal(doc)
		require.NoError(t, err)
		raw, err := codec.Encode(doc)
		require.NoError(t, err)
		require.Equal(t, bson.Raw(want), raw, "%v", doc)
		got, err := codec.Decode(raw)
		require.NoError(t, err)
		require.Equal(t, doc, got)
	}
}

// singles returns documents with one element each.
func singles(doc bson.D) []bson.D {
	docs := make([]bson.D, len(doc))
	for i, e := range doc {
		docs[i] = bson.D{e}
	}
	return docs
}

func TestServerTypesAreEncodedLikeTheBSONPackage(t *testing.T) {
	t.Parallel()
	inner := bson.Raw{5, 0, 0, 0, 0}
	doc := bson.D{
		{Key: "raw", Value: inner},
		{Key: "raws", Value: []bson.Raw{inner, inner}},
		{Key: "noRaws", Value: []bson.Raw(nil)},
		{Key: "nilDocument", Value: bson.D(nil)},
		{Key: "nilArray", Value: bson.A(nil)},
		{Key: "bytes", Value: make([]byte, 20)},
		{Key: "numbers", Value: []int64{1, 2}},
		{Key: "int", Value: 7},
		{Key: "time", Value: time.Unix(1, 0)},
	}
	want, err := bson.Marshal(doc)
	require.NoError(t, err)
	raw, err := codec.Encode(doc)
	require.NoError(t, err)
	assert.Equal(t, bson.Raw(want), raw)
}

func TestMalformedDocumentsAreRefused(t *testing.T) {
	t.Parallel()
	raw, err := codec.Encode(bson.D{{Key: "a", Value: bson.D{{Key: "b", Value: "text"}}}, {Key: "c", Value: true}})
	require.NoError(t, err)
	for end := 1; end < len(raw); end++ {
		_, err = codec.Decode(raw[:end])
		require.Error(t, err, "%d bytes", end)
	}
	raw[len(raw)-2] = 7 // a boolean that is neither true nor false
	_, err = codec.Decode(raw)
	require.Error(t, err)
	_, err = codec.Encode(bson.D{{Key: "a\x00b", Value: 1}})
	require.Error(t, err)
}
