package sqlite_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/bson"

	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/sqlite"
)

func TestOpenRefusesInvalidOptions(t *testing.T) {
	for name, test := range map[string]struct {
		opts sqlite.Options
		want string
	}{
		"no path":       {sqlite.Options{}, `Path must name a file (is "")`},
		"memory":        {sqlite.Options{Path: ":memory:"}, `Path must name a file (is ":memory:")`},
		"synchronous":   {sqlite.Options{Path: "x", Synchronous: "OFF"}, `Synchronous must be "NORMAL" or "FULL" (is "OFF")`},
		"negative keep": {sqlite.Options{Path: "x", KeepFinished: -1}, "KeepFinished must not be negative (is -1)"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			_, err := sqlite.Open(t.Context(), test.opts)
			require.EqualError(t, err, "invalid sqlite driver options: "+test.want)
			assert.NoFileExists(t, "x")
		})
	}
}

// A process that was suspended while it wrote kept others from ending their Open in time.
func TestOpenReturnsWhenItsContextEndsWhileAnotherProcessWrites(t *testing.T) {
	path := newPath(t)
	require.NoError(t, open(t, sqlite.Options{Path: path}).Close(t.Context()))
	defer sqlite.SetBoot("another boot")() // which Open writes
	unlock := lock(t, path)
	defer unlock()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	begun := time.Now()
	_, err := sqlite.Open(ctx, sqlite.Options{Path: path})
	require.ErrorIs(t, err, context.DeadlineExceeded)
	assert.Less(t, time.Since(begun), 3*time.Second)
}

func TestOpenRefusesFilesOfOtherPrograms(t *testing.T) {
	for name, test := range map[string]struct {
		make func(t *testing.T, path string) string
		want string
	}{
		"no database": {
			func(t *testing.T, path string) string {
				require.NoError(t, os.WriteFile(path, []byte("this is no database, however much one reads of it"), 0o600))
				return path
			},
			"file is not a database",
		},
		"another database": {
			func(t *testing.T, path string) string {
				execute(t, path, "CREATE TABLE other (x)")
				return path
			},
			"not one of this library",
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := test.make(t, newPath(t))
			_, err := sqlite.Open(t.Context(), sqlite.Options{Path: path})
			require.ErrorContains(t, err, fmt.Sprintf("opening %q", path))
			assert.ErrorContains(t, err, test.want)
		})
	}
}

func TestOpenDoesNotSayWhatIsWrongWithThePath(t *testing.T) {
	for name, test := range map[string]struct {
		make func(t *testing.T, path string) string
		want string
	}{
		"missing directory": {
			func(_ *testing.T, path string) string { return filepath.Join(filepath.Dir(path), "missing", "jobs.db") },
			`missing" does not exist; create it first`,
		},
		"file in place of a directory": {
			func(t *testing.T, path string) string {
				require.NoError(t, os.WriteFile(path, nil, 0o600))
				return filepath.Join(path, "jobs.db")
			},
			"is not a directory; name a file in a directory",
		},
		"directory": {
			func(_ *testing.T, path string) string { return filepath.Dir(path) },
			"it is a directory; name a file in it, for instance",
		},
		"read-only directory": {readOnly, `must be able to write to the directory "/sys/kernel": `},
	} {
		t.Run(name, func(t *testing.T) {
			path := test.make(t, newPath(t))
			_, err := sqlite.Open(t.Context(), sqlite.Options{Path: path})
			require.ErrorContains(t, err, fmt.Sprintf("opening %q: ", path))
			require.ErrorContains(t, err, test.want)
			if name == "missing directory" {
				assert.ErrorIs(t, err, fs.ErrNotExist)
			}
		})
	}
}

// readOnly returns a path in a directory in which not even root can write.
func readOnly(t *testing.T, _ string) string {
	t.Helper()
	const dir = "/sys/kernel"
	if _, err := os.Stat(dir); err != nil {
		t.Skip("there is no directory here that root can't write to")
	}
	return filepath.Join(dir, "jobs.db")
}

// execute changes the file without the driver.
func execute(t *testing.T, path, query string) {
	t.Helper()
	db := openRaw(t, path)
	_, err := db.ExecContext(t.Context(), query)
	require.NoError(t, err)
}

func TestOpenDoesNotChangeAnotherDatabase(t *testing.T) {
	path := newPath(t)
	execute(t, path, "CREATE TABLE other (x)")
	before, err := os.ReadFile(path)
	require.NoError(t, err)
	_, err = sqlite.Open(t.Context(), sqlite.Options{Path: path})
	require.Error(t, err)
	after, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, before, after)
}

func TestOpenMigratesAnEmptyFile(t *testing.T) {
	path := newPath(t)
	require.NoError(t, os.WriteFile(path, nil, 0o600))
	d := open(t, sqlite.Options{Path: path})
	insert(t, d, newRecord(t, "job"))
	var version int
	require.NoError(t, openRaw(t, path).QueryRowContext(t.Context(), "PRAGMA user_version").Scan(&version))
	assert.Equal(t, sqlite.SchemaVersion, version)
}

func TestOpenRefusesANewerFile(t *testing.T) {
	path := newPath(t)
	d, err := sqlite.Open(t.Context(), sqlite.Options{Path: path})
	require.NoError(t, err)
	require.NoError(t, d.Close(t.Context()))
	execute(t, path, fmt.Sprint("PRAGMA user_version = ", sqlite.SchemaVersion+1))

	_, err = sqlite.Open(t.Context(), sqlite.Options{Path: path})
	require.ErrorIs(t, err, sqlite.ErrNewerSchema)
	var newer *sqlite.NewerSchemaError
	require.ErrorAs(t, err, &newer)
	assert.Equal(t, sqlite.NewerSchemaError{Found: sqlite.SchemaVersion + 1, Known: sqlite.SchemaVersion}, *newer)
}

// The test opens a file with records in every state concurrently with drivers that know more
// migrations.
func TestOpenMigratesAFileAndKeepsItsRecords(t *testing.T) {
	path := newPath(t)
	d, err := sqlite.Open(t.Context(), sqlite.Options{Path: path})
	require.NoError(t, err)
	everyState(t, d)
	before := find(t, d)
	require.NoError(t, d.Close(t.Context()))

	defer sqlite.AddMigrations(
		"ALTER TABLE jobs ADD COLUMN color TEXT NOT NULL DEFAULT 'red'",
		"UPDATE jobs SET color = 'blue'",
	)()
	var opened sync.WaitGroup
	for i := range 4 {
		r := newRecord(t, fmt.Sprint("new-", i))
		opened.Go(func() { assert.NoError(t, openAndInsert(path, r)) })
	}
	opened.Wait()
	migrated := open(t, sqlite.Options{Path: path})
	after := find(t, migrated)
	require.Len(t, after, len(before)+4)
	assert.Equal(t, before, after[:len(before)])
	db := openRaw(t, path)
	var version, blue int
	require.NoError(t, db.QueryRowContext(t.Context(), "PRAGMA user_version").Scan(&version))
	require.NoError(t, db.QueryRowContext(t.Context(), "SELECT count(*) FROM jobs WHERE color = 'blue'").Scan(&blue))
	assert.Equal(t, sqlite.SchemaVersion+2, version)
	assert.Equal(t, len(before), blue, "each step is taken once, on what was there")
}

// The test opens a file of the schema version without managers.
func TestOpenMigratesTheManagersOfRecords(t *testing.T) {
	path := newPath(t)
	unknown := newRecord(t, "unknown manager")
	manager := *unknown.Dependency
	manager.Type, manager.Version = "unknown", 3
	unknown.Dependency = &manager
	unreadable := newRecord(t, "unreadable")
	unreadable.Dependency = &manager
	restore := sqlite.OnlyFirstMigrations(2)
	d, err := sqlite.Open(t.Context(), sqlite.Options{Path: path})
	restore()
	require.NoError(t, err)
	require.NoError(t, d.Close(t.Context()))
	// The records as the earlier version wrote them.
	writeOld := func(r *driver.Record, extra any) {
		t.Helper()
		_, err = openRaw(t, path).ExecContext(t.Context(), `INSERT INTO jobs (queue, place, priority, name, job_id, type, version, format, dependency, extra, body)
			VALUES (1, 4, 0, ?, ?, ?, ?, 1, 9, ?, ?)`, r.Name, r.JobID(), r.Type, r.Version, extra, r.Raw())
		require.NoError(t, err)
	}
	execute(t, path, fmt.Sprintf("INSERT INTO queues (id, name, ready) VALUES (1, '%s', 2)", queueName))
	encoded, err := bson.Marshal(bson.M{"dependency": unknown.Dependency})
	require.NoError(t, err)
	writeOld(unknown, encoded)
	writeOld(unreadable, []byte("no document"))

	migrated := open(t, sqlite.Options{Path: path})
	insert(t, migrated, newRecord(t, "plain"))
	req := request(10)
	req.Except = []driver.Kind{driver.KindOf(unknown)}
	var claimed driver.Claimed
	for _, want := range [][]string{{"unreadable", "plain"}, nil} {
		claimed, err = migrated.Claim(t.Context(), req)
		require.NoError(t, err)
		var ids []string
		for _, r := range claimed.Records {
			ids = append(ids, r.JobID())
		}
		assert.Equal(t, want, ids)
	}
	req.Except = nil
	claimed, err = migrated.Claim(t.Context(), req)
	require.NoError(t, err)
	require.Len(t, claimed.Records, 1)
	assert.Equal(t, driver.Kind{Type: unknown.Type, Version: unknown.Version, Manager: "unknown", ManagerVersion: 3}, driver.KindOf(claimed.Records[0]))
}

// The test migrates a file that an older process has open.
func TestAProcessStopsWritingAfterANewerOneMigratedTheFile(t *testing.T) {
	path := newPath(t)
	older := open(t, sqlite.Options{Path: path})
	insert(t, older, newRecord(t, "ready"), newRecord(t, "running"))
	running := claim(t, older, 1)[0]
	defer sqlite.AddMigrations("ALTER TABLE jobs ADD COLUMN color TEXT NOT NULL DEFAULT 'red'")()
	newer := open(t, sqlite.Options{Path: path})

	refused := func(err error) {
		t.Helper()
		require.ErrorIs(t, err, sqlite.ErrNewerSchema)
		require.ErrorContains(t, err, fmt.Sprintf("schema version %d, and this one knows versions up to %d", sqlite.SchemaVersion+1, sqlite.SchemaVersion))
	}
	for range 2 {
		_, err := older.Insert(t.Context(), []*driver.Record{newRecord(t, "refused")})
		refused(err)
		_, err = older.Claim(t.Context(), request(10))
		refused(err)
		_, err = older.Complete(t.Context(), []driver.Completion{{Lease: driver.LeaseOf(running), Record: running}})
		refused(err)
	}
	refused(inTransaction(t, path, func(ctx context.Context) error {
		_, err := older.Insert(ctx, []*driver.Record{newRecord(t, "refused")})
		return err
	}))
	assert.Equal(t, list(t, newer), list(t, older), "it still reads")
	insert(t, newer, newRecord(t, "accepted"))
	assert.Len(t, list(t, older), 3)
	assert.Len(t, claim(t, newer, 10), 2)
}

// inTransaction makes a change in a transaction of the caller, which it rolls back.
func inTransaction(t *testing.T, path string, change func(context.Context) error) error {
	t.Helper()
	tx, err := openRaw(t, path).BeginTx(t.Context(), nil)
	require.NoError(t, err)
	defer func() { assert.NoError(t, tx.Rollback()) }()
	return change(sqlite.WithTx(t.Context(), tx))
}

func TestOpenRefusesAFileFromBeforeTheFirstRelease(t *testing.T) {
	path := newPath(t)
	d, err := sqlite.Open(t.Context(), sqlite.Options{Path: path})
	require.NoError(t, err)
	require.NoError(t, d.Close(t.Context()))
	execute(t, path, "PRAGMA user_version = 1")
	_, err = sqlite.Open(t.Context(), sqlite.Options{Path: path})
	require.ErrorContains(t, err, "before the first release")
	require.ErrorContains(t, err, path)
}

func TestOpenAtTheSameTime(t *testing.T) {
	path := newPath(t)
	var opened sync.WaitGroup
	for i := range 4 {
		r := newRecord(t, fmt.Sprint("job-", i))
		opened.Go(func() { assert.NoError(t, openAndInsert(path, r)) })
	}
	opened.Wait()
	assert.Len(t, list(t, open(t, sqlite.Options{Path: path})), 4)
}

func openAndInsert(path string, r *driver.Record) error {
	ctx := context.Background()
	d, err := sqlite.Open(ctx, sqlite.Options{Path: path})
	if err != nil {
		return err
	}
	errs, err := d.Insert(ctx, []*driver.Record{r})
	return errors.Join(append(errs, err, d.Close(ctx))...)
}

// TestOpenOfNewFilesAtTheSameTime makes many new files, each by several connections
// at once: while one of them switches to the write-ahead log, SQLite tells the
// others at once that the file is busy.
func TestOpenOfNewFilesAtTheSameTime(t *testing.T) {
	for range 25 {
		path := newPath(t)
		var opened sync.WaitGroup
		for i := range 8 {
			r := newRecord(t, fmt.Sprint("job-", i))
			opened.Go(func() { assert.NoError(t, openAndInsert(path, r)) })
		}
		opened.Wait()
	}
}

func TestOpenDoesNotWaitForALockedFile(t *testing.T) {
	path := newPath(t)
	insert(t, open(t, sqlite.Options{Path: path}), newRecord(t, "job"))
	defer lock(t, path)()
	assert.Equal(t, []string{"job"}, list(t, open(t, sqlite.Options{Path: path})))
}

func TestOpenTakesAnyPath(t *testing.T) {
	path := filepath.Join(t.TempDir(), "50% of what? #1 & é.db")
	d := open(t, sqlite.Options{Path: path})
	insert(t, d, newRecord(t, "job"))
	assert.FileExists(t, path)
}
