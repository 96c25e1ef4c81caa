package pattern_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/mongodb/amboy/queue/internal/pattern"
)

func TestMatches(t *testing.T) {
	for _, test := range []struct {
		pattern, text string
		matches       bool
	}{
		{"", "", true},
		{"", "a", false},
		{"a", "a", true},
		{"a", "A", false},
		{"*", "", true},
		{"*", "anything", true},
		{"a*", "abc", true},
		{"*c", "abc", true},
		{"*b*", "abc", true},
		{"*ab*ab", "ab-ab-ab", true},
		{"*ab*ab", "ab-ba", false},
		{"a?c", "abc", true},
		{"a?c", "aéc", true},
		{"a?c", "ac", false},
		{"?", "", false},
		{"*?", "é", true},
		{"[a]", "a", false},
		{"a.c", "abc", false},
	} {
		assert.Equal(t, test.matches, pattern.Matches(test.pattern, test.text), "%q, %q", test.pattern, test.text)
	}
}
