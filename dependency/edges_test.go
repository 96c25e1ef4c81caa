package dependency_test

import (
	"encoding/json"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/dependency"
)

func TestAddEdge(t *testing.T) {
	for name, edges := range map[string]dependency.JobEdges{
		"made": dependency.NewJobEdges(),
		"zero": {},
	} {
		t.Run(name, func(t *testing.T) {
			require.NoError(t, edges.AddEdge("b"))
			require.NoError(t, edges.AddEdge("a"))
			require.ErrorContains(t, edges.AddEdge("b"), `"b" already exists`)
			require.ErrorContains(t, edges.AddEdge(""), "must not be empty")
			assert.Equal(t, []string{"b", "a"}, edges.Edges())
		})
	}
}

func TestEdgesIsACopy(t *testing.T) {
	edges := dependency.NewJobEdges()
	require.NoError(t, edges.AddEdge("a"))
	edges.Edges()[0] = "changed"
	assert.Equal(t, []string{"a"}, edges.Edges())
}

func TestManyEdges(t *testing.T) {
	const count = 20_000
	edges := dependency.NewJobEdges()
	var want []string
	for i := range count {
		id := strconv.Itoa(i)
		want = append(want, id)
		require.NoError(t, edges.AddEdge(id))
	}
	assert.Equal(t, want, edges.Edges())

	stored, err := json.Marshal(edges)
	require.NoError(t, err)
	var decoded dependency.JobEdges
	require.NoError(t, json.Unmarshal(stored, &decoded))

	assigned := dependency.JobEdges{TaskEdges: edges.Edges()}
	replaced := dependency.JobEdges{TaskEdges: edges.Edges()}
	require.NoError(t, replaced.AddEdge("last"))
	replaced.TaskEdges = edges.Edges()

	for name, set := range map[string]*dependency.JobEdges{
		"added": &edges, "decoded": &decoded, "assigned": &assigned, "replaced": &replaced,
	} {
		t.Run(name, func(t *testing.T) {
			for _, id := range []string{"0", strconv.Itoa(count / 2), strconv.Itoa(count - 1)} {
				require.Error(t, set.AddEdge(id), "edge %s", id)
			}
			require.NoError(t, set.AddEdge("last"))
			require.Error(t, set.AddEdge("last"))
			assert.Len(t, set.Edges(), count+1)
		})
	}
}

func TestAddEdgeToManyIsCheap(t *testing.T) {
	edges := dependency.NewJobEdges()
	next := 0
	add := func() {
		require.NoError(t, edges.AddEdge(strconv.Itoa(next)))
		next++
	}
	for range 20_000 {
		add()
	}
	// Building a map of all edges again would allocate far more.
	assert.Less(t, testing.AllocsPerRun(100, add), 5.0)
}
