// Package storable checks names that every store must be able to keep and find again.
package storable

import (
	"strings"
	"unicode/utf8"
)

// Rule is the rule for names.
const Rule = "must be UTF-8 without zero bytes"

// IsName reports whether a name satisfies Rule.
func IsName(name string) bool { return utf8.ValidString(name) && strings.IndexByte(name, 0) < 0 }

// BadKey returns a key of metadata that breaks Rule, and false if there is none.
func BadKey(metadata map[string]string) (key string, found bool) {
	for key := range metadata {
		if !IsName(key) {
			return key, true
		}
	}
	return "", false
}
