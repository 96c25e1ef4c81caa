package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	_ "modernc.org/sqlite" // the "sqlite" driver of database/sql
)

// readConnections is the number of reads that run at the same time.
const readConnections = 2

const (
	// busyTime is the time in milliseconds after which whoever waits for other
	// processes looks whether that is still wanted.
	busyTime = 20
	// readTime is the longest, in milliseconds, that a read waits for a process
	// that has the file for itself.
	readTime = 5000
	// openTime is the longest, in milliseconds, that it takes to get the right to
	// make a new file.
	openTime = 10_000
)

// file is an open database file.
type file struct {
	path   string // absolute, and without symbolic links, as SQLite has it
	writes *ownConnection
	looks  *ownConnection
	reads  *sql.DB
}

// openFile brings the file to the current schema and opens the connections.
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
	err = prepareFile(ctx, path, opts)
	if err != nil {
		return err
	}
	f.path, err = filepath.EvalSymlinks(path)
	if err != nil {
		return err
	}
	f.writes, err = openConnection(path, busyTime*time.Millisecond, pragmas(opts, "cache_size(-65536)", "wal_autocheckpoint(1000)")...)
	if err != nil {
		return err
	}
	f.looks, err = openConnection(path, busyTime*time.Millisecond, pragmas(opts, "query_only(ON)")...)
	if err != nil {
		return err
	}
	f.reads, err = sql.Open("sqlite", dataSource(path, opts, readTime, "query_only(ON)"))
	if err != nil {
		return err
	}
	f.reads.SetMaxOpenConns(readConnections)
	f.reads.SetMaxIdleConns(readConnections)
	return nil
}

// prepareFile makes an empty file, or one of this driver, ready for it. It
// changes no other.
func prepareFile(ctx context.Context, path string, opts Options) (err error) {
	db, err := sql.Open("sqlite", dataSource(path, opts, openTime))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	_, err = schemaVersion(ctx, conn)
	if err != nil {
		return err
	}
	err = useLog(ctx, conn)
	if err != nil {
		return err
	}
	err = migrate(ctx, conn)
	if err != nil {
		return err
	}
	return noteBoot(ctx, conn)
}

// useLog makes the file have a write-ahead log, so that nobody waits for readers.
// SQLite does not wait here, as it does elsewhere, while another process that opens
// a new file is doing the same.
func useLog(ctx context.Context, conn *sql.Conn) error {
	var mode string
	var err error
	for end := time.Now().Add(readTime * time.Millisecond); ; {
		err = conn.QueryRowContext(ctx, "PRAGMA journal_mode = WAL").Scan(&mode)
		if resultCode(err) != codeBusy || time.Now().After(end) {
			break
		}
		select {
		case <-time.After(busyTime * time.Millisecond):
		case <-ctx.Done():
		}
	}
	if err == nil && mode != "wal" {
		err = fmt.Errorf("its journal mode stays %q", mode)
	}
	if err != nil {
		return fmt.Errorf("making it use a write-ahead log: %w", err)
	}
	return nil
}

// pragmas are those of each connection, and more.
func pragmas(opts Options, more ...string) []string {
	return append([]string{"foreign_keys(OFF)", "temp_store(MEMORY)", "synchronous(" + opts.Synchronous + ")"}, more...)
}

// dataSource names the file to database/sql. The time in milliseconds for which a
// statement waits for other processes comes first, so that it holds for the other
// pragmas.
func dataSource(path string, opts Options, busyTime int, more ...string) string {
	all := append([]string{fmt.Sprintf("busy_timeout(%d)", busyTime)}, pragmas(opts, more...)...)
	path = filepath.ToSlash(path)
	if !strings.HasPrefix(path, "/") {
		path = "/" + path // before the drive of Windows
	}
	name := url.URL{Scheme: "file", OmitHost: true, Path: path, RawQuery: url.Values{"_pragma": all}.Encode()}
	return name.String()
}

// close closes what was opened.
func (f *file) close() error {
	var errs []error
	if f.reads != nil {
		errs = append(errs, f.reads.Close())
	}
	for _, conn := range []*ownConnection{f.looks, f.writes} {
		if conn != nil {
			errs = append(errs, conn.close())
		}
	}
	return errors.Join(errs...)
}
