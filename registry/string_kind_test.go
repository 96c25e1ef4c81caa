package registry_test

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/bson"
	"go.mongodb.org/mongo-driver/bson/bsontype"
	"go.mongodb.org/mongo-driver/x/bsonx/bsoncore"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/job"
	"github.com/mongodb/amboy/registry"
)

// The types below are all string kinds. Types with "ID" in their name hold the 12 raw
// bytes of an ObjectID. None of their UnmarshalBSONValue methods checks the type of the
// stored value.
type (
	plainID   string // no methods
	valueID   string // marshals with a value receiver
	pointerID string // marshals with a pointer receiver
	readOnly  string // only unmarshals
	writeOnly string // only marshals
	documentT string // marshals as a document
	reversed  string // marshals as another string
)

func (id valueID) MarshalBSONValue() (bsontype.Type, []byte, error) {
	return bson.TypeObjectID, []byte(id), nil
}

func (id *valueID) UnmarshalBSONValue(_ bsontype.Type, raw []byte) error {
	*id = valueID(raw)
	return nil
}

func (id valueID) MarshalJSON() ([]byte, error) { return json.Marshal(hex.EncodeToString([]byte(id))) }

func (id *valueID) UnmarshalJSON(data []byte) error {
	text, err := unhex(data)
	*id = valueID(text)
	return err
}

func (id *pointerID) MarshalBSONValue() (bsontype.Type, []byte, error) {
	if id == nil {
		return bson.TypeNull, nil, nil // The Mongo driver calls the method for a nil pointer too.
	}
	return bson.TypeObjectID, []byte(*id), nil
}

func (id *pointerID) UnmarshalBSONValue(_ bsontype.Type, raw []byte) error {
	*id = pointerID(raw)
	return nil
}

func (s *readOnly) UnmarshalBSONValue(_ bsontype.Type, raw []byte) error {
	text, _, ok := bsoncore.ReadString(raw)
	if !ok {
		return errors.New("it is not a string")
	}
	*s = readOnly(strings.ToLower(text))
	return nil
}

func (s writeOnly) MarshalBSONValue() (bsontype.Type, []byte, error) {
	return bson.TypeString, bsoncore.AppendString(nil, strings.ToUpper(string(s))), nil
}

func (s documentT) MarshalBSON() ([]byte, error) { return bson.Marshal(bson.M{"text": string(s)}) }

func (s *documentT) UnmarshalBSON(data []byte) error {
	*s = documentT(bson.Raw(data).Lookup("text").StringValue())
	return nil
}

func (s reversed) MarshalBSONValue() (bsontype.Type, []byte, error) {
	return bson.TypeString, bsoncore.AppendString(nil, reverse(string(s))), nil
}

func (s *reversed) UnmarshalBSONValue(t bsontype.Type, raw []byte) error {
	text, _, ok := bsoncore.ReadString(raw)
	if t != bson.TypeString || !ok {
		return fmt.Errorf("a %s is not a string", t)
	}
	*s = reversed(reverse(text))
	return nil
}

func unhex(data []byte) ([]byte, error) {
	var text string
	if err := json.Unmarshal(data, &text); err != nil {
		return nil, err
	}
	return hex.DecodeString(text)
}

func reverse(s string) string {
	var out strings.Builder
	for i := len(s) - 1; i >= 0; i-- {
		out.WriteByte(s[i])
	}
	return out.String()
}

// stringKinds has a string kind in every place in which a job can have one.
type stringKinds[T ~string] struct {
	Field   T            `bson:"field" json:"field"`
	Pointer *T           `bson:"pointer" json:"pointer"`
	Nil     *T           `bson:"nil" json:"nil"`
	Slice   []T          `bson:"slice" json:"slice"`
	Array   [1]T         `bson:"array" json:"array"`
	Map     map[string]T `bson:"map" json:"map"`
	Inner   struct {
		Field T `bson:"field" json:"field"`
	} `bson:"inner" json:"inner"`

	job.Base `bson:"job_base" json:"job_base"`
}

func (*stringKinds[T]) Run(context.Context) {}

// fill sets all places except Nil.
func (j *stringKinds[T]) fill(value T) {
	j.Field, j.Pointer, j.Slice, j.Array = value, &value, []T{value, value}, [1]T{value}
	j.Map, j.Inner.Field = map[string]T{"key": value}, value
}

// places are the places that fill sets, as paths for bson.Raw.Lookup.
var places = [][]string{{"field"}, {"pointer"}, {"slice", "0"}, {"slice", "1"}, {"array", "0"}, {"map", "key"}, {"inner", "field"}}

// rawID is not valid UTF-8, like most ObjectIDs.
const rawID = "\x5f\x8a\xff\x01\x00\xfe\x22\x5c\x80\x90\xa0\xb0"

// makeStringKinds returns a job of a new type with a value in every place.
func makeStringKinds[T ~string](t *testing.T, value T) *stringKinds[T] {
	t.Helper()
	name := newType()
	create := func() *stringKinds[T] {
		return &stringKinds[T]{Base: job.Base{JobType: amboy.JobType{Name: name, Version: 1}}}
	}
	require.NoError(t, registry.RegisterJobType(name, func() amboy.Job { return create() }))
	j := create()
	j.SetID("job")
	j.fill(value)
	return j
}

// asLegacy returns the stored form of a job as the legacy library wrote it in the format
// BSON: string kinds are plain strings.
func asLegacy[T ~string](t *testing.T, j *stringKinds[T]) *registry.JobInterchange {
	t.Helper()
	stored, err := registry.MakeJobInterchange(j, amboy.BSON)
	require.NoError(t, err)
	text := string(j.Field)
	raw, err := bson.Marshal(bson.D{
		{Key: "field", Value: text},
		{Key: "pointer", Value: text},
		{Key: "nil", Value: nil},
		{Key: "slice", Value: bson.A{text, text}},
		{Key: "array", Value: bson.A{text}},
		{Key: "map", Value: bson.M{"key": text}},
		{Key: "inner", Value: bson.M{"field": text}},
		{Key: "job_base", Value: bson.Raw(stored.Raw()).Lookup("job_base")},
	})
	require.NoError(t, err)
	stored.Job = registry.NewBody(raw, false)
	return stored
}

func assertStringKinds[T ~string](t *testing.T, want, got amboy.Job) {
	t.Helper()
	wanted, read := want.(*stringKinds[T]), got.(*stringKinds[T])
	assert.Equal(t, wanted.Field, read.Field)
	assert.Equal(t, wanted.Pointer, read.Pointer)
	assert.Nil(t, read.Nil)
	assert.Equal(t, wanted.Slice, read.Slice)
	assert.Equal(t, wanted.Array, read.Array)
	assert.Equal(t, wanted.Map, read.Map)
	assert.Equal(t, wanted.Inner, read.Inner)
}

func TestLegacyStringIsDecodedAsItIs(t *testing.T) {
	t.Run("no methods", func(t *testing.T) { testLegacyString(t, plainID(rawID), formats...) })
	t.Run("value receiver", func(t *testing.T) { testLegacyString(t, valueID(rawID), formats...) })
	t.Run("empty", func(t *testing.T) { testLegacyString(t, valueID(""), formats...) })
	t.Run("pointer receiver", func(t *testing.T) { testLegacyString(t, pointerID(rawID), formats...) })
	t.Run("document", func(t *testing.T) { testLegacyString(t, documentT("text"), formats...) })
	t.Run("only marshals", func(t *testing.T) { testLegacyString(t, writeOnly("text"), formats...) })
	// Both formats store these as a string. The format of the queue decides how it is read.
	t.Run("only unmarshals", func(t *testing.T) { testLegacyString(t, readOnly("Text"), amboy.BSON, amboy.JSON) })
	t.Run("another string", func(t *testing.T) { testLegacyString(t, reversed("text"), amboy.BSON, amboy.JSON) })
}

func testLegacyString[T ~string](t *testing.T, value T, readers ...amboy.Format) {
	t.Helper()
	j := makeStringKinds(t, value)
	stored := asLegacy(t, j)
	for _, f := range readers {
		got, err := stored.Resolve(f)
		require.NoError(t, err, "%s", f)
		assertStringKinds[T](t, j, got)

		again, err := registry.MakeJobInterchange(got, amboy.BSON)
		require.NoError(t, err)
		require.NoError(t, bson.Raw(again.Raw()).Validate())
		for _, place := range append(places, []string{"nil"}) {
			assert.Equal(t, bson.Raw(stored.Raw()).Lookup(place...), bson.Raw(again.Raw()).Lookup(place...), "%s", place)
		}
	}
}

func TestStringKindRoundTrip(t *testing.T) {
	t.Run("no methods", func(t *testing.T) { testStringKind(t, plainID("plain ID"), bson.TypeString, bson.TypeString) })
	t.Run("value receiver", func(t *testing.T) { testStringKind(t, valueID(rawID), bson.TypeObjectID, bson.TypeObjectID) })
	// The Mongo driver calls no method with a pointer receiver on a value of a map.
	t.Run("pointer receiver", func(t *testing.T) { testStringKind(t, pointerID("12 raw bytes"), bson.TypeObjectID, bson.TypeString) })
	t.Run("only unmarshals", func(t *testing.T) { testStringKind(t, readOnly("text"), bson.TypeString, bson.TypeString) })
	t.Run("only marshals", func(t *testing.T) { testStringKind(t, writeOnly("TEXT"), bson.TypeString, bson.TypeString) })
	t.Run("document", func(t *testing.T) {
		testStringKind(t, documentT("text"), bson.TypeEmbeddedDocument, bson.TypeEmbeddedDocument)
	})
	t.Run("another string", func(t *testing.T) { testStringKind(t, reversed("text"), bson.TypeString, bson.TypeString) })
}

// testStringKind stores a value in all formats. In BSON it must be a plain string, and in
// BSON2 it must have the given types.
func testStringKind[T ~string](t *testing.T, value T, bson2, bson2InMap bsontype.Type) {
	t.Helper()
	j := makeStringKinds(t, value)
	for _, f := range formats {
		t.Run(f.String(), func(t *testing.T) {
			assertStringKinds[T](t, j, roundTrip(t, j, f))
			stored, err := registry.MakeJobInterchange(j, f)
			require.NoError(t, err)
			if f == amboy.JSON {
				return
			}
			require.NoError(t, bson.Raw(stored.Raw()).Validate())
			for _, place := range places {
				want := bson.TypeString
				switch {
				case f == amboy.BSON2 && place[0] == "map":
					want = bson2InMap
				case f == amboy.BSON2:
					want = bson2
				}
				found := bson.Raw(stored.Raw()).Lookup(place...)
				assert.Equal(t, want, found.Type, "%s", place)
				if f == amboy.BSON {
					assert.Equal(t, string(value), found.StringValue(), "%s", place)
				}
			}
		})
	}
}

// A queue's format may be changed from BSON2 to BSON while jobs are stored.
func TestBSON2DocumentOfAStringKindIsReadAsBSON(t *testing.T) {
	for _, f := range []amboy.Format{amboy.BSON, amboy.JSON} {
		j := makeStringKinds(t, valueID(rawID))
		stored, err := registry.MakeJobInterchange(j, amboy.BSON2)
		require.NoError(t, err)
		got, err := stored.Resolve(f)
		require.NoError(t, err)
		assertStringKinds[valueID](t, j, got)
	}
}

func TestUpgradeSetsAStringKind(t *testing.T) {
	for _, f := range formats {
		j := makeStringKinds(t, reversed("old"))
		stored, err := registry.MakeJobInterchange(j, f)
		require.NoError(t, err)
		require.NoError(t, registry.AddJobUpgrade(j.Type().Name, 0, func(body map[string]any) error {
			body["field"] = reversed("text")
			return nil
		}))
		stored.Version = 0
		got, err := stored.Resolve(f)
		require.NoError(t, err)
		assert.Equal(t, reversed("text"), got.(*stringKinds[reversed]).Field, "%s", f)
		assert.Equal(t, []reversed{"old", "old"}, got.(*stringKinds[reversed]).Slice, "%s", f)
	}
}

// The legacy library has no typed jobs and no results, so their types' methods are called:
// those of JSON by default, those of BSON under BSON2.
func TestTypedJobKeepsMethodsOfAStringKind(t *testing.T) {
	type args struct {
		ID     valueID  `bson:"id" json:"id"`
		Secret reversed `bson:"secret" json:"secret"`
	}
	definition := job.DefineResult(newType(), 1, func(context.Context, args) (reversed, error) { return "result", nil })
	want := args{ID: rawID, Secret: "text"}
	for _, f := range formats {
		t.Run(f.String(), func(t *testing.T) {
			j, err := definition.New(want, job.ID("typed"))
			require.NoError(t, err)
			require.NoError(t, amboy.RunJob(t.Context(), j))
			got := roundTrip(t, j, f)
			assert.Equal(t, want, got.(amboy.ArgsJob).Args())
			result, err := definition.ResultOf(got)
			require.NoError(t, err)
			assert.Equal(t, reversed("result"), result)

			stored, err := registry.MakeJobInterchange(j, f)
			require.NoError(t, err)
			if f == amboy.BSON2 {
				assert.Equal(t, "txet", bson.Raw(stored.Raw()).Lookup("args", "secret").StringValue())
				assert.Equal(t, "tluser", bson.Raw(stored.Result.Raw()).Lookup("value").StringValue())
			}
		})
	}
}
