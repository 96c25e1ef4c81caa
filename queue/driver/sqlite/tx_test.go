package sqlite_test

import (
	"context"
	"database/sql"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/sqlite"
	"github.com/mongodb/amboy/registry"
)

// begin begins a transaction on a database handle of the caller.
func begin(t *testing.T, path string) *sql.Tx {
	t.Helper()
	tx, err := openRaw(t, path).BeginTx(t.Context(), nil)
	require.NoError(t, err)
	t.Cleanup(func() {
		if err := tx.Rollback(); !errors.Is(err, sql.ErrTxDone) {
			assert.NoError(t, err)
		}
	})
	return tx
}

func insertIn(t *testing.T, d *sqlite.Driver, tx *sql.Tx, records ...*driver.Record) []error {
	t.Helper()
	errs, err := d.Insert(sqlite.WithTx(t.Context(), tx), records)
	require.NoError(t, err)
	require.Len(t, errs, len(records))
	return errs
}

func TestInsertInATransaction(t *testing.T) {
	path := newPath(t)
	d := open(t, sqlite.Options{Path: path})
	execute(t, path, "CREATE TABLE orders (number INTEGER)")
	heard := make(chan struct{}, 1)
	t.Cleanup(d.Subscribe(func(driver.Change) {
		select {
		case heard <- struct{}{}:
		default:
		}
	}))
	tx := begin(t, path)
	_, err := tx.ExecContext(t.Context(), "INSERT INTO orders VALUES (1)")
	require.NoError(t, err)
	scoped := newRecord(t, "scoped")
	scoped.RequiredScopes, scoped.EnqueueScopes = []string{"s"}, []string{"s"}
	dependent := newRecord(t, "dependent")
	dependent.Dependency = &registry.DependencyInterchange{Edges: []string{"job"}}
	errs := insertIn(t, d, tx, newRecord(t, "job"), newRecord(t, "job"), scoped, dependent)
	assert.True(t, amboy.IsDuplicateJobError(errs[1]))
	assert.Equal(t, []error{nil, nil, nil}, []error{errs[0], errs[2], errs[3]})
	assert.True(t, amboy.IsDuplicateJobError(insertIn(t, d, tx, newRecord(t, "job"))[0]))
	assert.Empty(t, list(t, d), "the job is not visible before the commit")
	assert.Zero(t, stats(t, d).Total)
	require.NoError(t, tx.Commit())
	<-heard

	assert.Equal(t, []string{"job", "scoped", "dependent"}, list(t, d))
	assert.Equal(t, []string{"dependent"}, list(t, d, amboy.StateBlocked))
	for _, r := range claim(t, d, 10) {
		complete(t, d, r)
	}
	assert.Len(t, claim(t, d, 10), 1)
	checkCounts(t, openRaw(t, path))
}

func TestInsertInATransactionThatIsRolledBack(t *testing.T) {
	path := newPath(t)
	d := open(t, sqlite.Options{Path: path})
	tx := begin(t, path)
	assert.NoError(t, insertIn(t, d, tx, newRecord(t, "job"))[0])
	require.NoError(t, tx.Rollback())
	assert.Empty(t, list(t, d))
	queues, err := d.Queues(t.Context(), driver.QueueRequest{})
	require.NoError(t, err)
	assert.Empty(t, queues)
	insert(t, d, newRecord(t, "job"))
	assert.Len(t, claim(t, d, 10), 1)
}

func TestInsertInATransactionOnAnotherDatabase(t *testing.T) {
	d := open(t, sqlite.Options{Path: newPath(t)})
	other := newPath(t)
	execute(t, other, "CREATE TABLE other (x)")
	for name, path := range map[string]string{"another file": other, "memory": ":memory:"} {
		tx := begin(t, path)
		_, err := d.Insert(sqlite.WithTx(t.Context(), tx), []*driver.Record{newRecord(t, "job")})
		require.ErrorContains(t, err, "inserting 1 records: writing in the caller's transaction: it must be on the file", name)
		require.NoError(t, tx.Rollback())
	}
	ended := begin(t, other)
	require.NoError(t, ended.Rollback())
	_, err := d.Insert(sqlite.WithTx(t.Context(), ended), []*driver.Record{newRecord(t, "job")})
	require.ErrorIs(t, err, sql.ErrTxDone)
	assert.Empty(t, list(t, d))
}

// What a job stored while it had a transaction of its own waited for that transaction until the job's lease
// was lost, in each attempt.
func TestAJobWaitedForItsOwnTransaction(t *testing.T) {
	path := newPath(t)
	d := open(t, sqlite.Options{Path: path})
	insert(t, d, newRecord(t, "job"))
	r := claim(t, d, 1)[0]
	r.Metadata = map[string]string{"saved": "yes"}
	half := driver.Progress{Message: "half"}
	tx := begin(t, path)
	_, err := tx.ExecContext(t.Context(), "CREATE TABLE own (x)")
	require.NoError(t, err)
	ofJob, cancel := context.WithTimeout(amboy.ContextWithQueue(t.Context(), struct{ amboy.Queue }{}), 10*time.Second)
	defer cancel()

	func() {
		defer sqlite.SetJobPatience(10 * time.Millisecond)() // Only these calls wait in vain.
		_, err = d.Insert(ofJob, []*driver.Record{newRecord(t, "other")})
		require.ErrorContains(t, err, "a transaction of its own")
		require.ErrorContains(t, d.Save(ofJob, r), "a transaction of its own")
		require.ErrorContains(t, d.SetProgress(ofJob, driver.LeaseOf(r), half), "a transaction of its own")
	}()

	in := sqlite.WithTx(ofJob, tx)
	require.NoError(t, d.Save(in, r))
	require.NoError(t, d.SetProgress(in, driver.LeaseOf(r), half))
	require.NoError(t, tx.Commit())
	stored, err := d.Get(t.Context(), r.Group, "job")
	require.NoError(t, err)
	assert.Equal(t, r.Metadata, stored.Metadata)
	assert.Equal(t, &half, stored.Progress)
	require.NoError(t, d.SetProgress(in, driver.LeaseOf(r), driver.Progress{Message: "after the commit"}))

	foreign := driver.WithTransaction(ofJob, "of another store")
	require.NoError(t, d.Save(foreign, r))
	require.NoError(t, d.SetProgress(foreign, driver.LeaseOf(r), half))
}
