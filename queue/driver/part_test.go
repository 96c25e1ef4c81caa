package driver_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/mongodb/amboy/queue/driver"
)

func TestHasPartIgnoresTheCaseOfASCIILetters(t *testing.T) {
	for _, test := range []struct {
		text, part string
		has        bool
	}{
		{"", "", true},
		{"abc", "", true},
		{"", "a", false},
		{"Nil Pointer", "nil p", true},
		{"nil pointer", "POINTER", true},
		{"aaab", "AAB", true},
		{"abc", "abcd", false},
		{"größe", "GRÖSSE", false},
		{"GRÖßE", "gr", true},
		{"Über", "über", false},
		{"[a", "{A", false}, // 32 apart, but no letters
		{"a\x00b", "\x00B", true},
	} {
		assert.Equal(t, test.has, driver.HasPart(test.text, test.part), "%q in %q", test.part, test.text)
	}
	assert.Equal(t, "aé[z\x00", driver.LowerPart("AéE"[:3]+"[Z\x00"))
}

// Eight bytes are converted at once.
func TestLowerPartChangesNoOtherBytesThanASCIILetters(t *testing.T) {
	for b := range 256 {
		want := byte(b)
		if 'A' <= want && want <= 'Z' {
			want += 'a' - 'A'
		}
		for n := range 9 {
			text := []byte("@Z[\x00\xff\xc1\xda`{A")
			text[n] = byte(b)
			lower := []byte("@z[\x00\xff\xc1\xda`{a")
			lower[n] = want
			assert.Equal(t, string(lower), driver.LowerPart(string(text)), "%q at %d", b, n)
		}
	}
}
