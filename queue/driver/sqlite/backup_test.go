package sqlite_test

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/sqlite"
)

func TestABackupHasEveryStateAndItsMode(t *testing.T) {
	path := newPath(t)
	d := open(t, sqlite.Options{Path: path})
	everyState(t, d)
	copied := path + ".backup"
	require.NoError(t, d.Backup(t.Context(), copied))
	info, err := os.Stat(copied)
	require.NoError(t, err)
	assert.Equal(t, "-rw-------", info.Mode().String())

	restored := open(t, sqlite.Options{Path: copied})
	assert.Equal(t, find(t, d), find(t, restored))
	assert.Equal(t, stats(t, d), stats(t, restored))
	require.NoError(t, restored.Check(t.Context()))
	checkCounts(t, openRaw(t, copied))
}

func TestABackupCanBeOpenedWithoutMigrations(t *testing.T) {
	path := newPath(t)
	d := open(t, sqlite.Options{Path: path})
	insert(t, d, newRecord(t, "job"))
	copied := path + ".backup"
	require.NoError(t, d.Backup(t.Context(), copied))
	restored := open(t, sqlite.Options{Path: copied, SkipMigrations: true})
	assert.Equal(t, []string{"job"}, list(t, restored))
	insert(t, restored, newRecord(t, "second"))
}

func TestABackupThatFailsLeavesNoFile(t *testing.T) {
	path := newPath(t)
	d, err := sqlite.Open(t.Context(), sqlite.Options{Path: path})
	require.NoError(t, err)
	defer func() { assert.NoError(t, d.Close(context.Background())) }()
	insert(t, d, newRecord(t, "job"))
	copied := path + ".backup"

	ended, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, d.Backup(ended, copied), context.Canceled)
	assert.NoFileExists(t, copied)

	require.NoError(t, os.WriteFile(copied, []byte("mine"), 0o600))
	err = d.Backup(t.Context(), copied)
	require.ErrorIs(t, err, fs.ErrExist)
	require.ErrorContains(t, err, fmt.Sprintf("backing up %q to %q", path, copied))
	data, err := os.ReadFile(copied)
	require.NoError(t, err)
	assert.Equal(t, "mine", string(data))
	require.ErrorIs(t, d.Backup(t.Context(), path), fs.ErrExist)
	require.Error(t, d.Backup(t.Context(), filepath.Join(path, "in a file")))

	lost := path + ".lost"
	require.NoError(t, os.Rename(path, lost))
	err = d.Backup(t.Context(), path+".second")
	require.Error(t, err)
	assert.NoFileExists(t, path+".second")
	require.NoError(t, os.WriteFile(path, nil, 0o600))
	require.ErrorIs(t, d.Backup(t.Context(), path+".second"), sqlite.ErrFileLost)
	assert.NoFileExists(t, path+".second")
	require.NoError(t, os.Rename(lost, path))

	require.NoError(t, d.Close(t.Context()))
	require.ErrorIs(t, d.Backup(t.Context(), path+".late"), driver.ErrClosed)
}

func TestABackupByAnotherProgram(t *testing.T) {
	path := newPath(t)
	d := open(t, sqlite.Options{Path: path})
	everyState(t, d)
	copied := path + ".backup"
	require.NoError(t, sqlite.Backup(t.Context(), sqlite.Options{Path: path}, copied))
	assert.Equal(t, find(t, d), find(t, open(t, sqlite.Options{Path: copied})))
}

// A backup used to need Open, which migrates the file under the services that use it.
func TestABackupOfAnOldFileDoesNotMigrateIt(t *testing.T) {
	path := newPath(t)
	require.NoError(t, open(t, sqlite.Options{Path: path}).Close(t.Context()))
	version := func(path string, more ...string) (found int) {
		raw := openRaw(t, path)
		for _, text := range more {
			_, err := raw.ExecContext(t.Context(), text)
			require.NoError(t, err)
		}
		require.NoError(t, raw.QueryRowContext(t.Context(), "PRAGMA user_version").Scan(&found))
		return found
	}
	version(path, "PRAGMA user_version = 2")
	copied := path + ".backup"
	require.NoError(t, sqlite.Backup(t.Context(), sqlite.Options{Path: path}, copied))
	assert.Equal(t, 2, version(path))
	assert.Equal(t, 2, version(copied))

	version(path, "PRAGMA user_version = 99")
	newer := &sqlite.NewerSchemaError{}
	require.ErrorAs(t, sqlite.Backup(t.Context(), sqlite.Options{Path: path}, copied+"2"), &newer)
	assert.Equal(t, 99, newer.Found)
	assert.NoFileExists(t, copied+"2")
}

func TestABackupOfWhatIsNoQueueFile(t *testing.T) {
	path := newPath(t)
	copied := path + ".backup"
	backup := func() error { return sqlite.Backup(t.Context(), sqlite.Options{Path: path}, copied) }
	require.ErrorIs(t, backup(), fs.ErrNotExist)
	assert.NoFileExists(t, path)

	require.NoError(t, os.WriteFile(path, []byte("a text, and no database, whose header has a hundred bytes, so this one is longer than that, to be sure"), 0o600))
	require.ErrorIs(t, backup(), sqlite.ErrDamaged)

	require.NoError(t, os.Remove(path))
	_, err := openRaw(t, path).ExecContext(t.Context(), "CREATE TABLE mine (id INTEGER)")
	require.NoError(t, err)
	require.ErrorContains(t, backup(), "not one of this library")
	assert.NoFileExists(t, copied)
	require.ErrorContains(t, sqlite.Backup(t.Context(), sqlite.Options{}, copied), "Path must name a file")
}

// Jobs are put and run while the file is backed up, and then the process is gone. Every job
// whose Put returned before the backup began is in the copy, and runs there if it has not
// ended.
func TestABackupUnderLoadIsRestored(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	path := newPath(t)
	d := open(t, sqlite.Options{Path: path})
	run := func(context.Context, *errand) {}
	q := onStore(t, d)
	require.NoError(t, q.Start(ctx))
	var mu sync.Mutex
	var done []string
	loaded := make(chan struct{})
	putting, stop := context.WithCancel(ctx)
	var putters sync.WaitGroup
	for p := range 4 {
		putters.Go(func() {
			for i := 0; putting.Err() == nil; i++ {
				id := fmt.Sprintf("load-%d-%d", p, i)
				errands.Store(id, run)
				if err := q.Put(ctx, newErrand(id)); err != nil {
					t.Errorf("putting %q: %v", id, err)
					return
				}
				mu.Lock()
				done = append(done, id)
				if len(done) == 200 {
					close(loaded)
				}
				mu.Unlock()
			}
		})
	}
	<-loaded
	var copies []string
	var acknowledged [][]string
	for i := range 3 {
		mu.Lock()
		acknowledged = append(acknowledged, append([]string(nil), done...))
		mu.Unlock()
		copies = append(copies, fmt.Sprint(path, ".", i))
		require.NoError(t, d.Backup(ctx, copies[i]))
	}
	stop()
	putters.Wait()
	q.Close(ctx)

	for i, copied := range copies {
		restored := open(t, sqlite.Options{Path: copied})
		require.NoError(t, restored.Check(ctx))
		q := onStore(t, restored)
		for _, id := range acknowledged[i] {
			_, ok := q.Get(ctx, id)
			require.True(t, ok, id)
		}
		sqlite.Elapse(restored, time.Hour)
		_, err := restored.RecoverStale(ctx) // which sees the leases for the first time
		require.NoError(t, err)
		sqlite.Elapse(restored, time.Hour)
		require.NoError(t, q.Start(ctx))
		errands.Store("new", run)
		require.NoError(t, q.Put(ctx, newErrand("new")))
		require.True(t, amboy.Wait(ctx, q))
		stats := q.Stats(ctx)
		assert.Equal(t, stats.Total, stats.Completed)
		assert.Greater(t, stats.Total, len(acknowledged[i]))
	}
}

func onStore(t *testing.T, d *sqlite.Driver) amboy.RetryableQueue {
	t.Helper()
	q, err := queue.NewDriverQueue(queue.DriverQueueOptions{Driver: d, Name: "mail", NumWorkers: 4, LockTimeout: time.Minute})
	require.NoError(t, err)
	t.Cleanup(func() { q.Close(context.Background()) })
	return q
}
