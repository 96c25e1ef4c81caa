package browsertest

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// axePath is the path at which npm ci installs axe-core.
const axePath = "node_modules/axe-core/axe.min.js"

func readAxe(t *testing.T) string {
	t.Helper()
	script, err := os.ReadFile(axePath)
	if os.IsNotExist(err) {
		missing(t, "axe-core (run npm ci in internal/browsertest)")
	}
	require.NoError(t, err)
	return string(script)
}

// violation is a problem that axe found in a page.
type violation struct {
	ID    string `json:"id"`
	Help  string `json:"help"`
	Nodes []struct {
		Target  []any  `json:"target"`
		Summary string `json:"failureSummary"`
	} `json:"nodes"`
}

func (v violation) String() string {
	var text strings.Builder
	fmt.Fprintf(&text, "%s: %s", v.ID, v.Help)
	for _, node := range v.Nodes {
		fmt.Fprintf(&text, "\n    %v: %s", node.Target, strings.ReplaceAll(node.Summary, "\n", "\n      "))
	}
	return text.String()
}

// allRules turns on the rules that axe has turned off: those of level AAA, the experimental and the
// deprecated ones.
const allRules = `Object.fromEntries(axe.getRules().map(r => [r.ruleId, {enabled: true}]))`

// violations returns the problems that axe, which was loaded, finds in the current page, best
// practices included.
func (b tab) violations() []violation {
	b.t.Helper()
	return evaluate[[]violation](b, `axe.run({rules: `+allRules+`, resultTypes: ["violations"]}).then(r => r.violations)`)
}
