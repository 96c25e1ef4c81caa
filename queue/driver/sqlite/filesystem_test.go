package sqlite_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/queue/driver/sqlite"
)

func TestOpenRefusesANetworkFileSystem(t *testing.T) {
	defer sqlite.SetFileSystem("nfs", nil)()
	path := newPath(t)
	_, err := sqlite.Open(t.Context(), sqlite.Options{Path: path})
	require.ErrorIs(t, err, sqlite.ErrNetworkFileSystem)
	require.ErrorContains(t, err, path)
	require.ErrorContains(t, err, "nfs")
	require.ErrorContains(t, err, "AllowNetworkFileSystem")
	assert.Empty(t, filesBeside(t, path), "no file was created")

	d := open(t, sqlite.Options{Path: path, AllowNetworkFileSystem: true})
	insert(t, d, newRecord(t, "job"))
	_, err = sqlite.Open(t.Context(), sqlite.Options{Path: path})
	require.ErrorIs(t, err, sqlite.ErrNetworkFileSystem, "an existing file is not opened either")
}

func TestOpenReportsThatTheFileSystemIsUnknown(t *testing.T) {
	failure := errors.New("the system does not answer")
	defer sqlite.SetFileSystem("", failure)()
	_, err := sqlite.Open(t.Context(), sqlite.Options{Path: newPath(t)})
	require.ErrorIs(t, err, failure)
}

// Open checks the file system of the file, not that of a link to it.
func TestOpenFollowsLinksToTheFileSystem(t *testing.T) {
	path, link := newPath(t), filepath.Join(t.TempDir(), "link.db")
	require.NoError(t, os.Symlink(path, link))
	d, err := sqlite.Open(t.Context(), sqlite.Options{Path: path})
	require.NoError(t, err)
	require.NoError(t, d.Close(context.Background()))
	var asked []string
	defer sqlite.WatchFileSystems(&asked)()
	open(t, sqlite.Options{Path: link})
	actual, err := filepath.EvalSymlinks(filepath.Dir(path))
	require.NoError(t, err)
	assert.Equal(t, []string{actual}, asked)
}
