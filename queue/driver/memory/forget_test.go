package memory_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/memory"
)

// kept lists the records of all queues.
func kept(t *testing.T, d driver.Driver) []string {
	t.Helper()
	page, err := d.Find(t.Context(), driver.Query{}, driver.PageRequest{Limit: 1000})
	require.NoError(t, err)
	return ids(page.Records)
}

func TestOldestFinishedRecordsAreForgotten(t *testing.T) {
	d := newDriver(t, memory.Options{KeepFinished: 2})
	forever := unique("key", amboy.UniqueUntilForgotten)
	insert(t, d, record("a", forever), record("b"), record("c"), recordOf("other", "x"))
	run(t, d, 2)
	assert.True(t, amboy.IsDuplicateJobError(insertOne(t.Context(), d, record("d", forever))))
	assert.Equal(t, []string{"a", "b", "c", "x"}, kept(t, d))
	run(t, d, 1)
	assert.Equal(t, []string{"b", "c", "x"}, kept(t, d), "two records of each queue are kept")
	assert.Equal(t, 3, stats(t, d).Completed)
	insert(t, d, record("a", forever))
}

// The test ends more records than are kept, so that some are removed before the end of their
// retention.
func TestExcessRecordsAreRemovedBeforeTheirTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDriver(t, memory.Options{KeepFinished: 3})
		for i := range 10 {
			insert(t, d, record(fmt.Sprint(i)))
			at := time.Now().Add(time.Duration(10-i) * time.Hour)
			run(t, d, 1, func(r *driver.Record) { r.ForgetAt = at })
		}
		assert.Equal(t, []string{"7", "8", "9"}, kept(t, d))
		forget := func(limit int) int {
			n, err := d.Forget(t.Context(), time.Now(), limit)
			require.NoError(t, err)
			return n
		}
		assert.Zero(t, forget(10))
		time.Sleep(2 * time.Hour)
		assert.Equal(t, 1, forget(1))
		assert.Equal(t, []string{"7", "8"}, kept(t, d))
		assert.Equal(t, 1, forget(10))
		assert.Zero(t, forget(10))
		time.Sleep(time.Hour)
		assert.Equal(t, 1, forget(10))
		assert.Empty(t, kept(t, d))
	})
}

// The test restarts a record with a retention time, twice.
func TestARestartedRecordIsNotRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDriver(t, memory.Options{KeepFinished: 3})
		insert(t, d, record("a"), record("b"))
		soon := time.Now().Add(time.Minute)
		failed := func(r *driver.Record) {
			r.Status.ErrorCount, r.ForgetAt = 1, soon
		}
		for range 2 {
			run(t, d, 2, failed)
			_, err := d.Act(t.Context(), driver.ActRequest{
				Query:  driver.Query{ID: "a"},
				Action: driver.Action{Kind: driver.Restart},
				Limit:  1,
			})
			require.NoError(t, err)
		}
		time.Sleep(time.Minute)
		n, err := d.Forget(t.Context(), time.Now(), 10)
		require.NoError(t, err)
		assert.Equal(t, 1, n)
		assert.Equal(t, []string{"a"}, kept(t, d))
		run(t, d, 2, failed)
		n, err = d.Forget(t.Context(), time.Now(), 10)
		require.NoError(t, err)
		assert.Equal(t, 1, n)
		assert.Equal(t, amboy.QueueStats{Completed: 2, Total: 2}, stats(t, d))
	})
}
