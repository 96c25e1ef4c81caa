package envelope_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/bson"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/codec"
	"github.com/mongodb/amboy/queue/internal/envelope"
	"github.com/mongodb/amboy/registry"
)

// plain is a codec that encodes values as they are.
type plain struct{ name, keyID string }

func (p plain) Name() string { return p.name }

func (p plain) Encode(_ codec.Field, value []byte) (string, []byte, error) {
	return p.keyID, bytes.Clone(value), nil
}

func (p plain) Decode(_ codec.Field, keyID string, encoded []byte) ([]byte, error) {
	if keyID != p.keyID {
		return nil, &codec.UnknownKeyError{Codec: p.name, KeyID: keyID}
	}
	return encoded, nil
}

// broken is a codec that fails.
type broken struct {
	plain
	err error
}

func (b broken) Encode(codec.Field, []byte) (string, []byte, error)         { return "", nil, b.fail() }
func (b broken) Decode(codec.Field, string, []byte) (value []byte, _ error) { return nil, b.fail() }

func (b broken) fail() error {
	if b.err == nil {
		panic("oops")
	}
	return b.err
}

var field = codec.Field{Queue: "q", JobID: "one", Type: "mail", Kind: codec.KindJob}

func seal(t testing.TB, c codec.Codec, body registry.Body) registry.Body {
	t.Helper()
	sealed, err := envelope.Seal(c, field, body)
	require.NoError(t, err)
	assert.True(t, sealed.IsSealed())
	return sealed
}

func TestOpenReturnsWhatWasSealed(t *testing.T) {
	doc, err := bson.Marshal(bson.M{"to": "ann"})
	require.NoError(t, err)
	for _, body := range []registry.Body{registry.NewBody([]byte(`{"to":"ann"}`), true), registry.NewBody(doc, false)} {
		c := plain{"plain", ""}
		opened, err := envelope.Open(c, field, seal(t, c, body))
		require.NoError(t, err)
		assert.Equal(t, body, opened)
	}
}

func TestOpenNamesTheCodecAndTheKeyThatAreMissing(t *testing.T) {
	sealed := seal(t, plain{"plain", "2026"}, registry.NewBody([]byte(`{}`), true))
	for want, c := range map[string]codec.Codec{
		`codec "plain" with key "2026", and its queue has no codec`:        nil,
		`codec "plain" with key "2026", and its queue has codec "another"`: plain{"another", "2026"},
		`codec "plain" of this process has no key "2026"`:                  plain{"plain", "2027"},
	} {
		_, err := envelope.Open(c, field, sealed)
		require.ErrorIs(t, err, codec.ErrKeyUnavailable)
		require.ErrorContains(t, err, want)
	}
	later := bytes.Clone(sealed.Raw())
	later[0]++
	_, err := envelope.Open(plain{"plain", "2026"}, field, registry.NewSealedBody(later))
	require.ErrorIs(t, err, codec.ErrKeyUnavailable, "the envelope of a later version")
}

func TestFailuresOfACodec(t *testing.T) {
	body := registry.NewBody([]byte(`{}`), true)
	sealed := seal(t, plain{"plain", ""}, body)
	failure := errors.New("no luck")
	failing := broken{plain{"plain", ""}, failure}
	_, err := envelope.Seal(failing, field, body)
	require.ErrorIs(t, err, failure)
	_, err = envelope.Open(failing, field, sealed)
	require.ErrorIs(t, err, failure)
	require.NotErrorIs(t, err, codec.ErrKeyUnavailable)

	var panicked *amboy.PanicError
	panicking := broken{plain{"plain", ""}, nil}
	_, err = envelope.Seal(panicking, field, body)
	require.ErrorAs(t, err, &panicked)
	_, err = envelope.Open(panicking, field, sealed)
	require.ErrorAs(t, err, &panicked)

	for want, c := range map[string]codec.Codec{
		"the name of a codec must have from 1 to 64 bytes":  plain{},
		"the name of a codec must have from 1 to 64 bytes ": plain{name: strings.Repeat("n", 65)},
		"the ID of a key must have at most 64 bytes":        plain{"plain", strings.Repeat("k", 65)},
	} {
		_, err = envelope.Seal(c, field, body)
		require.ErrorContains(t, err, want)
	}
}

func TestASealedBodyIsStoredInEitherFormat(t *testing.T) {
	sealed := seal(t, plain{"plain", "key"}, registry.NewBody([]byte(`{"to":"ann"}`), true))
	for _, f := range []amboy.Format{amboy.JSON, amboy.BSON, amboy.BSON2} {
		stored := &registry.JobInterchange{Name: "one", Type: "mail", Job: sealed, Result: &sealed}
		data, err := stored.Encode(f)
		require.NoError(t, err)
		read, err := registry.DecodeJobInterchange(data, f)
		require.NoError(t, err)
		assert.Equal(t, sealed, read.Job, f.String())
		assert.Equal(t, sealed, *read.Result, f.String())
	}
}

// No plain body is read as a sealed one, whatever it contains.
func TestAPlainBodyIsNotTakenForASealedOne(t *testing.T) {
	raw := seal(t, plain{"plain", "key"}, registry.NewBody([]byte(`{}`), true)).Raw()
	for _, value := range []any{bson.M{"sealed": raw}, bson.M{"": "sealed:" + string(raw)}} {
		data, err := bson.Marshal(bson.M{"_id": "one", "job": value})
		require.NoError(t, err)
		read, err := registry.DecodeJobInterchange(data, amboy.BSON)
		require.NoError(t, err)
		assert.False(t, read.Job.IsSealed())
	}
	other, err := bson.Marshal(bson.M{"_id": "one", "job": raw}) // binary data of the default kind
	require.NoError(t, err)
	_, err = registry.DecodeJobInterchange(other, amboy.BSON)
	require.ErrorContains(t, err, "is not that of a codec")
}

func FuzzOpen(f *testing.F) {
	encrypting, err := codec.NewAESGCM(codec.Key{ID: "key", Secret: make([]byte, codec.KeyBytes)})
	require.NoError(f, err)
	codecs := []codec.Codec{nil, plain{"plain", "key"}, encrypting}
	for _, c := range codecs[1:] {
		f.Add(seal(f, c, registry.NewBody([]byte(`{"to":"ann"}`), true)).Raw())
	}
	f.Add([]byte{})
	f.Add([]byte{1, 200, 'a'})
	f.Fuzz(func(t *testing.T, raw []byte) {
		before := bytes.Clone(raw)
		for _, c := range codecs {
			opened, err := envelope.Open(c, field, registry.NewSealedBody(raw))
			var panicked *amboy.PanicError
			require.False(t, errors.As(err, &panicked), "%v", err)
			if err != nil {
				assert.True(t, opened.IsZero())
				continue
			}
			again, err := envelope.Open(c, field, seal(t, c, opened))
			require.NoError(t, err)
			assert.Equal(t, opened.IsJSON(), again.IsJSON())
			assert.True(t, bytes.Equal(opened.Raw(), again.Raw()))
		}
		assert.Equal(t, before, raw)
	})
}
