package batch_test

import (
	"database/sql"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/batch"
	"github.com/mongodb/amboy/queue"
	"github.com/mongodb/amboy/queue/driver/sqlite"
)

func TestABatchIsPutInATransaction(t *testing.T) {
	path := filepath.Join(t.TempDir(), "jobs.db")
	store, err := sqlite.Open(t.Context(), sqlite.Options{Path: path})
	require.NoError(t, err)
	q, err := queue.NewDriverQueue(queue.DriverQueueOptions{Driver: store, CloseDriver: true, NumWorkers: 1})
	require.NoError(t, err)
	t.Cleanup(func() { q.Close(t.Context()) })
	db, err := sql.Open("sqlite", path+"?_txlock=immediate&_pragma=busy_timeout(5000)")
	require.NoError(t, err)
	defer func() { assert.NoError(t, db.Close()) }()

	for _, test := range []struct {
		name string
		end  func(*sql.Tx) error
		jobs int
	}{
		{"rolled back", (*sql.Tx).Rollback, 0},
		{"committed", (*sql.Tx).Commit, 4}, // two jobs, the marker, and the job after them
	} {
		b := newBatch(t, "import")
		require.NoError(t, b.Add(newJob(t, "a"), newJob(t, "b")))
		require.NoError(t, b.OnSuccess(newJob(t, "success")))
		tx, beginErr := db.BeginTx(t.Context(), nil)
		require.NoError(t, beginErr)
		_, err = b.Put(sqlite.WithTx(t.Context(), tx), q)
		require.NoError(t, err, test.name)
		require.NoError(t, test.end(tx))
		n, countErr := q.(amboy.JobFinder).CountJobs(t.Context(), amboy.JobQuery{})
		require.NoError(t, countErr)
		assert.Equal(t, test.jobs, n, test.name)
	}
	require.NoError(t, q.Start(t.Context()))
	h, err := batch.Open(t.Context(), q, "import")
	require.NoError(t, err)
	progress, err := h.Wait(t.Context())
	require.NoError(t, err)
	assert.True(t, progress.Done())
	require.True(t, amboy.Wait(t.Context(), q))
}
