package sqlite_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/sqlite"
)

// Work reads only the first 10,000 due records. If all of them were of a queue that starts none, it
// named no queue, and asked for another call at once. As no process claimed, the due records of
// other queues were never found.
func TestDueRecordsOfAPausedQueueHidThoseOfOthers(t *testing.T) {
	defer sqlite.FindLittleWork(10)()
	defer sqlite.TakeFewTimed(1)()
	d := open(t, sqlite.Options{Path: newPath(t)})
	at := time.Now().Add(3 * time.Hour)
	insertMany(t, d, "paused", 11, func(r *driver.Record) { r.TimeInfo.WaitUntil = at.Add(-2 * time.Hour) })
	insertMany(t, d, "other", 1, func(r *driver.Record) { r.TimeInfo.WaitUntil = at.Add(-time.Hour) })
	_, err := d.Control(t.Context(), "paused", driver.ControlChange{Paused: new(true)})
	require.NoError(t, err)
	for range 20 {
		work, err := d.Work(t.Context(), at)
		require.NoError(t, err)
		require.NotEmpty(t, work.Queues, "nobody claims, and so nothing becomes ready")
		for _, w := range work.Queues {
			if records := claimFrom(t, d, at, 1, w.Queue).Records; len(records) > 0 {
				assert.Equal(t, "other", records[0].Group)
				return
			}
		}
	}
	t.Error("the job of the other queue is not found")
}
