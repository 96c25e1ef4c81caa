package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	_ "modernc.org/sqlite" // the "sqlite" driver of database/sql
)

// readConnections is the maximum number of concurrent reads.
const readConnections = 2

// maxSearching is the maximum number of connections that search at once.
const maxSearching = 4

const (
	// busyTime is the interval in milliseconds at which a call that waits for other
	// processes checks whether it is still wanted.
	busyTime = 20
	// readTime is how long, in milliseconds, a read waits for a process that has locked
	// the file exclusively.
	readTime = 5000
	// openTime is how long, in milliseconds, opening waits for the right to create the
	// file.
	openTime = 10_000
)

// file is an open database file.
type file struct {
	path       string // absolute, and without symbolic links, as SQLite reports it
	writes     *ownConnection
	claimReads *ownConnection
	searches   []*ownConnection
	reads      *sql.DB
}

// openFile brings the file to the current schema and opens the connections.
func openFile(ctx context.Context, opts Options) (*file, error) {
	f := &file{}
	if err := f.open(ctx, opts); err != nil {
		return nil, errors.Join(err, f.close())
	}
	return f, nil
}

// open opens the file. After an error, close releases what was opened.
func (f *file) open(ctx context.Context, opts Options) error {
	path, err := filepath.Abs(opts.Path)
	if err != nil {
		return err
	}
	err = checkPath(path)
	if err != nil {
		return err
	}
	err = checkFileSystem(path, opts)
	if err != nil {
		return err
	}
	err = prepareFile(ctx, path, opts)
	if err != nil {
		return refusal(path, err)
	}
	f.path, err = filepath.EvalSymlinks(path)
	if err != nil {
		return err
	}
	f.writes, err = openConnection(path, busyTime*time.Millisecond, pragmas(opts, writeCache, logLength)...)
	if err != nil {
		return err
	}
	err = f.writes.checkWritable()
	if err != nil {
		return refusal(path, err)
	}
	f.claimReads, err = openConnection(path, busyTime*time.Millisecond, pragmas(opts, "query_only(ON)")...)
	if err != nil {
		return err
	}
	for range min(runtime.GOMAXPROCS(0), maxSearching) {
		conn, errOpen := openConnection(path, readTime*time.Millisecond, pragmas(opts, "query_only(ON)")...)
		if errOpen != nil {
			return errOpen
		}
		f.searches = append(f.searches, conn)
	}
	f.reads, err = sql.Open("sqlite", dataSource(path, opts, readTime, "query_only(ON)")+"&mode=rw")
	if err != nil {
		return err
	}
	f.reads.SetMaxOpenConns(readConnections)
	f.reads.SetMaxIdleConns(readConnections)
	return openAll(ctx, f.reads, readConnections)
}

// checkPath returns an error for a path at which there can be no file.
func checkPath(path string) error {
	info, err := os.Stat(path)
	if err == nil && info.IsDir() {
		return fmt.Errorf("it is a directory; name a file in it, for instance %q", filepath.Join(path, "jobs.db"))
	}
	dir := filepath.Dir(path)
	info, errDir := os.Stat(dir)
	switch {
	case errors.Is(errDir, fs.ErrNotExist):
		return &pathError{fmt.Sprintf("the directory %q does not exist; create it first", dir), errDir}
	case errDir == nil && !info.IsDir():
		return fmt.Errorf("%q is not a directory; name a file in a directory", dir)
	case errors.Is(err, fs.ErrPermission):
		return &pathError{fmt.Sprintf("this process must be allowed to see what is in the directory %q", dir), err}
	}
	return nil // what else is wrong with it is an error of opening it
}

// pathError is the cause of an error, with a text that says what to do in place of its own.
type pathError struct {
	text  string
	cause error
}

func (e *pathError) Error() string { return e.text }
func (e *pathError) Unwrap() error { return e.cause }

// refusal explains the error of opening a file if the system refused it. The file must not be
// opened and closed to find out more: the process would lose the locks of other connections to it.
func refusal(path string, err error) error {
	switch resultCode(err) {
	case codePermission, codeReadOnly, codeCantOpen:
		return fmt.Errorf("this process must be able to read and write the file, and to write to its directory %q: %w", filepath.Dir(path), err)
	default:
		return err
	}
}

// openAll opens n connections now: opened later, they might get another file that has the name
// by then.
func openAll(ctx context.Context, db *sql.DB, n int) error {
	conns := make([]*sql.Conn, n)
	var errs []error
	for i := range conns {
		conn, err := db.Conn(ctx)
		if err != nil {
			errs = append(errs, err)
			break
		}
		conns[i] = conn
	}
	for _, conn := range conns {
		if conn != nil {
			errs = append(errs, conn.Close())
		}
	}
	return errors.Join(errs...)
}

// prepareFile initializes an empty file or migrates a file of this driver. It changes no
// other file.
func prepareFile(ctx context.Context, path string, opts Options) (err error) {
	source := dataSource(path, opts, openTime)
	_, err = os.Stat(path)
	if opts.SkipMigrations {
		if err != nil {
			return err
		}
		return onConnection(ctx, source+"&mode=rw", checkCurrent)
	}
	if errors.Is(err, fs.ErrNotExist) {
		var model string
		model, err = newModel(path)
		if err == nil {
			defer func() { err = errors.Join(err, os.Remove(model)) }()
			source += "&" + url.Values{"modeof": {model}}.Encode()
		}
	}
	if err != nil {
		return fmt.Errorf("creating the file: %w", err)
	}
	return onConnection(ctx, source, setUp)
}

// onConnection calls a function with a connection to a file, which is closed afterwards.
func onConnection(ctx context.Context, source string, call func(context.Context, *sql.Conn) error) (err error) {
	db, err := sql.Open("sqlite", source)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	return call(ctx, conn)
}

// setUp initializes an empty file or migrates a file of this driver.
func setUp(ctx context.Context, conn *sql.Conn) error {
	_, err := schemaVersion(ctx, conn)
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
	err = checkTables(ctx, conn)
	if err != nil {
		return err
	}
	return noteBoot(ctx, conn)
}

// checkCurrent returns an error unless the file has the current schema. It changes no data. A backup
// has no write-ahead log yet.
func checkCurrent(ctx context.Context, conn *sql.Conn) error {
	version, err := schemaVersion(ctx, conn)
	if err != nil {
		return err
	}
	if version != currentVersion() {
		return fmt.Errorf("it has schema version %d, and this library needs version %d: a service with this version of the library migrates the file when it opens it", version, currentVersion())
	}
	err = checkTables(ctx, conn)
	if err != nil {
		return err
	}
	return useLog(ctx, conn)
}

// newModel makes a file beside path that only its owner can read and write. SQLite makes a
// database with its mode, and the log with the mode of the database. The database itself must
// not be made and closed here: the process would lose the locks of other connections to it.
func newModel(path string) (model string, err error) {
	f, err := os.CreateTemp(filepath.Dir(path), ".amboy-*")
	if err != nil {
		var cause *fs.PathError
		if errors.As(err, &cause) {
			err = cause.Err // without the name of the model, which means nothing to the caller
		}
		return "", fmt.Errorf("this process must be able to write to the directory %q: %w", filepath.Dir(path), err)
	}
	return f.Name(), f.Close()
}

// useLog switches the file to a write-ahead log, so that writers do not wait for readers.
// SQLite's busy timeout does not apply here while another process that opens a new file is
// doing the same.
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
		err = fmt.Errorf("journal mode stays %q", mode)
	}
	if err != nil {
		return fmt.Errorf("switching it to a write-ahead log: %w", err)
	}
	return nil
}

// writeCache sets the cache of the connection that writes to 8 MiB. When SQLite has sorted
// pages, which it does in most transactions, the commit reads the whole table of cached pages.
// With 64 MiB that takes longer than all else in a commit. Pages that are not cached are read
// from the cache of the operating system.
const writeCache = "cache_size(-8192)"

// logLength sets the number of pages in the write-ahead log from which on a commit copies them into
// the file, which calls fsync twice and so stops all writes for milliseconds. A page that changes
// often is copied once for all its changes. Up to 4,062 pages, one hash table is an index of them.
const logLength = "wal_autocheckpoint(4000)"

// pragmas returns the pragmas of each connection, followed by more.
func pragmas(opts Options, more ...string) []string {
	return append([]string{"foreign_keys(OFF)", "temp_store(MEMORY)", "synchronous(" + opts.Synchronous + ")"}, more...)
}

// dataSource returns the data source name for database/sql. The busy timeout in
// milliseconds comes first, so that it applies to the other pragmas.
func dataSource(path string, opts Options, busyTime int, more ...string) string {
	all := append([]string{fmt.Sprintf("busy_timeout(%d)", busyTime)}, pragmas(opts, more...)...)
	path = filepath.ToSlash(path)
	if !strings.HasPrefix(path, "/") {
		path = "/" + path // before the drive letter on Windows
	}
	name := url.URL{Scheme: "file", OmitHost: true, Path: path, RawQuery: url.Values{"_pragma": all}.Encode()}
	return name.String()
}

// close closes all connections that were opened.
func (f *file) close() error {
	var errs []error
	if f.reads != nil {
		errs = append(errs, f.reads.Close())
	}
	for _, conn := range append(f.searches, f.claimReads, f.writes) {
		if conn != nil {
			errs = append(errs, conn.close())
		}
	}
	return errors.Join(errs...)
}
