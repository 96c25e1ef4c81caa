package registry_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/mongodb/grip/level"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/registry"
)

var lastType atomic.Int64

// newType returns a name that is not registered, even if a test runs twice.
func newType() string { return fmt.Sprint("registered-", lastType.Add(1)) }

func TestARegisteredTypeIsNotReplaced(t *testing.T) {
	name := newType()
	require.NoError(t, registry.RegisterJobType(name, func() amboy.Job { return newSample("first") }))
	second := func() amboy.Job { return newSample("second") }
	err := registry.RegisterJobType(name, second)
	require.ErrorIs(t, err, registry.ErrTypeTaken)
	require.ErrorContains(t, err, name)

	log := captureLog(t)
	registry.AddJobType(name, second)
	require.True(t, log.HasMessage())
	assert.Equal(t, level.Error, log.GetMessage().Priority)

	factory, err := registry.GetJobFactory(name)
	require.NoError(t, err)
	assert.Equal(t, "first", factory().ID())
}

func TestRegisterJobTypeRefusesBadInput(t *testing.T) {
	factory := func() amboy.Job { return newSample("a") }
	require.EqualError(t, registry.RegisterJobType("", factory), "registering a job type: its name must not be empty")
	require.EqualError(t, registry.RegisterJobType("x", nil), `registering job type "x": its factory must not be nil`)
	require.ErrorIs(t, registry.RegisterJobType("sample", factory), registry.ErrTypeTaken)

	name := newType()
	require.NoError(t, registry.AddJobUpgrade(name, 0, func(map[string]any) error { return nil }))
	assert.NoError(t, registry.RegisterJobType(name, factory), "only an upgrade was there")
}

func TestOneOfManyRegistrationsWins(t *testing.T) {
	name := newType()
	var won atomic.Int64
	var registering sync.WaitGroup
	for range 8 {
		registering.Go(func() {
			if registry.RegisterJobType(name, func() amboy.Job { return newSample("a") }) == nil {
				won.Add(1)
			}
		})
	}
	registering.Wait()
	assert.EqualValues(t, 1, won.Load())
}
