package dependency_test

import (
	"encoding/json"
	"strconv"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/dependency"
)

func TestMockDependencyReturnsItsResponse(t *testing.T) {
	m := dependency.NewMock()
	assert.Equal(t, dependency.TypeInfo{Name: "mock"}, m.Type())
	assert.Equal(t, dependency.Ready, m.State())
	assert.Empty(t, m.Edges())
	for _, s := range []dependency.State{dependency.Passed, dependency.Blocked, dependency.Unresolved} {
		m.Response = s
		assert.Equal(t, s, m.State())
	}
	require.NoError(t, m.AddEdge("first"))
	require.Error(t, m.AddEdge("first"))
	assert.Equal(t, []string{"first"}, m.Edges())
	m.SetOnFailure(dependency.RunOnFailure)
	assert.Equal(t, dependency.RunOnFailure, m.OnFailure())
}

func TestMockDependencyIsStored(t *testing.T) {
	m := dependency.NewMock()
	m.Response = dependency.Blocked
	require.NoError(t, m.AddEdge("first"))
	stored, err := json.Marshal(m)
	require.NoError(t, err)
	factory, err := dependency.GetManagerFactory(m.Type().Name)
	require.NoError(t, err)
	read := factory()
	require.NoError(t, json.Unmarshal(stored, read))
	assert.Equal(t, m, read)
}

func TestMockDependencyIsSafeForConcurrentUse(t *testing.T) {
	m := dependency.NewMock()
	var users sync.WaitGroup
	for n := range 4 {
		users.Go(func() {
			m.SetResponse(dependency.State(n))
			assert.NoError(t, m.AddEdge(strconv.Itoa(n))) //nolint:testifylint // require must not be called on another goroutine
			m.SetOnFailure(dependency.RunOnFailure)
			_, _, _, _ = m.State(), m.Edges(), m.OnFailure(), m.Type()
		})
	}
	users.Wait()
	assert.Len(t, m.Edges(), 4)
}
