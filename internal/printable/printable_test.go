package printable_test

import (
	"encoding/json"
	"testing"
	"unicode"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/internal/printable"
)

func TestUnprintableCharactersAreEscaped(t *testing.T) {
	for text, want := range map[string]string{
		"":                            "",
		"plain, ünïcode, 日本, שלום":    "plain, ünïcode, 日本, שלום",
		"a\x1b[31m\x07":               `a\x1b[31m\a`,
		"a\u202eb\u2066c\u200f":       `a\u202eb\u2066c\u200f`,
		"a\r\nlevel=emergency\tb":     `a\r\nlevel=emergency\tb`,
		"a\u2028b\U000E0001":          `a\u2028b\U000e0001`,
		"\xff\ufffd":                  `\xff\ufffd`,
		`quotes ' " and a \ stay`:     `quotes ' " and a \ stay`,
		"a\u00a0no-break space\u00ad": `a\u00a0no-break space\u00ad`,
	} {
		assert.Equal(t, want, printable.Text(text))
		assert.Equal(t, want == text, printable.Is(text), text)
	}
	assert.Equal(t, "a\nb\tc\nd\\x1b\\r", printable.Lines("a\r\nb\tc\nd\x1b\r"))
}

// Arguments with an address or markup were shown as "?a=1\u0026b=2", which cannot be copied.
func TestJSONHadEscapesOfHTML(t *testing.T) {
	assert.Equal(t, `"?a=1&b=<2>"`, printable.JSON(`"?a=1\u0026b=\u003c2\u003e"`))
	assert.Equal(t, `"\\u0026 \\\\u0026 \\&"`, printable.JSON(`"\\u0026 \\\\u0026 \\\u0026"`), "an escaped backslash is not a part of an escape")
}

func FuzzJSONStaysTheSameDocument(f *testing.F) {
	f.Add("a\x1b\u202e\u2028\U000E0001<>&\"\\\ufffe")
	f.Fuzz(func(t *testing.T, text string) {
		document, err := json.Marshal(text)
		require.NoError(t, err)
		clean := printable.JSON(string(document))
		for _, r := range clean {
			require.True(t, r == '\n' || unicode.IsPrint(r), "%U", r)
		}
		assert.JSONEq(t, string(document), clean)
	})
}
