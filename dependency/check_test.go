package dependency_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/dependency"
)

func TestCheckManager(t *testing.T) {
	for name, test := range map[string]struct {
		decide dependency.CheckFunc
		want   dependency.State
		reason string
	}{
		"ready":           {func([]string) dependency.State { return dependency.Ready }, dependency.Ready, "ready"},
		"passed":          {func([]string) dependency.State { return dependency.Passed }, dependency.Passed, "passed"},
		"blocked":         {func([]string) dependency.State { return dependency.Blocked }, dependency.Blocked, "blocked"},
		"unresolved":      {func([]string) dependency.State { return dependency.Unresolved }, dependency.Unresolved, "unresolved"},
		"invalid":         {func([]string) dependency.State { return 7 }, dependency.Unresolved, "invalid state 7"},
		"without a check": {nil, dependency.Unresolved, "returned nil"},
	} {
		t.Run(name, func(t *testing.T) {
			checkName := uniqueName(t)
			dependency.RegisterCheck(checkName, func() dependency.CheckFunc { return test.decide })
			manager := dependency.NewCheckManager(checkName)
			assert.Equal(t, test.want, manager.State())
			reason := manager.(dependency.Explainer).Explain()
			assert.Contains(t, reason, checkName)
			assert.Contains(t, reason, test.reason)
		})
	}
}

func TestCheckManagerIsGivenTheEdges(t *testing.T) {
	var given []string
	made := 0
	checkName := uniqueName(t)
	dependency.RegisterCheck(checkName, func() dependency.CheckFunc {
		made++
		return func(edges []string) dependency.State {
			given = edges
			return dependency.Ready
		}
	})
	manager := dependency.NewCheckManager(checkName)
	require.NoError(t, manager.AddEdge("a"))
	require.NoError(t, manager.AddEdge("b"))
	assert.Equal(t, dependency.Ready, manager.State())
	assert.Equal(t, dependency.Ready, manager.State())
	assert.Equal(t, []string{"a", "b"}, given)
	assert.Equal(t, 1, made, "the function is made once")
}

func TestCheckManagerLooksTheCheckUpOnFirstUse(t *testing.T) {
	checkName := uniqueName(t)
	manager := dependency.NewCheckManager(checkName)
	assert.Equal(t, dependency.Unresolved, manager.State())
	assert.Contains(t, manager.(dependency.Explainer).Explain(), "not registered")

	dependency.RegisterCheck(checkName, func() dependency.CheckFunc {
		return func([]string) dependency.State { return dependency.Ready }
	})
	assert.Equal(t, dependency.Ready, manager.State())
}
