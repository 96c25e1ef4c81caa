package dependency_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/dependency"
)

// TestLocalFile covers the cases of make's rule.
func TestLocalFile(t *testing.T) {
	// ages maps the files that exist to their ages in hours.
	type ages map[string]int

	for _, test := range []struct {
		name         string
		files        ages
		targets      []string
		dependencies []string
		want         dependency.State
		// reason must appear in the explanation of Unresolved.
		reason string
	}{
		{name: "nothing", want: dependency.Ready},
		{name: "no target", files: ages{"in": 1}, dependencies: []string{"in"}, want: dependency.Ready},
		{name: "no target, missing dependency", dependencies: []string{"in"}, want: dependency.Unresolved, reason: "dependency"},

		{name: "missing target", targets: []string{"out"}, want: dependency.Ready},
		{name: "existing target", files: ages{"out": 1}, targets: []string{"out"}, want: dependency.Passed},

		{name: "older target", files: ages{"out": 2, "in": 1}, targets: []string{"out"}, dependencies: []string{"in"}, want: dependency.Ready},
		{name: "newer target", files: ages{"out": 1, "in": 2}, targets: []string{"out"}, dependencies: []string{"in"}, want: dependency.Passed},
		{name: "equal times", files: ages{"out": 1, "in": 1}, targets: []string{"out"}, dependencies: []string{"in"}, want: dependency.Passed},
		{name: "missing target of a dependency", files: ages{"in": 1}, targets: []string{"out"}, dependencies: []string{"in"}, want: dependency.Ready},

		{
			name: "older than the newest dependency", files: ages{"out": 2, "in": 3, "new": 1, "old": 4},
			targets: []string{"out"}, dependencies: []string{"in", "new", "old"}, want: dependency.Ready,
		},
		{
			name: "newer than all dependencies", files: ages{"out": 1, "in": 3, "new": 2, "old": 4},
			targets: []string{"out"}, dependencies: []string{"in", "new", "old"}, want: dependency.Passed,
		},
		{
			name: "missing dependency of a new target", files: ages{"out": 1}, targets: []string{"out"}, dependencies: []string{"in"},
			want: dependency.Unresolved, reason: "dependency",
		},
		{
			name: "missing dependency of a missing target", targets: []string{"out"}, dependencies: []string{"in"},
			want: dependency.Unresolved, reason: "dependency",
		},
		{
			name: "one missing dependency", files: ages{"out": 1, "in": 2}, targets: []string{"out"}, dependencies: []string{"in", "missing"},
			want: dependency.Unresolved, reason: "dependency",
		},

		{
			name: "one of the targets is missing", files: ages{"out": 1, "in": 2},
			targets: []string{"out", "missing"}, dependencies: []string{"in"}, want: dependency.Ready,
		},
		{
			name: "one of the targets is older", files: ages{"out": 1, "in": 2, "older": 3},
			targets: []string{"out", "older"}, dependencies: []string{"in"}, want: dependency.Ready,
		},
		{
			name: "all targets are newer", files: ages{"out": 1, "in": 3, "newer": 2},
			targets: []string{"out", "newer"}, dependencies: []string{"in"}, want: dependency.Passed,
		},

		{
			name: "target below a file", files: ages{"out": 1}, targets: []string{"out/file"},
			want: dependency.Unresolved, reason: "target",
		},
		{
			name: "dependency below a file", files: ages{"in": 1}, targets: []string{"out"}, dependencies: []string{"in/file"},
			want: dependency.Unresolved, reason: "dependency",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			now := time.Now()
			for name, age := range test.files {
				path := filepath.Join(dir, name)
				require.NoError(t, os.WriteFile(path, nil, 0o600))
				modified := now.Add(-time.Duration(age) * time.Hour)
				require.NoError(t, os.Chtimes(path, modified, modified))
			}
			in := func(names []string) []string {
				var paths []string
				for _, name := range names {
					paths = append(paths, filepath.Join(dir, name))
				}
				return paths
			}
			manager := dependency.MakeLocalFile()
			manager.Targets, manager.Dependencies = in(test.targets), in(test.dependencies)

			assert.Equal(t, test.want, manager.State())
			assert.Contains(t, manager.Explain(), test.reason)
			assert.Equal(t, test.reason == "", manager.Explain() == "")
		})
	}
}

func TestNewLocalFile(t *testing.T) {
	manager := dependency.NewLocalFile("out", "in", "more")
	assert.Equal(t, []string{"out"}, manager.Targets)
	assert.Equal(t, []string{"in", "more"}, manager.Dependencies)
}
