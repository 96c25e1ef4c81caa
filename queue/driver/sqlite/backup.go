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

func (d *Driver) backup(ctx context.Context, to string) error {
	if d.isClosed() {
		return driver.ErrClosed
	}
	return copyFile(ctx, d.path, to, func(*ownConnection) error {
		_, err := d.writer.identity.check(d.path)
		return err
	})
}

// Backup copies the file that opts.Path names, as Driver.Backup does, for a program that has no
// queue on it, such as a nightly command. Services may be using the file meanwhile. Unlike Open,
// Backup neither creates nor migrates the file, and copies the files of older versions of this
// library too. The error wraps fs.ErrNotExist if there is no such file, and is a
// *NewerSchemaError if a newer version of this library wrote it.
func Backup(ctx context.Context, opts Options, path string) error {
	opts, err := opts.withDefaults()
	if err != nil {
		return err
	}
	err = backUp(ctx, opts, path)
	if err != nil {
		return fmt.Errorf("backing up %q to %q: %w", opts.Path, path, named(err))
	}
	return nil
}

func backUp(ctx context.Context, opts Options, to string) error {
	if _, err := os.Stat(opts.Path); err != nil {
		return err
	}
	from, err := filepath.Abs(opts.Path)
	if err == nil {
		err = checkFileSystem(from, opts)
	}
	if err != nil {
		return err
	}
	return copyFile(ctx, from, to, (*ownConnection).checkOwner)
}

// checkOwner returns an error unless the file is one of this library, of a version that this
// one knows.
func (c *ownConnection) checkOwner() error {
	application, version := int64(0), int64(0)
	err := c.queryText(`SELECT (SELECT application_id FROM pragma_application_id), (SELECT user_version FROM pragma_user_version)`, func(r *row) error {
		application, version = r.integer(), r.integer()
		return nil
	})
	switch {
	case err != nil:
		return fmt.Errorf("reading the schema version: %w", err)
	case application != applicationID:
		return errForeignFile
	case int(version) > currentVersion():
		return &NewerSchemaError{Found: int(version), Known: currentVersion()}
	}
	return nil
}

// copyFile copies a database file to a new one, if check of a connection to it returns nil.
func copyFile(ctx context.Context, from, to string, check func(*ownConnection) error) (err error) {
	if ended := ctx.Err(); ended != nil {
		return ended
	}
	to, err = filepath.Abs(to)
	if err != nil {
		return err
	}
	// SQLite copies to a file that exists if it is empty.
	copied, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600) //nolint:gosec // The caller's path.
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(to))
		}
	}()
	defer func() { err = errors.Join(err, copied.Close()) }()
	err = vacuumInto(ctx, from, to, check)
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

// vacuumInto copies a file on a connection of its own.
func vacuumInto(ctx context.Context, from, to string, check func(*ownConnection) error) (err error) {
	own, err := openConnection(from, busyTime*time.Millisecond)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, own.close()) }()
	err = check(own)
	if err != nil {
		return err
	}
	own.conn.SetInterrupt(ctx.Done())
	return sqlitex.ExecuteTransient(own.conn, "VACUUM INTO ?", &sqlitex.ExecOptions{Args: []any{to}})
}
