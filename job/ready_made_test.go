package job_test

import (
	"slices"
	"testing"

	"github.com/mongodb/grip"
	"github.com/mongodb/grip/level"
	"github.com/mongodb/grip/send"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/job"
	"github.com/mongodb/amboy/registry"
)

// captureLog captures log messages until the test ends.
func captureLog(t *testing.T) *send.InternalSender {
	t.Helper()
	log, err := send.NewInternalLogger("test", send.LevelInfo{Default: level.Info, Threshold: level.Debug})
	require.NoError(t, err)
	before := grip.GetSender()
	require.NoError(t, grip.SetSender(log))
	t.Cleanup(func() { assert.NoError(t, grip.SetSender(before)) })
	return log
}

// typesAtStart are the types that were registered before any test ran.
var typesAtStart = func() (names []string) {
	for name := range registry.JobTypeNames() {
		names = append(names, name)
	}
	return names
}()

func TestImportingThePackageRegistersNoJobType(t *testing.T) {
	assert.False(t, slices.Contains(typesAtStart, "shell"))
	assert.False(t, slices.Contains(typesAtStart, "group"))
}

func TestRegisterDefaultJobs(t *testing.T) {
	log := captureLog(t)
	job.RegisterDefaultJobs()
	job.RegisterDefaultJobs()
	assert.False(t, log.HasMessage(), "nothing is replaced")
	for name, version := range map[string]int{"shell": 1, "group": 1} {
		factory, factoryErr := registry.GetJobFactory(name)
		require.NoError(t, factoryErr)
		assert.Equal(t, name, factory().Type().Name)
		assert.Equal(t, version, factory().Type().Version)
	}
}
