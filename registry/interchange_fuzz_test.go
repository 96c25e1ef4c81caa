package registry_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/bson"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/dependency"
	"github.com/mongodb/amboy/registry"
)

func FuzzDecodeJobInterchangeBSON(f *testing.F) {
	for name := range goldenFiles {
		for _, line := range goldenLines(f, name) {
			var doc bson.Raw
			require.NoError(f, bson.UnmarshalExtJSON([]byte(line), true, &doc))
			f.Add([]byte(doc))
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		decodeAndResolve(t, data, amboy.BSON)
		// A correct document length lets more inputs pass the first check.
		if len(data) >= 5 {
			doc := bytes.Clone(data)
			binary.LittleEndian.PutUint32(doc, uint32(len(doc)))
			doc[len(doc)-1] = 0
			decodeAndResolve(t, doc, amboy.BSON)
		}
	})
}

func FuzzDecodeJobInterchangeJSON(f *testing.F) {
	for name := range goldenFiles {
		for _, line := range goldenLines(f, name) {
			var doc registry.JobInterchange
			require.NoError(f, bson.UnmarshalExtJSON([]byte(line), true, &doc))
			withBSON, err := doc.Encode(amboy.JSON)
			require.NoError(f, err)
			f.Add(withBSON)

			j, err := doc.Resolve(amboy.BSON)
			require.NoError(f, err)
			made, err := registry.MakeJobInterchange(j, amboy.JSON)
			require.NoError(f, err)
			withJSON, err := made.Encode(amboy.JSON)
			require.NoError(f, err)
			f.Add(withJSON)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) { decodeAndResolve(t, data, amboy.JSON) })
}

// decodeAndResolve checks that any bytes give a job or an error that names what is wrong,
// and that a decoded job can be encoded again.
func decodeAndResolve(t *testing.T, data []byte, f amboy.Format) {
	t.Helper()
	read, err := registry.DecodeJobInterchange(data, f)
	if err != nil {
		isA[*registry.MalformedError](t, err)
		return
	}
	once, err := read.Encode(f)
	require.NoError(t, err)
	again, err := registry.DecodeJobInterchange(once, f)
	require.NoError(t, err)
	twice, err := again.Encode(f)
	require.NoError(t, err)
	assert.Equal(t, once, twice)

	j, err := read.Resolve(f)
	if err != nil {
		assertTyped(t, err)
		assert.Nil(t, j)
		return
	}
	assert.Equal(t, read.JobID(), j.ID())
	made, err := registry.MakeJobInterchange(j, f)
	require.NoError(t, err)
	_, err = made.Resolve(f)
	require.NoError(t, err)
}

func assertTyped(t *testing.T, err error) {
	t.Helper()
	var (
		unknown   *registry.UnknownTypeError
		version   *registry.VersionError
		malformed *registry.MalformedError
	)
	typed := errors.As(err, &unknown) || errors.As(err, &version) || errors.As(err, &malformed) ||
		errors.Is(err, dependency.ErrUnknownType)
	assert.True(t, typed, "untyped error: %v", err)
}
