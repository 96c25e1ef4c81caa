package registry_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/dependency"
	"github.com/mongodb/amboy/registry"
)

func TestIsUnknown(t *testing.T) {
	for _, unknown := range []error{
		&registry.UnknownTypeError{Type: "a"},
		&registry.VersionError{Type: "a"},
		fmt.Errorf("decoding: %w", dependency.ErrUnknownType),
	} {
		assert.True(t, registry.IsUnknown(unknown), unknown)
		assert.False(t, registry.IsUnknown(&registry.MalformedError{Type: "a", Err: unknown}), "the type of the job itself is known")
	}
	assert.False(t, registry.IsUnknown(nil))
	assert.False(t, registry.IsUnknown(errors.New("other")))
}

func TestKnownTypes(t *testing.T) {
	name := newType()
	find := func(of []registry.KnownType, name string) (found []registry.KnownType) {
		for _, k := range of {
			if k.Name == name {
				found = append(found, k)
			}
		}
		return found
	}
	assert.Empty(t, find(registry.KnownTypes().Jobs, name))
	registry.AddJobType(name, func() amboy.Job {
		j := newSample("")
		j.SetType(amboy.JobType{Name: name, Version: 4})
		return j
	})
	assert.Equal(t, []registry.KnownType{{Name: name, From: 4, To: 4}}, find(registry.KnownTypes().Jobs, name))
	for _, from := range []int{1, 3, 2} {
		require.NoError(t, registry.AddJobUpgrade(name, from, func(map[string]any) error { return nil }))
	}
	assert.Equal(t, []registry.KnownType{{Name: name, From: 1, To: 4}}, find(registry.KnownTypes().Jobs, name))
	assert.Equal(t, []registry.KnownType{{Name: "always"}}, find(registry.KnownTypes().Managers, "always"))
	panics := newType()
	registry.AddJobType(panics, func() amboy.Job { panic("as planned") })
	assert.Empty(t, find(registry.KnownTypes().Jobs, panics))
}
