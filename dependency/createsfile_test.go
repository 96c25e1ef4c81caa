package dependency_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/dependency"
)

func TestCreatesFile(t *testing.T) {
	dir := t.TempDir()
	existing := filepath.Join(dir, "existing")
	require.NoError(t, os.WriteFile(existing, nil, 0o600))

	for _, test := range []struct {
		name, file string
		want       dependency.State
	}{
		{"no name", "", dependency.Ready},
		{"missing", filepath.Join(dir, "missing"), dependency.Ready},
		{"in a missing directory", filepath.Join(dir, "missing", "file"), dependency.Ready},
		{"existing", existing, dependency.Passed},
		{"existing directory", dir, dependency.Passed},
		{"below a file", filepath.Join(existing, "file"), dependency.Unresolved},
	} {
		t.Run(test.name, func(t *testing.T) {
			manager := dependency.NewCreatesFile(test.file)
			assert.Equal(t, test.want, manager.State())
			reason := manager.(dependency.Explainer).Explain()
			if test.want == dependency.Unresolved {
				assert.Contains(t, reason, test.file)
			} else {
				assert.Empty(t, reason)
			}
		})
	}
}

func TestCreatesFileChecksEachTime(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	manager := dependency.NewCreatesFile(file)
	assert.Equal(t, dependency.Ready, manager.State())
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	assert.Equal(t, dependency.Passed, manager.State())
	require.NoError(t, os.Remove(file))
	assert.Equal(t, dependency.Ready, manager.State())
}
