package filewatch_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/internal/filewatch"
)

func TestFilesAreAppliedWhenTheyHaveChanged(t *testing.T) {
	dir := t.TempDir()
	paths := []string{filepath.Join(dir, "a"), filepath.Join(dir, "b")}
	write := func(i int, text string) {
		t.Helper()
		require.NoError(t, os.WriteFile(paths[i], []byte(text), 0o600))
	}
	var applied []string
	files := filewatch.Files{Paths: paths, Apply: func(contents [][]byte) error {
		text := string(contents[0]) + string(contents[1])
		if text == "bad" {
			return errors.New("it is bad")
		}
		applied = append(applied, text)
		return nil
	}}
	check := func(wantChanged bool, wantErr string) {
		t.Helper()
		changed, err := files.Check()
		assert.Equal(t, wantChanged, changed)
		if wantErr == "" {
			require.NoError(t, err)
		} else {
			require.ErrorContains(t, err, wantErr)
		}
	}
	require.ErrorContains(t, files.Load(), paths[0])
	write(0, "1")
	require.ErrorContains(t, files.Load(), paths[1])
	write(1, "2")
	require.NoError(t, files.Load())
	check(false, "")
	write(0, "ba")
	check(true, "")
	write(1, "d")
	check(false, "it is bad")
	check(false, "") // it is said once
	require.NoError(t, os.Remove(paths[1]))
	check(false, paths[1])
	write(1, "d")
	check(false, "it is bad")
	write(1, "2")
	check(false, "") // as it was applied
	write(1, "d")
	check(false, "it is bad")
	require.NoError(t, os.Truncate(paths[0], filewatch.MaxSize+1))
	check(false, "at most 16777216 bytes")
	write(0, "1")
	check(true, "")
	assert.Equal(t, []string{"12", "ba2", "1d"}, applied)
}
