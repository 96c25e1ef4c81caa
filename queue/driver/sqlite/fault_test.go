package sqlite_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/sqlite"
	"github.com/mongodb/amboy/registry"
)

// large is a record that does not fit in what is left of a full file.
func large(t *testing.T, id string) *driver.Record {
	t.Helper()
	r := newRecord(t, id)
	r.Job = registry.NewBody([]byte(`{"filler":"`+strings.Repeat("x", 1<<20)+`"}`), true)
	return r
}

// A driver whose file is full says so, and goes on when it is not any more.
func TestAFullFile(t *testing.T) {
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
	assert.Equal(t, []string{"running", "waiting"}, list(t, d), "it can be read")
	complete(t, d, running[0]) // that takes no more room

	require.NoError(t, sqlite.Exec(d, "PRAGMA max_page_count = 1000000"))
	insert(t, d, large(t, "large-0"))
	assert.Len(t, claim(t, d, 10), 2)
	checkCounts(t, openRaw(t, path))
}

// blocked is told when a statement has come to the trigger of blockOn, and waits
// until resume is.
var blocked, resume = make(chan struct{}), make(chan struct{})

// blockOn makes a statement of a driver on the records block while it is under way.
func blockOn(t *testing.T, d *sqlite.Driver, statement string) {
	t.Helper()
	require.NoError(t, sqlite.DefineFunction(d, "test_block", func() {
		blocked <- struct{}{}
		<-resume
	}))
	require.NoError(t, sqlite.Exec(d, "CREATE TRIGGER block BEFORE "+statement+" BEGIN SELECT test_block(); END"))
}

func TestTheOutcomeOfAChangeIsUnknownToWhoLeaves(t *testing.T) {
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
	require.NoError(t, sqlite.Exec(d, "SELECT 1")) // it comes after it
	assert.Equal(t, []string{"job"}, list(t, d))
}

func TestAChangeThatIsBeingMadeIsAwaited(t *testing.T) {
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

func TestAClaimForWhoLeftIsHandedBack(t *testing.T) {
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
	require.NoError(t, sqlite.Exec(d, "DROP TRIGGER block")) // it comes after it
	claimed := claim(t, d, 1)
	require.Len(t, claimed, 1)
	assert.Equal(t, 2, claimed[0].Status.ModificationCount)
}
