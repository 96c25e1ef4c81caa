package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"

	_ "modernc.org/sqlite" // the "sqlite" driver of database/sql
)

// readConnections is the number of reads that run at the same time.
const readConnections = 2

// checkpoint is the size of the write-ahead log, in pages of 4 KiB, at which it
// is carried over into the database.
const checkpoint = "wal_autocheckpoint(4000)"

// file is an open database file.
type file struct {
	path  string // absolute, and without symbolic links, as SQLite has it
	queue int64
	db    *sql.DB
	conn  *sql.Conn // the one that writes
	reads *sql.DB
}

// openFile opens the connections, brings the file to the current schema and
// finds the queue in it.
func openFile(ctx context.Context, opts Options) (*file, error) {
	f := &file{}
	if err := f.open(ctx, opts); err != nil {
		return nil, errors.Join(err, f.close())
	}
	return f, nil
}

// open opens the file. What it opened before an error is for close.
func (f *file) open(ctx context.Context, opts Options) error {
	path, err := filepath.Abs(opts.Path)
	if err != nil {
		return err
	}
	f.db, err = sql.Open("sqlite", dataSource(path, opts, checkpoint))
	if err != nil {
		return err
	}
	f.conn, err = f.db.Conn(ctx)
	if err != nil {
		return err
	}
	err = prepareFile(ctx, f.conn)
	if err != nil {
		return err
	}
	f.queue, err = findQueue(ctx, f.conn, opts.Queue)
	if err != nil {
		return err
	}
	f.reads, err = sql.Open("sqlite", dataSource(path, opts, "query_only(ON)"))
	if err != nil {
		return err
	}
	f.reads.SetMaxOpenConns(readConnections)
	f.reads.SetMaxIdleConns(readConnections)
	f.path, err = filepath.EvalSymlinks(path)
	return err
}

// prepareFile makes an empty file, or one of this driver, ready for it. It
// changes no other.
func prepareFile(ctx context.Context, conn *sql.Conn) error {
	if _, err := schemaVersion(ctx, conn); err != nil {
		return err
	}
	if err := useLog(ctx, conn); err != nil {
		return err
	}
	return migrate(ctx, conn)
}

// useLog makes the file have a write-ahead log, so that nobody waits for readers.
func useLog(ctx context.Context, conn *sql.Conn) error {
	var mode string
	err := conn.QueryRowContext(ctx, "PRAGMA journal_mode = WAL").Scan(&mode)
	if err == nil && mode != "wal" {
		err = fmt.Errorf("its journal mode stays %q", mode)
	}
	if err != nil {
		return fmt.Errorf("making it use a write-ahead log: %w", err)
	}
	return nil
}

// dataSource names the file to the database driver. The time-out comes first, so
// that it holds for the other pragmas.
func dataSource(path string, opts Options, pragma string) string {
	pragmas := url.Values{"_pragma": {
		fmt.Sprintf("busy_timeout(%d)", opts.BusyTimeout.Milliseconds()),
		"foreign_keys(OFF)",
		"temp_store(MEMORY)",
		"synchronous(" + opts.Synchronous + ")",
		pragma,
	}}
	path = filepath.ToSlash(path)
	if !strings.HasPrefix(path, "/") {
		path = "/" + path // before the drive of Windows
	}
	name := url.URL{Scheme: "file", OmitHost: true, Path: path, RawQuery: pragmas.Encode()}
	return name.String()
}

// findQueue returns the key of a queue, which it adds where it is not there.
func findQueue(ctx context.Context, conn *sql.Conn, name string) (id int64, err error) {
	err = inTransaction(ctx, conn, func() error {
		_, insertErr := conn.ExecContext(ctx, "INSERT INTO queues (name) VALUES (?) ON CONFLICT DO NOTHING", name)
		if insertErr != nil {
			return insertErr
		}
		return conn.QueryRowContext(ctx, "SELECT id FROM queues WHERE name = ?", name).Scan(&id)
	})
	if err != nil {
		return 0, fmt.Errorf("finding the queue: %w", err)
	}
	return id, nil
}

// close closes what was opened.
func (f *file) close() error {
	var errs []error
	if f.reads != nil {
		errs = append(errs, f.reads.Close())
	}
	if f.conn != nil {
		errs = append(errs, f.conn.Close())
	}
	if f.db != nil {
		errs = append(errs, f.db.Close())
	}
	return errors.Join(errs...)
}
