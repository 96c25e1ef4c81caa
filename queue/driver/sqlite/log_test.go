package sqlite_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/queue/driver/sqlite"
)

// A reader makes the log large, because SQLite restarts the log only if no process uses it.
func TestALargeLogIsTruncatedOnceNoReaderUsesIt(t *testing.T) {
	const largeLog, step = 32 << 20, 8 << 20
	path := newPath(t)
	d := open(t, sqlite.Options{Path: path})
	insert(t, d, newRecord(t, "first"))
	records := 0
	fill := func(size int64) {
		t.Helper()
		for logSize(t, path) < size {
			require.Less(t, records, 500, "the log grows")
			insert(t, d, large(t, fmt.Sprint(records)))
			records++
		}
	}
	tx, err := openRaw(t, path).BeginTx(t.Context(), nil)
	require.NoError(t, err)
	var id string
	require.NoError(t, tx.QueryRowContext(t.Context(), "SELECT job_id FROM jobs LIMIT 1").Scan(&id))
	fill(largeLog + step/2)
	require.NoError(t, tx.Rollback())

	grown := logSize(t, path)
	for i := range 50 {
		insert(t, d, newRecord(t, fmt.Sprint("small-", i)))
	}
	assert.Less(t, logSize(t, path), grown/2)
}
