package management_test

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"

	"github.com/mongodb/amboy/management"
)

func TestFoldError(t *testing.T) {
	for message, want := range map[string]string{
		"":          "",
		"disk full": "disk full",
		"runtime error: invalid memory address or nil pointer dereference": "runtime error: invalid memory address or nil pointer dereference",
		"reading page 12 of table 7: connection reset":                     "reading page # of table #: connection reset",
		"user 123e4567-e89b-12d3-a456-426614174000 not found":              "user # not found",
		"object 5f43a1b2c3d4e5f601234567 is gone":                          "object # is gone",
		`ObjectID("5f43a1b2c3d4e5f601234567") is gone`:                     `ObjectID("#") is gone`,
		`no order "order-17a" of 'c-9'`:                                    `no order "#" of '#'`,
		`unknown field "email"`:                                            `unknown field "email"`,
		`job "page 12 of 30" failed`:                                       `job "page # of #" failed`,
		"panic at 0xc000123f":                                              "panic at #",
		"commit deadbeef1 is bad, added, facade":                           "commit # is bad, added, facade",
		"dial tcp 10.0.0.1:5432->10.0.0.2:41244: i/o timeout after 1m3.5s": "dial tcp #->#: i/o timeout after #",
		"at 2026-11-24T00:30:39.123Z: too late":                            "at #: too late",
		"took 12.5ms, 3s or 40%":                                           "took #, # or #%",
		"utf8, http2, 5xx":                                                 "utf#, http#, #xx",
		"key aB3dE5gH7jK9mN1p2 expired":                                    "key # expired",
		"first\nsecond\tthird\x00":                                         "first second third",
		"bad \xff byte":                                                    "bad   byte",
		"größe 5 µs ‰":                                                     "größe # µs ‰",
		"  spaces  ":                                                       "spaces",
		"\x00 \n":                                                          "#",
		`"`:                                                                `"`,
	} {
		assert.Equal(t, want, management.FoldError(message), "%q", message)
	}
}

// An operator may paste a message, or filter by what a page shows.
func FuzzFoldErrorTwice(f *testing.F) {
	for _, seed := range []string{"page 12 'a1' \"x", "0x1f 1h2m3s -5", strings.Repeat("aé7", 400), "\xff\x00 1"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, message string) {
		once := management.FoldError(message)
		assert.Equal(t, once, management.FoldError(once))
		assert.LessOrEqual(t, len(once), 512)
		assert.True(t, utf8.ValidString(once))
	})
}

// A message of a job must not make the service busy.
func TestFoldingAHostileMessageIsFast(t *testing.T) {
	for name, part := range map[string]string{
		"quotes": `"`, "quoted": `"a'1`, "hyphens": "1-", "letters": "a", "digits": "1", "hex": "deadbeef-", "units": "1m", "control": "\x00\x1b",
	} {
		message := strings.Repeat(part, 1<<20/len(part))
		fastest := time.Hour
		for range 20 { // a busy machine slows down some
			begun := time.Now()
			management.FoldError(message)
			fastest = min(fastest, time.Since(begun))
		}
		assert.Less(t, fastest, 50*time.Millisecond, name)
	}
}
