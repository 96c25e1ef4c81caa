package simulation_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var (
	planted    = flag.Bool("simulation.planted", false, "see whether the planted faults are found")
	plantedFor = flag.Duration("simulation.plantedfor", time.Minute, "how long each planted fault is searched for")
)

// TestPlantedFaults makes a mistake in the core, one for each patch in testdata/planted,
// and has the worlds of TestWorlds find it. It changes no file of the module: the patched
// one is an overlay of the build.
func TestPlantedFaults(t *testing.T) {
	if !*planted {
		return
	}
	patches, err := filepath.Glob("testdata/planted/*.patch")
	require.NoError(t, err)
	require.NotEmpty(t, patches)
	for _, patch := range patches {
		t.Run(strings.TrimSuffix(filepath.Base(patch), ".patch"), func(t *testing.T) {
			findPlanted(t, buildPatched(t, patch))
		})
	}
}

// findPlanted runs a test binary until its worlds have found something.
func findPlanted(t *testing.T, binary string) {
	t.Helper()
	began := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), *plantedFor+time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, binary, "-test.run=^TestWorlds$", "-simulation.for="+plantedFor.String()).CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		require.NoError(t, err)
	}
	found := ""
	for line := range strings.Lines(string(out)) {
		if _, story, ok := strings.Cut(line, ": seed "); ok {
			found = strings.TrimSpace(story)
		}
	}
	assert.NotEmpty(t, found, "it was not found in %s", time.Since(began))
	t.Logf("found in %s: seed %s", time.Since(began).Round(10*time.Millisecond), found)
}

// buildPatched builds the tests of this package with a patched file.
func buildPatched(t *testing.T, patch string) (binary string) {
	t.Helper()
	dir := t.TempDir()
	text, err := os.ReadFile(patch)
	require.NoError(t, err)
	_, rest, ok := strings.Cut(string(text), "+++ b/")
	require.True(t, ok, "a patch names its file")
	file, _, _ := strings.Cut(rest, "\n")
	root, err := filepath.Abs("../..")
	require.NoError(t, err)
	original, err := os.ReadFile(filepath.Join(root, file))
	require.NoError(t, err)
	copied := filepath.Join(dir, file)
	require.NoError(t, os.MkdirAll(filepath.Dir(copied), 0o700))
	require.NoError(t, os.WriteFile(copied, original, 0o600))
	absolute, err := filepath.Abs(patch)
	require.NoError(t, err)
	command(t, dir, "git", "apply", absolute)
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": {filepath.Join(root, file): copied}})
	require.NoError(t, err)
	overlayFile := filepath.Join(dir, "overlay.json")
	require.NoError(t, os.WriteFile(overlayFile, overlay, 0o600))
	binary = filepath.Join(dir, "simulation.test")
	command(t, root, "go", "test", "-c", "-vet=off", "-overlay", overlayFile, "-o", binary, "./internal/simulation")
	return binary
}

func command(t *testing.T, dir, name string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
}
