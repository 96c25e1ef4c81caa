package sqlite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/mongodb/amboy/queue/driver"
)

// Backup copies the file to a new one while it is in use. The copy is the file as it was at
// one moment after the call, with everything that was written before the call, and is as small
// as it can be. Open opens it. Only its owner can read and write it.
//
// Backup does not block writers, of this process or others. It takes seconds for each gigabyte,
// in which the write-ahead log of the file grows. The file at path is not complete until Backup
// returns, and is removed if Backup fails or ctx ends. The error wraps fs.ErrExist if path
// exists, ErrFileLost if the file is not the one that was opened, and driver.ErrClosed after
// Close. A Close does not end a Backup that has begun.
//
// A job that is running in the copy runs again some time after it is opened, as after a crash
// of its process, and so does a job that has ended since. So the copy is to replace the file:
// while both are open in queues, jobs run twice.
func (d *Driver) Backup(ctx context.Context, path string) error {
	err := d.backup(ctx, path)
	if err != nil {
		return fmt.Errorf("backing up %q to %q: %w", d.path, path, named(err))
	}
	return nil
}

func (d *Driver) backup(ctx context.Context, path string) (err error) {
	if d.isClosed() {
		return driver.ErrClosed
	}
	if ended := ctx.Err(); ended != nil {
		return ended
	}
	path, err = filepath.Abs(path)
	if err != nil {
		return err
	}
	// SQLite copies to a file that exists if it is empty.
	copied, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600) //nolint:gosec // The caller's path.
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(path))
		}
	}()
	defer func() { err = errors.Join(err, copied.Close()) }()
	err = d.vacuumInto(ctx, path)
	if err != nil {
		return cause(ctx, err)
	}
	return copied.Sync()
}

// cause returns the error of a context that has ended, or else err.
func cause(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

// vacuumInto copies the file on a connection of its own.
func (d *Driver) vacuumInto(ctx context.Context, path string) (err error) {
	own, err := openConnection(d.path, busyTime*time.Millisecond)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, own.close()) }()
	if _, err = d.writer.identity.check(d.path); err != nil {
		return err
	}
	own.conn.SetInterrupt(ctx.Done())
	return sqlitex.ExecuteTransient(own.conn, "VACUUM INTO ?", &sqlitex.ExecOptions{Args: []any{path}})
}
