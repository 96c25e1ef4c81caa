package sqlite

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
)

// ErrNetworkFileSystem is wrapped by the error of Open for a file on a network file system.
var ErrNetworkFileSystem = errors.New("the file is on a network file system, where SQLite's locks and its write-ahead log can't be relied on")

// networkFileSystem returns the kind of the network file system that a directory is on; empty
// if it is on another file system, or if this system does not know.
var networkFileSystem = networkFileSystemOf

// checkFileSystem returns an error if a file is on a network file system, or would be made there.
func checkFileSystem(path string, opts Options) error {
	if opts.AllowNetworkFileSystem {
		return nil
	}
	actual, err := filepath.EvalSymlinks(path)
	if errors.Is(err, fs.ErrNotExist) {
		actual, err = path, nil // its directory decides
	}
	var kind string
	if err == nil {
		kind, err = networkFileSystem(filepath.Dir(actual))
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil // Creating the file fails with a better error.
	case err != nil:
		return fmt.Errorf("finding out its file system: %w", err)
	case kind != "":
		return fmt.Errorf("%w (%s); Options.AllowNetworkFileSystem insists on it", ErrNetworkFileSystem, kind)
	}
	return nil
}
