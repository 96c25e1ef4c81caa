package sqlite_test

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/sqlite"
)

// A file of jobs contains what they work on, and was readable for all users of the machine.
func TestNewFilesAreOnlyForTheirOwner(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("files have no mode here")
	}
	path := newPath(t)
	d := open(t, sqlite.Options{Path: path})
	insert(t, d, newRecord(t, "job"))
	for _, suffix := range suffixes() {
		info, err := os.Stat(path + suffix)
		require.NoError(t, err)
		assert.Equal(t, "-rw-------", info.Mode().String(), suffix)
	}
	assert.Len(t, filesBeside(t, path), len(suffixes()), "nothing else is left")
}

// suffixes are the ends of the names of the files of an open database.
func suffixes() []string {
	if runtime.GOOS == "linux" {
		return []string{"", "-wal", "-shm", "-lock"}
	}
	return []string{"", "-wal", "-shm"}
}

func filesBeside(t *testing.T, path string) []os.DirEntry {
	t.Helper()
	entries, err := os.ReadDir(filepath.Dir(path))
	require.NoError(t, err)
	return entries
}

func TestTheModeOfAFileStays(t *testing.T) {
	path := newPath(t)
	require.NoError(t, os.WriteFile(path, nil, 0o600))
	require.NoError(t, os.Chmod(path, 0o660)) //nolint:gosec // The file is shared by a group.
	d := open(t, sqlite.Options{Path: path})
	insert(t, d, newRecord(t, "job"))
	for _, suffix := range suffixes() {
		info, err := os.Stat(path + suffix)
		require.NoError(t, err)
		assert.Equal(t, os.FileMode(0o660), info.Mode().Perm(), suffix)
	}
}

func needsRenaming(t *testing.T) {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("an open file can't be renamed here")
	}
}

// Puts went to a file without a name, and were lost when the process ended.
func TestAPutAfterTheFileWasLostFails(t *testing.T) {
	needsRenaming(t)
	for name, lose := range map[string]func(t *testing.T, path string){
		"deleted":     func(t *testing.T, path string) { require.NoError(t, os.Remove(path)) },
		"moved":       func(t *testing.T, path string) { require.NoError(t, os.Rename(path, path+".old")) },
		"log deleted": func(t *testing.T, path string) { require.NoError(t, os.Remove(path+"-wal")) },
		"replaced by a copy": func(t *testing.T, path string) {
			data, err := os.ReadFile(path)
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(path+".new", data, 0o600))
			require.NoError(t, os.Rename(path+".new", path))
		},
		"log replaced": func(t *testing.T, path string) {
			require.NoError(t, os.Rename(path+"-wal", path+"-old"))
			require.NoError(t, os.WriteFile(path+"-wal", nil, 0o600))
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := newPath(t)
			d := open(t, sqlite.Options{Path: path})
			insert(t, d, newRecord(t, "ready"), newRecord(t, "running"))
			running := claim(t, d, 1)[0]
			lose(t, path)

			_, err := d.Insert(t.Context(), []*driver.Record{newRecord(t, "lost")})
			require.ErrorIs(t, err, sqlite.ErrFileLost)
			require.ErrorIs(t, err, driver.ErrOutcomeUnknown, "the record may be in the lost file")
			require.ErrorContains(t, err, path)
			_, err = d.Insert(t.Context(), []*driver.Record{newRecord(t, "refused")})
			require.ErrorIs(t, err, sqlite.ErrFileLost)
			require.NotErrorIs(t, err, driver.ErrOutcomeUnknown, "it was not even tried")
			_, err = d.Claim(t.Context(), request(10))
			require.ErrorIs(t, err, sqlite.ErrFileLost)
			assert.Contains(t, list(t, d), "running", "what was opened can be read")
			_, err = d.Complete(t.Context(), []driver.Completion{{Lease: driver.LeaseOf(running), Record: running}})
			require.ErrorIs(t, err, sqlite.ErrFileLost)
		})
	}
}

func TestAPutInTheCallersTransactionAfterTheFileWasLostFails(t *testing.T) {
	needsRenaming(t)
	path := newPath(t)
	d := open(t, sqlite.Options{Path: path})
	err := inTransaction(t, path, func(ctx context.Context) error {
		require.NoError(t, os.Rename(path, path+".old"))
		require.NoError(t, os.WriteFile(path, nil, 0o600))
		_, err := d.Insert(ctx, []*driver.Record{newRecord(t, "refused")})
		return err
	})
	require.ErrorIs(t, err, sqlite.ErrFileLost)
}

// The locks of SQLite are on this file. A process that opens the database makes another one, and then
// both wrote at the same time, and one overwrote what the other had put.
func TestAPutAfterTheIndexOfTheLogWasLostIsRefused(t *testing.T) {
	needsRenaming(t)
	path := newPath(t)
	index := path + "-shm"
	d := open(t, sqlite.Options{Path: path})
	insert(t, d, newRecord(t, "first"))
	require.NoError(t, os.Rename(index, index+".away"))
	for _, replace := range []func() error{
		func() error { return nil },
		func() error { return os.WriteFile(index, nil, 0o600) },
	} {
		require.NoError(t, replace())
		_, err := d.Insert(t.Context(), []*driver.Record{newRecord(t, "refused")})
		require.ErrorIs(t, err, sqlite.ErrFileLost)
		require.NotErrorIs(t, err, driver.ErrOutcomeUnknown)
		err = inTransaction(t, path, func(ctx context.Context) error {
			_, failure := d.Insert(ctx, []*driver.Record{newRecord(t, "refused")})
			return failure
		})
		require.ErrorIs(t, err, sqlite.ErrFileLost)
	}
	require.NoError(t, os.Rename(index+".away", index))
	insert(t, d, newRecord(t, "second"))
	assert.Equal(t, []string{"first", "second"}, list(t, d))
}

func TestAPutGoesToItsQueueAfterItsNameWasDroppedWhileTheFileWasAway(t *testing.T) {
	needsRenaming(t)
	path := newPath(t)
	d := open(t, sqlite.Options{Path: path})
	insert(t, d, inQueue(t, "gone", "job"))
	endAndForget(t, d, "gone")
	require.NoError(t, os.Rename(path, path+".away"))
	_, err := d.Prune(t.Context(), pruneAll())
	require.ErrorIs(t, err, driver.ErrOutcomeUnknown)
	require.NoError(t, os.Rename(path+".away", path))

	insert(t, d, inQueue(t, "gone", "second"))
	assert.Equal(t, []string{"gone"}, queueNames(t, d))
	endAndForget(t, d, "gone")
}

// endSpy is a driver that tells when an end could not be written.
type endSpy struct {
	*sqlite.Driver
	failed chan error
}

func (d endSpy) Complete(ctx context.Context, completions []driver.Completion) ([]error, error) {
	errs, err := d.Driver.Complete(ctx, completions)
	if err != nil {
		select {
		case d.failed <- err:
		default:
		}
	}
	return errs, err
}

// startBlocked starts a queue with a job that runs until finish is called. The job's end, of
// a megabyte, is tried then, and failed receives why it could not be written.
func startBlocked(ctx context.Context, t *testing.T, d *sqlite.Driver) (q amboy.Queue, finish func(), failed <-chan error) {
	t.Helper()
	spy := endSpy{d, make(chan error, 1)}
	q, err := queue.NewDriverQueue(queue.DriverQueueOptions{Driver: spy, Name: "mail", NumWorkers: 4, LockTimeout: time.Minute})
	require.NoError(t, err)
	t.Cleanup(func() { q.Close(context.WithoutCancel(ctx)) })
	started, finished := make(chan struct{}), make(chan struct{})
	errands.Store("blocked", func(_ context.Context, j *errand) {
		close(started)
		<-finished
		j.Filler = strings.Repeat("x", 1<<20)
	})
	require.NoError(t, q.Put(ctx, newErrand("blocked")))
	require.NoError(t, q.Start(ctx))
	<-started
	return q, func() { close(finished) }, spy.failed
}

// The job runs while the file is moved away and back.
func TestAJobEndsWhenItsFileIsBack(t *testing.T) {
	needsRenaming(t)
	path := newPath(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	q, finish, failed := startBlocked(ctx, t, open(t, sqlite.Options{Path: path}))
	require.NoError(t, os.Rename(path, path+".away"))
	finish()
	require.ErrorIs(t, <-failed, sqlite.ErrFileLost)
	require.ErrorIs(t, q.Put(ctx, newErrand("refused")), sqlite.ErrFileLost)
	require.NoError(t, os.Rename(path+".away", path))
	require.True(t, amboy.WaitJob(ctx, newErrand("blocked"), q))
	j, ok := q.Get(ctx, "blocked")
	require.True(t, ok)
	assert.True(t, j.Status().Completed)
	assert.Equal(t, amboy.QueueStats{Completed: 1, Total: 1}, q.Stats(ctx))
}
