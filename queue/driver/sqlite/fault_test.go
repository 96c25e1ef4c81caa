package sqlite_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/sqlite"
	"github.com/mongodb/amboy/registry"
)

// large returns a record that does not fit into a full file.
func large(t *testing.T, id string) *driver.Record {
	t.Helper()
	r := newRecord(t, id)
	r.Job = registry.NewBody([]byte(`{"filler":"`+strings.Repeat("x", 1<<20)+`"}`), true)
	return r
}

// A full file ends the transaction of a change, savepoints and all. The changes that were to be
// made with it failed too.
func TestAChangeWithoutRoomFailsAlone(t *testing.T) {
	d := open(t, sqlite.Options{Path: newPath(t)})
	insert(t, d, newRecord(t, "first"))
	require.NoError(t, sqlite.Exec(d, "PRAGMA max_page_count = 1"))
	require.NoError(t, sqlite.DefineFunction(d, "test_block", sync.OnceFunc(func() { // the change is made again after the failure
		blocked <- struct{}{}
		<-resume
	})))
	var calls sync.WaitGroup
	calls.Go(func() { assert.NoError(t, sqlite.Exec(d, "SELECT test_block()")) })
	<-blocked
	big, small := large(t, "large"), newRecord(t, "small")
	calls.Go(func() {
		_, err := d.Insert(t.Context(), []*driver.Record{big})
		assert.ErrorContains(t, err, "database or disk is full")
	})
	sqlite.AwaitPending(d, 1)
	calls.Go(func() {
		errs, err := d.Insert(t.Context(), []*driver.Record{small})
		assert.NoError(t, errors.Join(append(errs, err)...))
	})
	sqlite.AwaitPending(d, 2)
	resume <- struct{}{}
	calls.Wait()
	assert.Equal(t, []string{"first", "small"}, list(t, d))
}

// A driver whose file is full returns an error, and works again when there is room.
func TestAFullFileRefusesWritesUntilThereIsRoom(t *testing.T) {
	path := newPath(t)
	d := open(t, sqlite.Options{Path: path})
	insert(t, d, newRecord(t, "running"), newRecord(t, "waiting"))
	running := claim(t, d, 1)
	require.NoError(t, sqlite.Exec(d, "PRAGMA max_page_count = 100"))
	for i := range 3 {
		_, err := d.Insert(t.Context(), []*driver.Record{large(t, fmt.Sprint("large-", i))})
		require.ErrorContains(t, err, fmt.Sprintf("inserting 1 records: writing to %q: ", path))
		require.ErrorContains(t, err, "database or disk is full")
	}
	assert.Equal(t, []string{"running", "waiting"}, list(t, d), "a full file can be read")
	complete(t, d, running[0]) // which needs no more room

	require.NoError(t, sqlite.Exec(d, "PRAGMA max_page_count = 1000000"))
	insert(t, d, large(t, "large-0"))
	assert.Len(t, claim(t, d, 10), 2)
	checkCounts(t, openRaw(t, path))
}

func TestAJobEndsWhenThereIsRoomAgain(t *testing.T) {
	t.Run("in a file with a limit", func(t *testing.T) {
		d := open(t, sqlite.Options{Path: newPath(t)})
		full := func() { require.NoError(t, sqlite.Exec(d, "PRAGMA max_page_count = 1")) } // which means its size
		endWithoutRoom(t, d, full, func() { require.NoError(t, sqlite.Exec(d, "PRAGMA max_page_count = 1000000")) })
	})
	t.Run("on a disk", func(t *testing.T) {
		dir := smallDisk(t)
		d := open(t, sqlite.Options{Path: filepath.Join(dir, "jobs.db")})
		other := filepath.Join(dir, "other")
		full := func() { require.ErrorIs(t, os.WriteFile(other, make([]byte, 1<<30), 0o600), syscall.ENOSPC) }
		endWithoutRoom(t, d, full, func() { require.NoError(t, os.Remove(other)) })
	})
}

// endWithoutRoom lets a job end, and puts others, while there is no room, and expects that
// nothing is lost.
func endWithoutRoom(t *testing.T, d *sqlite.Driver, takeRoom, giveRoom func()) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	q, finish, failed := startBlocked(ctx, t, d)
	errands.Store("waits", func(context.Context, *errand) {})
	waits := newErrand("waits")
	require.NoError(t, waits.Dependency().AddEdge("blocked"))
	require.NoError(t, q.Put(ctx, waits))
	takeRoom()
	errands.Store("big", func(context.Context, *errand) {})
	big := newErrand("big")
	big.Filler = strings.Repeat("x", 1<<20)
	require.ErrorIs(t, q.Put(ctx, big), amboy.ErrStoreFull)
	finish()
	require.ErrorContains(t, <-failed, "full")
	require.ErrorIs(t, q.Put(ctx, big), amboy.ErrStoreFull)
	assert.Equal(t, amboy.QueueStats{Running: 1, Pending: 1, Blocked: 1, Total: 2}, q.Stats(ctx), "the file can be read")

	giveRoom()
	require.True(t, amboy.WaitJob(ctx, newErrand("blocked"), q))
	require.True(t, amboy.WaitJob(ctx, waits, q))
	require.NoError(t, q.Put(ctx, big))
	require.True(t, amboy.Wait(ctx, q))
	assert.Equal(t, amboy.QueueStats{Completed: 3, Total: 3}, q.Stats(ctx))
	require.NoError(t, d.Check(ctx))
}

// blocked receives a value when a statement reaches the trigger of blockOn. The statement
// then waits for a value on resume.
var blocked, resume = make(chan struct{}), make(chan struct{})

// blockOn makes a statement of a driver on the table jobs block while it is running.
func blockOn(t *testing.T, d *sqlite.Driver, statement string) {
	t.Helper()
	require.NoError(t, sqlite.DefineFunction(d, "test_block", func() {
		blocked <- struct{}{}
		<-resume
	}))
	require.NoError(t, sqlite.Exec(d, "CREATE TRIGGER block BEFORE "+statement+" BEGIN SELECT test_block(); END"))
}

func TestACallerThatLeavesDuringAWriteGetsErrOutcomeUnknown(t *testing.T) {
	d := open(t, sqlite.Options{Path: newPath(t)})
	blockOn(t, d, "INSERT ON jobs")
	t.Cleanup(sqlite.DoNotWait())
	ctx, cancel := context.WithCancel(t.Context())
	left, records := make(chan error), []*driver.Record{newRecord(t, "job")}
	go func() {
		_, err := d.Insert(ctx, records)
		left <- err
	}()
	<-blocked
	cancel()
	err := <-left
	require.ErrorIs(t, err, driver.ErrOutcomeUnknown)
	require.ErrorIs(t, err, context.Canceled)
	resume <- struct{}{}
	require.NoError(t, sqlite.Exec(d, "SELECT 1")) // which runs after the blocked write
	assert.Equal(t, []string{"job"}, list(t, d))
}

func TestACallWhoseContextEndsDuringAWriteWaitsForTheWrite(t *testing.T) {
	d := open(t, sqlite.Options{Path: newPath(t)})
	blockOn(t, d, "INSERT ON jobs")
	ctx, cancel := context.WithCancel(t.Context())
	done, records := make(chan error), []*driver.Record{newRecord(t, "job")}
	go func() {
		errs, err := d.Insert(ctx, records)
		done <- errors.Join(append(errs, err)...)
	}()
	<-blocked
	cancel()
	resume <- struct{}{}
	require.NoError(t, <-done)
	assert.Equal(t, []string{"job"}, list(t, d))
}

func TestAClaimOfACallerThatLeftIsHandedBack(t *testing.T) {
	d := open(t, sqlite.Options{Path: newPath(t)})
	insert(t, d, newRecord(t, "job"))
	blockOn(t, d, "UPDATE ON jobs WHEN old.place = 4 AND new.place = 6")
	t.Cleanup(sqlite.DoNotWait())
	ctx, cancel := context.WithCancel(t.Context())
	left := make(chan error)
	go func() {
		_, err := d.Claim(ctx, request(1))
		left <- err
	}()
	<-blocked
	cancel()
	err := <-left
	require.ErrorIs(t, err, context.Canceled)
	require.NotErrorIs(t, err, driver.ErrOutcomeUnknown)
	resume <- struct{}{}
	require.NoError(t, sqlite.Exec(d, "DROP TRIGGER block")) // which runs after the blocked write
	claimed := claim(t, d, 1)
	require.Len(t, claimed, 1)
	assert.Equal(t, 2, claimed[0].Status.ModificationCount)
}
