package names_test

import (
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/management"
	"github.com/mongodb/amboy/rest/internal/names"
)

func TestEncode(t *testing.T) {
	for name, segment := range map[string]string{
		"":       "_",
		"_":      "__",
		"__":     "___",
		"_x":     "__x",
		"orders": "orders",
		".":      "%2E",
		"..":     "%2E%2E",
		"...":    "...",
		"a/b":    "a%2Fb",
		"a b":    "a%20b",
		"%2F":    "%252F",
		"ü\n":    "%C3%BC%0A",
	} {
		assert.Equal(t, segment, names.Encode(name))
		plain, err := url.PathUnescape(segment)
		require.NoError(t, err)
		decoded, err := names.Decode(plain)
		require.NoError(t, err, name)
		assert.Equal(t, name, decoded)
	}
}

func TestDecodeRefuses(t *testing.T) {
	for _, segment := range []string{"", "_x", "\xff", strings.Repeat("a", names.MaxQueueBytes+1)} {
		_, err := names.Decode(segment)
		var argument *management.InvalidArgumentError
		require.ErrorAs(t, err, &argument, segment)
		assert.Equal(t, "queue", argument.Field)
	}
	for _, segment := range []string{"", "\xff", strings.Repeat("a", amboy.MaxIDLength+1)} {
		_, err := names.ID(segment)
		var argument *management.InvalidArgumentError
		require.ErrorAs(t, err, &argument, segment)
		assert.Equal(t, "id", argument.Field)
	}
}

func FuzzNames(f *testing.F) {
	f.Add("_a/b")
	f.Fuzz(func(t *testing.T, name string) {
		plain, err := url.PathUnescape(names.Encode(name))
		require.NoError(t, err)
		assert.NotContains(t, names.Encode(name), "/")
		if decoded, err := names.Decode(plain); err == nil {
			assert.Equal(t, name, decoded)
		}
	})
}
