package dependency_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/dependency"
)

func TestAlways(t *testing.T) {
	manager := dependency.NewAlways()
	assert.Equal(t, dependency.Ready, manager.State())
	require.NoError(t, manager.AddEdge("a"))
	assert.Equal(t, dependency.Ready, manager.State(), "edges are the queue's business")

	made := dependency.MakeAlways()
	assert.Equal(t, dependency.NewAlways(), &made)
}
