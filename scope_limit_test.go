package amboy_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
)

// A limited scope is used like any other, for instance with SetScopes.
func ExampleLimitScope() {
	fmt.Println(amboy.LimitScope("stripe", 5))
	// Output: stripe (at most 5)
}

// Find the key and the limit in the name of a scope.
func ExampleScopeLimit() {
	fmt.Println(amboy.ScopeLimit("stripe (at most 5)"))
	fmt.Println(amboy.ScopeLimit("stripe"))
	// Output:
	// stripe 5 true
	// stripe 1 false
}

func TestScopeLimitReadsTheNameOfALimitedScope(t *testing.T) {
	for scope, want := range map[string]struct {
		key     string
		limit   int
		limited bool
	}{
		amboy.LimitScope("stripe", 5):                      {"stripe", 5, true},
		amboy.LimitScope("", -1):                           {"", -1, true},
		amboy.LimitScope(amboy.LimitScope("stripe", 5), 7): {"stripe (at most 5)", 7, true},
		"stripe":              {"stripe", 1, false},
		"stripe (at most 05)": {"stripe (at most 05)", 1, false},
		"stripe (at most 5":   {"stripe (at most 5", 1, false},
		"(at most 5)":         {"(at most 5)", 1, false},
		"stripe (at most )":   {"stripe (at most )", 1, false},
		")":                   {")", 1, false},
		"":                    {"", 1, false},
	} {
		key, limit, limited := amboy.ScopeLimit(scope)
		assert.Equal(t, want.key, key, scope)
		assert.Equal(t, want.limit, limit, scope)
		assert.Equal(t, want.limited, limited, scope)
	}
}

func TestValidateJobRefusesLimitedScopesThatNoQueueAccepts(t *testing.T) {
	for name, test := range map[string]struct {
		scopes, enqueue []string
		err             string
	}{
		"several keys":     {scopes: []string{"stripe", amboy.LimitScope("stripe", 1), amboy.LimitScope("other", 1000)}},
		"no key":           {scopes: []string{amboy.LimitScope("", 1)}, err: `scope must have a key before its limit (is " (at most 1)")`},
		"a binary key":     {scopes: []string{amboy.LimitScope("a\xffb", 1)}, err: `scope must be UTF-8 (is "a\xffb (at most 1)")`},
		"zero":             {scopes: []string{amboy.LimitScope("k", 0)}, err: `scope must have a limit from 1 to 1000 (is "k (at most 0)")`},
		"too many":         {scopes: []string{amboy.LimitScope("k", 1001)}, err: `scope must have a limit from 1 to 1000 (is "k (at most 1001)")`},
		"a key twice":      {scopes: []string{amboy.LimitScope("k", 1), amboy.LimitScope("k", 2)}, err: `scope must be the job's only scope with this key (is "k (at most 2)")`},
		"an enqueue scope": {scopes: []string{amboy.LimitScope("k", 1)}, enqueue: []string{amboy.LimitScope("k", 1)}, err: `enqueue scope must not be a limited scope (is "k (at most 1)")`},
	} {
		t.Run(name, func(t *testing.T) {
			j := newJob("job")
			j.SetScopes(test.scopes)
			j.SetEnqueueScopes(test.enqueue...)
			err := amboy.ValidateJob(j)
			if test.err == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, test.err)
		})
	}
}
