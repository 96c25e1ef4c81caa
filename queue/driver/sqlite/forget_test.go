package sqlite_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/sqlite"
)

// end ends a claimed record with a retention time.
func end(t *testing.T, d *sqlite.Driver, r *driver.Record, forgetAt time.Time) {
	t.Helper()
	r.TimeInfo.End = time.Now()
	r.ForgetAt = forgetAt
	complete(t, d, r)
}

func forget(t *testing.T, d *sqlite.Driver, limit int) int {
	t.Helper()
	n, err := d.Forget(t.Context(), time.Now(), limit)
	require.NoError(t, err)
	return n
}

func TestForgetMakesRoom(t *testing.T) {
	path := newPath(t)
	d := open(t, sqlite.Options{Path: path, KeepFinished: 3})
	// Records with a retention time are removed first, then records in the order of their ends.
	for i, hours := range []int{0, 3, 2, 0, 1, 0, 0} {
		insert(t, d, newRecord(t, fmt.Sprint("job-", i)))
		at := time.Time{}
		if hours > 0 {
			at = time.Now().Add(time.Duration(hours) * time.Hour)
		}
		end(t, d, claim(t, d, 1)[0], at)
	}
	insert(t, d, newRecord(t, "waiting"))
	assert.Equal(t, 2, forget(t, d, 2))
	assert.Equal(t, []string{"job-0", "job-1", "job-3", "job-5", "job-6", "waiting"}, list(t, d))
	assert.Equal(t, 2, forget(t, d, 10))
	assert.Equal(t, []string{"job-3", "job-5", "job-6", "waiting"}, list(t, d))
	assert.Zero(t, forget(t, d, 10))
	assert.Equal(t, amboy.QueueStats{Total: 8, Pending: 1, Completed: 7}, stats(t, d))

	_, err := d.Get(t.Context(), queueName, "job-0")
	assert.True(t, amboy.IsJobNotFoundError(err))
	insert(t, d, newRecord(t, "job-0"))
	checkCounts(t, openRaw(t, path))
}

func TestForgetMakesRoomInEachQueue(t *testing.T) {
	d := open(t, sqlite.Options{Path: newPath(t), KeepFinished: 2})
	for _, queue := range []string{"a", "b"} {
		for i := range 3 {
			r := newRecord(t, fmt.Sprint("job-", i))
			r.Group, r.Name = queue, driver.RecordName(queue, r.JobID(), r.RetryInfo)
			insert(t, d, r)
			req := request(1)
			req.Queues[0].Queue = queue
			claimed, err := d.Claim(t.Context(), req)
			require.NoError(t, err)
			end(t, d, claimed.Records[0], time.Time{})
		}
	}
	assert.Equal(t, 2, forget(t, d, 10))
	assert.Equal(t, []string{"job-1", "job-2", "job-1", "job-2"}, list(t, d))
}

func TestForgetRemovesManyRecordsInOrder(t *testing.T) {
	const records = 2500
	d := open(t, sqlite.Options{Path: newPath(t)})
	var all []*driver.Record
	for i := range records {
		all = append(all, newRecord(t, fmt.Sprint("job-", i)))
	}
	insert(t, d, all...)
	var completions []driver.Completion
	for _, r := range claim(t, d, records) {
		completions = append(completions, driver.Completion{Lease: driver.LeaseOf(r), Record: r})
		r.Status.Completed, r.ForgetAt = true, time.Now()
	}
	_, err := d.Complete(t.Context(), completions)
	require.NoError(t, err)
	assert.Equal(t, 2200, forget(t, d, 2200))
	assert.Equal(t, records-2200, forget(t, d, records))
	assert.Empty(t, list(t, d))
}

// Each call waited for the right to write, and kept it while it looked into all queues with finished records.
func TestForgetBlockedWritersAlthoughNoRetentionWasOver(t *testing.T) {
	path := newPath(t)
	d := open(t, sqlite.Options{Path: path})
	insert(t, d, newRecord(t, "kept"))
	end(t, d, claim(t, d, 1)[0], time.Now().Add(time.Hour))
	unlock := lock(t, path)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	n, err := d.Forget(ctx, time.Now(), 10)
	unlock()
	require.NoError(t, err)
	assert.Zero(t, n)

	n, err = d.Forget(t.Context(), time.Now().Add(2*time.Hour), 10)
	require.NoError(t, err)
	assert.Equal(t, 1, n)
}
