package sqlite_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/sqlite"
)

// inQueue returns a record of a queue.
func inQueue(t *testing.T, queue, id string) *driver.Record {
	t.Helper()
	r := newRecord(t, id)
	r.Group, r.Name = queue, driver.RecordName(queue, id, r.RetryInfo)
	return r
}

// endAndForget claims and completes the only record of a queue, and forgets it.
func endAndForget(t *testing.T, d *sqlite.Driver, queue string) {
	t.Helper()
	req := request(1)
	req.Queues = []driver.Demand{{Queue: queue, Limit: 1}}
	claimed, err := d.Claim(t.Context(), req)
	require.NoError(t, err)
	require.Len(t, claimed.Records, 1)
	claimed.Records[0].ForgetAt = time.Now()
	complete(t, d, claimed.Records[0])
	forgotten, err := d.Forget(t.Context(), time.Now().Add(time.Second), 10)
	require.NoError(t, err)
	require.Equal(t, 1, forgotten)
}

func queueNames(t *testing.T, d *sqlite.Driver) (names []string) {
	t.Helper()
	infos, err := d.Queues(t.Context(), driver.QueueRequest{})
	require.NoError(t, err)
	for _, info := range infos {
		names = append(names, info.Name)
	}
	return names
}

// All queues of the test are unused by the time that the request names.
func pruneAll() driver.PruneRequest {
	return driver.PruneRequest{Unused: time.Now().Add(time.Hour), Limit: 1000}
}

// Row IDs are reused, so the number that a process remembers for a queue may be the number of
// another queue by now.
func TestARecordIsNotPutInTheQueueThatGotTheIDOfAPrunedOne(t *testing.T) {
	path := newPath(t)
	first, second := open(t, sqlite.Options{Path: path}), open(t, sqlite.Options{Path: path})
	insert(t, first, inQueue(t, "gone", "job"))
	endAndForget(t, first, "gone")
	pruned, err := second.Prune(t.Context(), pruneAll())
	require.NoError(t, err)
	require.Equal(t, 1, pruned)
	insert(t, second, inQueue(t, "other", "job"))

	insert(t, first, inQueue(t, "gone", "again"))
	assert.Equal(t, []string{"gone", "other"}, queueNames(t, first))
	for name, id := range map[string]string{"gone": "again", "other": "job"} {
		page, err := first.Find(t.Context(), driver.Query{Queues: []string{name}}, driver.PageRequest{Limit: 10})
		require.NoError(t, err)
		require.Len(t, page.Records, 1, name)
		assert.Equal(t, id, page.Records[0].JobID())
		stats, err := first.Stats(t.Context(), name)
		require.NoError(t, err)
		assert.Equal(t, 1, stats.Pending, name)
	}
}

func TestARecordIsPutInAQueueThatItsOwnDriverPruned(t *testing.T) {
	d := open(t, sqlite.Options{Path: newPath(t)})
	insert(t, d, inQueue(t, "gone", "job"))
	endAndForget(t, d, "gone")
	pruned, err := d.Prune(t.Context(), pruneAll())
	require.NoError(t, err)
	require.Equal(t, 1, pruned)
	insert(t, d, inQueue(t, "other", "job"), inQueue(t, "gone", "again"))
	assert.Equal(t, []string{"gone", "other"}, queueNames(t, d))
	endAndForget(t, d, "other")
	endAndForget(t, d, "gone")
}

func TestManyNamesLeaveNoRows(t *testing.T) {
	path := newPath(t)
	d := open(t, sqlite.Options{Path: path})
	const names = 300
	var records []*driver.Record
	for i := range names {
		records = append(records, inQueue(t, fmt.Sprint("tenant-", i), "job"))
	}
	insert(t, d, records...)
	for i := range names {
		endAndForget(t, d, fmt.Sprint("tenant-", i))
	}
	for _, want := range []int{100, 100, 100, 0} {
		pruned, err := d.Prune(t.Context(), driver.PruneRequest{Unused: time.Now().Add(time.Hour), Limit: 100})
		require.NoError(t, err)
		assert.Equal(t, want, pruned)
	}
	db := openRaw(t, path)
	for _, table := range []string{"queues", "jobs", "edges", "tags", "marks", "notes", "scope_holders", "scope_promises", "scope_groups", "leftovers"} {
		var rows int
		require.NoError(t, db.QueryRowContext(t.Context(), "SELECT count(*) FROM "+table).Scan(&rows))
		assert.Zero(t, rows, table)
	}
}
