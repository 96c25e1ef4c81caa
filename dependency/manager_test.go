package dependency_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/bson"

	"github.com/mongodb/amboy/dependency"
)

func TestState(t *testing.T) {
	for _, test := range []struct {
		state  dependency.State
		number int
		name   string
		valid  bool
	}{
		{dependency.Ready, 0, "ready", true},
		{dependency.Passed, 1, "passed", true},
		{dependency.Blocked, 2, "blocked", true},
		{dependency.Unresolved, 3, "unresolved", true},
		{dependency.State(4), 4, "invalid", false},
		{dependency.State(-1), -1, "invalid", false},
	} {
		assert.Equal(t, test.number, int(test.state))
		assert.Equal(t, test.name, test.state.String())
		assert.Equal(t, test.valid, dependency.IsValidState(test.state), test.name)
	}
}

// managers returns a new manager of each type.
func managers() map[string]dependency.Manager {
	return map[string]dependency.Manager{
		"always":      dependency.NewAlways(),
		"create-file": dependency.NewCreatesFile("out.txt"),
		"local-file":  dependency.NewLocalFile("out.txt", "in.txt", "more.txt"),
		"check":       dependency.NewCheckManager("window-open"),
	}
}

func TestManagers(t *testing.T) {
	for name, manager := range managers() {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, dependency.TypeInfo{Name: name}, manager.Type())
			assert.NotNil(t, manager.Edges())
			assert.Empty(t, manager.Edges())

			require.NoError(t, manager.AddEdge("a"))
			require.Error(t, manager.AddEdge("a"))
			assert.Equal(t, []string{"a"}, manager.Edges())

			chooser, ok := manager.(dependency.FailureChooser)
			require.True(t, ok)
			assert.Equal(t, dependency.FailOnFailure, chooser.OnFailure())
			chooser.SetOnFailure(dependency.RunOnFailure)
			assert.Equal(t, dependency.RunOnFailure, chooser.OnFailure())
		})
	}
}

// TestStoredForm checks that the stored form of each manager equals that of existing
// documents, including the order of the keys.
func TestStoredForm(t *testing.T) {
	for _, test := range []struct {
		name       string
		bson, json string
	}{
		{
			name: "always",
			bson: `{"type":{"name":"always","version":0},"jobedges":{"edges":[]}}`,
			json: `{"type":{"name":"always","version":0},"edges":[]}`,
		},
		{
			name: "create-file",
			bson: `{"file_name":"out.txt","type":{"name":"create-file","version":0},"jobedges":{"edges":[]}}`,
			json: `{"file_name":"out.txt","type":{"name":"create-file","version":0},"edges":[]}`,
		},
		{
			name: "local-file",
			bson: `{"targets":["out.txt"],"dependencies":["in.txt","more.txt"],"type":{"name":"local-file","version":0},"jobedges":{"edges":[]}}`,
			json: `{"targets":["out.txt"],"dependencies":["in.txt","more.txt"],"type":{"name":"local-file","version":0},"edges":[]}`,
		},
		{
			name: "check",
			bson: `{"check_name":"window-open","type":{"name":"check","version":0},"jobedges":{"edges":[]}}`,
			json: `{"check_name":"window-open","type":{"name":"check","version":0},"edges":[]}`,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			manager := managers()[test.name]
			stored, err := bson.MarshalExtJSON(manager, false, false)
			require.NoError(t, err)
			assert.Equal(t, test.bson, string(stored)) //nolint:testifylint // The order of the keys matters.
			stored, err = json.Marshal(manager)
			require.NoError(t, err)
			assert.Equal(t, test.json, string(stored)) //nolint:testifylint // The order of the keys matters.
		})
	}
}

// TestStoredFormIsReadBack decodes managers as the registry does: into a manager from the
// factory of their type.
func TestStoredFormIsReadBack(t *testing.T) {
	formats := map[string]struct {
		marshal   func(any) ([]byte, error)
		unmarshal func([]byte, any) error
	}{
		"BSON": {bson.Marshal, bson.Unmarshal},
		"JSON": {json.Marshal, json.Unmarshal},
	}
	changes := map[string]func(t *testing.T, manager dependency.Manager){
		"as made": func(*testing.T, dependency.Manager) {},
		"with edges and a policy": func(t *testing.T, manager dependency.Manager) {
			require.NoError(t, manager.AddEdge("a"))
			require.NoError(t, manager.AddEdge("b"))
			manager.(dependency.FailureChooser).SetOnFailure(dependency.RunOnFailure)
		},
	}
	for formatName, format := range formats {
		for changeName, change := range changes {
			for name, want := range managers() {
				t.Run(formatName+"/"+name+"/"+changeName, func(t *testing.T) {
					change(t, want)
					stored, err := format.marshal(want)
					require.NoError(t, err)

					factory, err := dependency.GetManagerFactory(name)
					require.NoError(t, err)
					got := factory()
					require.NoError(t, format.unmarshal(stored, got))
					assert.Equal(t, want, got)
				})
			}
		}
	}
}

func TestFailurePolicyStoredForm(t *testing.T) {
	edges := dependency.NewJobEdges()
	for policy, want := range map[dependency.FailurePolicy]string{
		dependency.FailOnFailure: `{"edges":[]}`,
		dependency.RunOnFailure:  `{"edges":[],"on_failure":"run"}`,
	} {
		edges.SetOnFailure(policy)
		stored, err := bson.MarshalExtJSON(edges, false, false)
		require.NoError(t, err)
		assert.Equal(t, want, string(stored)) //nolint:testifylint // The order of the keys matters.
		stored, err = json.Marshal(edges)
		require.NoError(t, err)
		assert.Equal(t, want, string(stored)) //nolint:testifylint // The order of the keys matters.
	}
}

// TestExistingDocumentIsReadBack decodes a dependency that the legacy library stored.
func TestExistingDocumentIsReadBack(t *testing.T) {
	const existing = `{"file_name":"/nonexistent","type":{"name":"create-file","version":0},"jobedges":{"edges":["plain"]}}`
	want := dependency.NewCreatesFile("/nonexistent")
	require.NoError(t, want.AddEdge("plain"))

	got := dependency.NewCreatesFile("")
	require.NoError(t, bson.UnmarshalExtJSON([]byte(existing), false, got))
	assert.Equal(t, want, got)
	stored, err := bson.MarshalExtJSON(got, false, false)
	require.NoError(t, err)
	assert.Equal(t, existing, string(stored)) //nolint:testifylint // The order of the keys matters.
}
