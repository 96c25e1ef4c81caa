package sqlite

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// ErrFileLost is wrapped by the errors of changes after the database file, its write-ahead log, or
// the index of that was deleted, moved away or replaced while a Driver had it open. The driver's
// connections still use the files that it opened, which other processes no longer find. Move
// the files back, or close the driver and open the new file.
var ErrFileLost = errors.New("the database file was deleted, moved or replaced while it was open")

// identity recognizes the database file and its write-ahead log, so that nothing is reported
// as written that went to a file without a name. It is checked after each commit: a change
// that it lets pass was in the file that has the name now.
//
// A check takes some 3 µs, a transaction at least twenty times as long. Checks at intervals
// would report the writes in between as done, and a watch may lose events.
type identity struct{ database, log, index fs.FileInfo }

// identify returns the identity of the files at a path, which a connection has open.
func identify(path string) (*identity, error) {
	i, err := filesAt(path)
	if err == nil {
		i.index, err = os.Stat(indexPath(path))
	}
	return i, err
}

// filesAt is identify without the index of the log.
func filesAt(path string) (*identity, error) {
	database, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	log, err := os.Stat(logPath(path))
	if err != nil {
		return nil, err
	}
	return &identity{database: database, log: log}, nil
}

func logPath(path string) string { return path + "-wal" }

// indexPath returns the path of the index of the log.
func indexPath(path string) string { return path + "-shm" }

// check returns an error that wraps ErrFileLost if the files at the path are not these. Else
// it returns the size of the log.
func (i *identity) check(path string) (logSize int64, err error) {
	now, err := filesAt(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return 0, fmt.Errorf("%w: %w", ErrFileLost, err)
	case err != nil:
		return 0, fmt.Errorf("checking the database file: %w", err)
	case !os.SameFile(now.database, i.database):
		return 0, fmt.Errorf("%w: %q is another file", ErrFileLost, path)
	case !os.SameFile(now.log, i.log):
		return 0, fmt.Errorf("%w: %q is another file", ErrFileLost, logPath(path))
	}
	return now.log.Size(), nil
}

// checkIndex returns an error that wraps ErrFileLost if the index of the log at the path is not this
// one. The locks of SQLite are on it, so a process that has another one writes at the same time and
// to the same place. That is too late to notice after a commit.
func (i *identity) checkIndex(path string) error {
	now, err := os.Stat(indexPath(path))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w: %w", ErrFileLost, err)
	case err != nil:
		return fmt.Errorf("checking the index of the log: %w", err)
	case !os.SameFile(now, i.index):
		return fmt.Errorf("%w: %q is another file", ErrFileLost, indexPath(path))
	}
	return nil
}
