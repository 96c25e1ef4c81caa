package simulation_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"go/parser"
	"go/token"
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
	planted    = flag.Bool("simulation.planted", false, "check that the planted faults are found")
	plantedFor = flag.Duration("simulation.plantedfor", time.Minute, "how long each planted fault is searched for")
)

// root is the root of the module.
const root = "../.."

// text returns the contents of a fault's file with the fault.
func (f plantedFault) text(t *testing.T) string {
	t.Helper()
	original, err := os.ReadFile(filepath.Join(root, f.file))
	require.NoError(t, err)
	var flat strings.Builder
	for line := range strings.Lines(string(original)) {
		flat.WriteString(strings.TrimLeft(line, "\t"))
	}
	require.Equal(t, 1, strings.Count(flat.String(), f.right), "occurrences in %s of %q", f.file, f.right)
	return strings.Replace(flat.String(), f.right, f.wrong, 1)
}

func TestPlantedFaultsApply(t *testing.T) {
	names := map[string]bool{}
	for _, f := range plantedFaults {
		t.Run(f.name, func(t *testing.T) {
			assert.NotEqual(t, f.right, f.wrong)
			assert.False(t, names[f.name], "duplicate name")
			names[f.name] = true
			_, err := parser.ParseFile(token.NewFileSet(), f.file, f.text(t), parser.SkipObjectResolution)
			assert.NoError(t, err)
		})
	}
	assert.GreaterOrEqual(t, len(plantedFaults), 40)
}

// TestPlantedFaultsAreFound plants the faults one at a time and checks that the worlds of
// TestWorlds find them. It changes no file of the module: the changed file is an overlay
// of the build.
func TestPlantedFaultsAreFound(t *testing.T) {
	if !*planted {
		t.Skip("takes minutes: see -simulation.planted")
	}
	for _, f := range plantedFaults {
		t.Run(f.name, func(t *testing.T) {
			began := time.Now()
			found := search(t, build(t, f))
			switch {
			case found != "":
				t.Logf("found in %s: %s", time.Since(began).Round(10*time.Millisecond), found)
			case f.unseen == "":
				assert.Fail(t, "it was not found", "in %s", time.Since(began))
			default:
				t.Logf("not found: %s", f.unseen)
			}
		})
	}
}

// build builds the tests of this package with a fault.
func build(t *testing.T, f plantedFault) (binary string) {
	t.Helper()
	dir := t.TempDir()
	faulty := filepath.Join(dir, filepath.Base(f.file))
	require.NoError(t, os.WriteFile(faulty, []byte(f.text(t)), 0o600))
	original, err := filepath.Abs(filepath.Join(root, f.file))
	require.NoError(t, err)
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": {original: faulty}})
	require.NoError(t, err)
	overlayFile := filepath.Join(dir, "overlay.json")
	require.NoError(t, os.WriteFile(overlayFile, overlay, 0o600))
	binary = filepath.Join(dir, "simulation.test")
	out, err := exec.CommandContext(t.Context(), "go", "test", "-c", "-vet=off", "-overlay", overlayFile, "-o", binary, ".").CombinedOutput()
	require.NoError(t, err, "%s", out)
	return binary
}

// search runs worlds until one breaks a promise or the core panics, and returns the
// output. It returns an empty string if that does not happen in time.
func search(t *testing.T, binary string) (found string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), *plantedFor+time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, binary, "-test.run=^TestWorlds$", "-simulation.for="+plantedFor.String()).CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		require.NoError(t, err)
	}
	for line := range strings.Lines(string(out)) {
		if _, story, ok := strings.Cut(line, ": seed "); ok {
			found = "seed " + strings.TrimSpace(story)
		} else if strings.HasPrefix(line, "panic: ") {
			return strings.TrimSpace(line)
		}
	}
	return found
}
