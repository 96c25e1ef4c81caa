package postgres_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/pgtest"
	"github.com/mongodb/amboy/job"
	"github.com/mongodb/amboy/queue"
	"github.com/mongodb/amboy/queue/driver/postgres"
)

var (
	ranOnSmallDisk atomic.Int64
	smallDiskHolds = make(chan struct{})
	onSmallDisk    = job.Define("on-small-disk", 1, func(_ context.Context, text string) error {
		if text == "waits" {
			<-smallDiskHolds
		}
		ranOnSmallDisk.Add(1)
		return nil
	})
)

// TestPutFailsWhileTheDiskIsFullAndNothingIsLost keeps the tables on a small disk. The log of the
// server is on another one: without room for it the server stops.
func TestPutFailsWhileTheDiskIsFullAndNothingIsLost(t *testing.T) {
	pgtest.URL(t) // skips the test if there is no server
	server, err := pgtest.Start(pgtest.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, server.Stop()) })
	conn := connect(t, server.URL())
	var data string
	require.NoError(t, conn.QueryRow(t.Context(), "SHOW data_directory").Scan(&data))
	disk := smallDisk(t, data)
	execute(t, conn, "CREATE TABLESPACE small LOCATION '"+disk+"'")
	execute(t, conn, "ALTER DATABASE postgres SET default_tablespace = small")
	d, err := postgres.Open(t.Context(), postgres.Options{URL: server.URL()})
	require.NoError(t, err)
	q, err := queue.NewDriverQueue(queue.DriverQueueOptions{Driver: d, CloseDriver: true, NumWorkers: 4})
	require.NoError(t, err)
	t.Cleanup(func() { q.Close(context.Background()) })
	accepted := 0
	put := func(text string) error {
		_, failure := onSmallDisk.Put(t.Context(), q, text)
		if failure == nil {
			accepted++
		}
		return failure
	}
	require.NoError(t, put("waits"))
	require.NoError(t, put("waits"))
	require.NoError(t, q.Start(t.Context()))
	require.Eventually(t, func() bool { return q.Stats(t.Context()).Running == 2 }, time.Minute, time.Millisecond)

	filler, err := os.Create(filepath.Join(disk, "filler"))
	require.NoError(t, err)
	for err == nil {
		_, err = filler.Write(make([]byte, os.Getpagesize()))
	}
	require.ErrorIs(t, err, syscall.ENOSPC)
	require.NoError(t, filler.Close())
	for err = nil; err == nil; {
		err = put(strings.Repeat("x", 10_000))
	}
	t.Log(err)
	require.ErrorIs(t, err, amboy.ErrStoreFull)
	assert.False(t, amboy.IsDuplicateJobError(err))
	close(smallDiskHolds) // their ends are written as soon as there is room

	require.NoError(t, os.Remove(filler.Name()))
	require.NoError(t, put("more"))
	require.Eventually(t, func() bool { return q.Stats(t.Context()).Completed == accepted }, time.Minute, 10*time.Millisecond)
	assert.GreaterOrEqual(t, ranOnSmallDisk.Load(), int64(accepted))
}

// smallDisk returns a folder on a disk of 8 MB that belongs to the owner of another folder.
func smallDisk(t *testing.T, other string) string {
	t.Helper()
	disk, err := os.MkdirTemp("", "amboy-disk-") // others may not enter t.TempDir
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, os.Remove(disk)) })
	if err := syscall.Mount("none", disk, "tmpfs", 0, "size=8m"); err != nil {
		t.Skipf("this user can't make a small disk: %v", err)
	}
	t.Cleanup(func() { assert.NoError(t, syscall.Unmount(disk, syscall.MNT_DETACH)) })
	var owner syscall.Stat_t
	require.NoError(t, errors.Join(syscall.Stat(other, &owner), os.Chown(disk, int(owner.Uid), int(owner.Gid)), os.Chmod(disk, 0o700)))
	return disk
}
