package codec_test

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/codec"
)

var field = codec.Field{Queue: "tenant", JobID: "one", Type: "mail", Kind: codec.KindJob}

func key(id string) codec.Key {
	return codec.Key{ID: id, Secret: bytes.Repeat([]byte(id[:1]), codec.KeyBytes)}
}

func newAESGCM(t testing.TB, first codec.Key, others ...codec.Key) *codec.AESGCM {
	t.Helper()
	c, err := codec.NewAESGCM(first, others...)
	require.NoError(t, err)
	return c
}

func TestAESGCMDecodesWhatItEncoded(t *testing.T) {
	c := newAESGCM(t, key("a"))
	for _, plain := range []string{"", "secret", strings.Repeat("long ", 10_000)} {
		id, encoded, err := c.Encode(field, []byte(plain))
		require.NoError(t, err)
		assert.Equal(t, "a", id)
		assert.Len(t, encoded, len(plain)+40)
		decoded, err := c.Decode(field, id, encoded)
		require.NoError(t, err)
		assert.Equal(t, plain, string(decoded))
	}
}

func TestAESGCMEncodesTheSameValueDifferently(t *testing.T) {
	c := newAESGCM(t, key("a"))
	_, first, err := c.Encode(field, []byte("secret"))
	require.NoError(t, err)
	_, second, err := c.Encode(field, []byte("secret"))
	require.NoError(t, err)
	assert.NotEqual(t, first, second)
	assert.NotContains(t, string(first), "secret")
}

func TestAESGCMKeysAreRotated(t *testing.T) {
	before := newAESGCM(t, key("a"))
	during := newAESGCM(t, key("b"), key("a"))
	after := newAESGCM(t, key("b"))
	id, old, err := before.Encode(field, []byte("secret"))
	require.NoError(t, err)
	decoded, err := during.Decode(field, id, old)
	require.NoError(t, err)
	assert.Equal(t, "secret", string(decoded))
	id, _, err = during.Encode(field, decoded)
	require.NoError(t, err)
	assert.Equal(t, "b", id)
	_, err = after.Decode(field, "a", old)
	require.ErrorIs(t, err, codec.ErrKeyUnavailable)
	var unknown *codec.UnknownKeyError
	require.ErrorAs(t, err, &unknown)
	assert.Equal(t, codec.UnknownKeyError{Codec: "xaes-256-gcm", KeyID: "a"}, *unknown)
	require.ErrorContains(t, err, `codec "xaes-256-gcm" of this process has no key "a"`)
}

func TestAESGCMRefusesWhatWasChangedOrMoved(t *testing.T) {
	c := newAESGCM(t, key("a"), key("b"))
	id, encoded, err := c.Encode(field, []byte("secret"))
	require.NoError(t, err)
	refused := func(t *testing.T, f codec.Field, id string, encoded []byte) {
		t.Helper()
		plain, err := c.Decode(f, id, encoded)
		require.Error(t, err)
		require.NotErrorIs(t, err, codec.ErrKeyUnavailable)
		assert.Nil(t, plain)
	}
	for i := range encoded {
		changed := bytes.Clone(encoded)
		changed[i] ^= 1
		refused(t, field, id, changed)
		refused(t, field, id, encoded[:i])
	}
	refused(t, field, "b", encoded)
	for name, change := range map[string]func(*codec.Field){
		"another queue": func(f *codec.Field) { f.Queue = "other" },
		"another job":   func(f *codec.Field) { f.JobID = "two" },
		"another type":  func(f *codec.Field) { f.Type = "erase" },
		"another kind":  func(f *codec.Field) { f.Kind = codec.KindResult },
		"shifted parts": func(f *codec.Field) { f.Queue, f.JobID = "tenanto", "ne" },
	} {
		t.Run(name, func(t *testing.T) {
			moved := field
			change(&moved)
			refused(t, moved, id, encoded)
		})
	}
	_, err = c.Decode(field, id, append(bytes.Clone(encoded), 0))
	require.EqualError(t, err, `decrypting with key "a": the encrypted data was changed, or belongs to another job, queue, type or field`)
}

func TestNewAESGCMRefusesBadKeys(t *testing.T) {
	short := codec.Key{ID: "short", Secret: make([]byte, 16)}
	for name, test := range map[string]struct {
		keys []codec.Key
		err  string
	}{
		"no ID":        {[]codec.Key{{Secret: make([]byte, 32)}}, "ID of a key must have from 1 to 64 bytes (has 0)"},
		"long ID":      {[]codec.Key{{ID: strings.Repeat("a", 65), Secret: make([]byte, 32)}}, "ID of a key must have from 1 to 64 bytes (has 65)"},
		"short secret": {[]codec.Key{key("a"), short}, `Secret of key "short" must have 32 bytes (has 16)`},
		"one ID twice": {[]codec.Key{key("a"), key("b"), key("a")}, `ID of a key must be unique (two have "a")`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := codec.NewAESGCM(test.keys[0], test.keys[1:]...)
			require.EqualError(t, err, "making an AES-GCM codec: "+test.err)
		})
	}
}

func TestAKeyDoesNotPrintItsSecret(t *testing.T) {
	k := codec.Key{ID: "a", Secret: []byte("SECRET")}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		text := fmt.Sprintf(verb+verb, k, &k)
		assert.NotContains(t, text, "SECRET", verb)
		assert.NotContains(t, strings.ToLower(text), hex.EncodeToString(k.Secret), verb)
		assert.NotContains(t, text, "83", verb) // S
	}
	var log bytes.Buffer
	slog.New(slog.NewJSONHandler(&log, nil)).Info("read a key", "key", k)
	assert.Contains(t, log.String(), `"key":"a"}`)
}

func BenchmarkAESGCM(b *testing.B) {
	c := newAESGCM(b, key("a"))
	plain := bytes.Repeat([]byte("x"), 1<<10)
	b.Run("encode 1 KiB", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, _, err := c.Encode(field, plain); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("decode 1 KiB", func(b *testing.B) {
		_, encoded, err := c.Encode(field, plain)
		require.NoError(b, err)
		b.ReportAllocs()
		for b.Loop() {
			if _, err := c.Decode(field, "a", encoded); err != nil {
				b.Fatal(err)
			}
		}
	})
}
