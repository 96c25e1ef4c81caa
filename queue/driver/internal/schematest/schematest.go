// Package schematest guards the schemas of drivers: a database that has taken a step never takes it
// again, so that a later edit of the step reaches new databases only.
package schematest

import (
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

var comment = regexp.MustCompile(`--[^\n]*`)

// AssertUnchanged fails if the SQL of a step differs from what it was when its sum was noted. Comments
// and white space do not count. The sum of a new step is in the message of the failure.
func AssertUnchanged(t *testing.T, steps, sums []string) {
	t.Helper()
	actual := make([]string, len(steps))
	for n, step := range steps {
		sum := sha256.Sum256([]byte(strings.Join(strings.Fields(comment.ReplaceAllString(step, "")), " ")))
		actual[n] = hex.EncodeToString(sum[:8])
	}
	assert.Equal(t, sums, actual, "a step that databases have taken was edited (add another step instead), or the sum of a new one is missing")
}
