package sqlite_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/sqlite"
)

// A claimed record no longer keeps others to its limit, so one that waited behind it may run beside it.
// No claim was asked for, so that it started only when the first ended, or with the next poll.
func TestAJobWithALargerLimitWaitedForTheEndOfTheOneBefore(t *testing.T) {
	d := open(t, sqlite.Options{Path: newPath(t)})
	insert(t, d, scoped(t, "first", 0, amboy.LimitScope("key", 1)), scoped(t, "second", 0, amboy.LimitScope("key", 2)))
	req := request(2)
	var ids []string
	for range 3 {
		claimed, err := d.Claim(t.Context(), req)
		require.NoError(t, err)
		for _, r := range claimed.Records {
			ids = append(ids, r.JobID())
		}
		if claimed.Next.IsZero() || claimed.Next.After(req.Now) {
			break
		}
	}
	assert.Equal(t, []string{"first", "second"}, ids)
}

// A claim read all running records of the file for each of its queues in which types have limits.
func TestAClaimReadAllRunningRecordsForEachQueueWithLimits(t *testing.T) {
	const running, queues = 300, 40
	d := open(t, sqlite.Options{Path: newPath(t)})
	insert(t, d, newRecord(t, "running"))
	claim(t, d, 1)
	require.NoError(t, sqlite.Exec(d, fmt.Sprintf(`WITH RECURSIVE n (i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < %d)
		INSERT INTO jobs (queue, place, priority, name, job_id, type, version, format, dependency, body)
		SELECT queue, place, priority, name || i, job_id || i, type, version, format, dependency, body FROM jobs, n`, running)))
	var names []string
	for i := range queues {
		name := fmt.Sprint("queue-", i)
		names = append(names, name)
		var jobType string
		insertMany(t, d, name, 10, func(r *driver.Record) { jobType = r.Type })
		_, err := d.Control(t.Context(), name, driver.ControlChange{Type: &driver.TypeChange{Type: jobType, Limit: amboy.TypeLimit{MaxRunning: 50}}})
		require.NoError(t, err)
	}
	claimTime := func(names []string) time.Duration {
		shortest := time.Hour
		for range 10 {
			began := time.Now()
			require.Len(t, claimFrom(t, d, time.Now(), 1, names...).Records, 1)
			shortest = min(shortest, time.Since(began))
		}
		return shortest
	}
	few, many := claimTime(names[:2]), claimTime(names)
	t.Logf("a claim from 2 and from %d queues beside %d running records: %s and %s", queues, running, few, many)
	assert.Less(t, many, 5*few)
}
