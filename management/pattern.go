package management

import (
	"fmt"
	"regexp"
	"strings"
)

// MaxPatternLength is the maximum length of a pattern, in bytes.
const MaxPatternLength = 1024

// pattern matches the IDs of jobs.
type pattern struct{ expression *regexp.Regexp }

// newPattern returns an *InvalidArgumentError for a pattern that is not valid.
func newPattern(text string) (*pattern, error) {
	if text == "" {
		return nil, invalid("pattern", text, "must not be empty")
	}
	if len(text) > MaxPatternLength {
		return nil, invalid("pattern", text, fmt.Sprintf("must be at most %d bytes long, and has %d", MaxPatternLength, len(text)))
	}
	expression, err := regexp.Compile(text)
	if err != nil {
		return nil, invalid("pattern", text, "must be a regular expression: "+strings.TrimPrefix(err.Error(), "error parsing regexp: "))
	}
	expression.Longest()
	return &pattern{expression}, nil
}

// matches reports whether the pattern matches all of an ID. Longest makes the expression
// prefer the longest of the leftmost matches. Wrapping the text in anchors instead would
// be unsafe, because the text could contain an alternative that escapes them.
func (p *pattern) matches(id string) bool {
	found := p.expression.FindStringIndex(id)
	return len(found) == 2 && found[0] == 0 && found[1] == len(id)
}
