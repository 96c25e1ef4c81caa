// Package pattern matches texts against patterns with wildcards.
package pattern

import (
	"strings"
	"unicode/utf8"
)

// Matches reports whether a text matches a pattern, in which * stands for any characters,
// ? for one character, and all other characters for themselves.
func Matches(pattern, text string) bool {
	// If the rest does not match, the last star takes one more character.
	afterStar, starEnd := -1, 0
	p, t := 0, 0
	for t < len(text) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			p++
			afterStar, starEnd = p, t
		case p < len(pattern) && pattern[p] == '?':
			p++
			t += characterSize(text[t:])
		case p < len(pattern) && pattern[p] == text[t]:
			p++
			t++
		case afterStar >= 0:
			starEnd += characterSize(text[starEnd:])
			p, t = afterStar, starEnd
		default:
			return false
		}
	}
	return strings.Trim(pattern[p:], "*") == ""
}

// characterSize returns the number of bytes of the first character of a text.
func characterSize(text string) int {
	_, size := utf8.DecodeRuneInString(text)
	return size
}
