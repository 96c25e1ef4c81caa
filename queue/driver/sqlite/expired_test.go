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

// insertMany adds records to a queue, after change has changed each.
func insertMany(t *testing.T, d *sqlite.Driver, queue string, n int, change func(*driver.Record)) {
	t.Helper()
	for start := 0; start < n; start += 1000 {
		all := make([]*driver.Record, min(1000, n-start))
		for i := range all {
			all[i] = newRecord(t, fmt.Sprint("job-", start+i))
			all[i].Group, all[i].Name = queue, driver.RecordName(queue, all[i].JobID(), all[i].RetryInfo)
			change(all[i])
		}
		insert(t, d, all...)
	}
}

// claimFrom claims from queues at a time.
func claimFrom(t *testing.T, d *sqlite.Driver, now time.Time, limit int, queues ...string) driver.Claimed {
	t.Helper()
	req := request(limit)
	req.Now, req.Queues = now, nil
	for _, queue := range queues {
		req.Queues = append(req.Queues, driver.Demand{Queue: queue, Limit: limit})
	}
	claimed, err := d.Claim(t.Context(), req)
	require.NoError(t, err)
	return claimed
}

// A claim took up to 1,000 expired records of each of its queues in one transaction. That of a group
// with hundreds of tenants took longer than it had time, was undone, and began again.
func TestAClaimTookAThousandExpiredRecordsOfEachQueue(t *testing.T) {
	const most = 10
	defer sqlite.TakeFewTimed(most)()
	d := open(t, sqlite.Options{Path: newPath(t)})
	queues := []string{"a", "b", "c"}
	for _, queue := range queues {
		insertMany(t, d, queue, most, func(r *driver.Record) { r.TimeInfo.DispatchBy = time.Now().Add(time.Hour) })
	}
	later := time.Now().Add(2 * time.Hour)
	for range queues { // each marks ten
		claimFrom(t, d, later, 1, "another")
	}
	total, calls := 0, 0
	for next := later; next.Equal(later); calls++ {
		claimed := claimFrom(t, d, later, 0, queues...)
		assert.LessOrEqual(t, len(claimed.Records), most)
		total, next = total+len(claimed.Records), claimed.Next
		require.Less(t, calls, 10)
	}
	assert.Equal(t, most*len(queues), total)
}

// If many records had expired, each claim read all of them twice, to find the few behind them that
// had not, while it kept all writers waiting.
func TestEachClaimReadAllExpiredRecords(t *testing.T) {
	defer sqlite.TakeFewTimed(10)()
	claimTime := func(expired int) time.Duration {
		d := open(t, sqlite.Options{Path: newPath(t)})
		insertMany(t, d, queueName, expired, func(r *driver.Record) { r.TimeInfo.DispatchBy = time.Now().Add(time.Hour) })
		insert(t, d, newRecord(t, "last"))
		later := time.Now().Add(2 * time.Hour)
		shortest := time.Hour
		for range 20 {
			began := time.Now()
			claimFrom(t, d, later, 2, queueName)
			shortest = min(shortest, time.Since(began))
		}
		return shortest
	}
	few, many := claimTime(300), claimTime(6000)
	t.Logf("a claim beside 300 and 6,000 expired records: %s and %s", few, many)
	assert.Less(t, many, 4*few)
}

// The job behind many that have expired is claimed once they are.
func TestAJobBehindManyExpiredOnesIsClaimed(t *testing.T) {
	defer sqlite.TakeFewTimed(10)()
	d := open(t, sqlite.Options{Path: newPath(t)})
	insertMany(t, d, queueName, 35, func(r *driver.Record) { r.TimeInfo.DispatchBy = time.Now().Add(time.Hour) })
	insert(t, d, newRecord(t, "last"))
	later := time.Now().Add(2 * time.Hour)
	var ids []string
	for next := later; next.Equal(later); {
		claimed := claimFrom(t, d, later, 2, queueName)
		next = claimed.Next
		for _, r := range claimed.Records {
			ids = append(ids, r.JobID())
		}
	}
	assert.Len(t, ids, 36)
	assert.Contains(t, ids, "last")
}

// A record that was marked as expired while the clock was ahead, by a claim from another queue, was given
// after the clock was set back: without its scopes, although it had not expired, so that it ran beside
// the job that held them.
func TestARecordMarkedByAClockThatWasAheadRanWithoutItsScopes(t *testing.T) {
	d := open(t, sqlite.Options{Path: newPath(t)})
	now := time.Now()
	insert(t, d, scoped(t, "holder", 1, "scope"))
	holder := claim(t, d, 1)[0]
	second := scoped(t, "second", 0, "scope")
	second.TimeInfo.DispatchBy = now.Add(time.Hour)
	insert(t, d, second)
	require.Empty(t, claimFrom(t, d, now.Add(2*time.Hour), 1, "another").Records)

	assert.Empty(t, claimFrom(t, d, now, 1, queueName).Records, "it waits for its scope")
	complete(t, d, holder)
	claimed := claimFrom(t, d, now, 1, queueName).Records
	require.Len(t, claimed, 1)
	assert.Equal(t, []string{"scope"}, claimed[0].Scopes)
	complete(t, d, claimed[0])

	third := newRecord(t, "third")
	third.TimeInfo.DispatchBy = now.Add(time.Hour)
	insert(t, d, third)
	require.Empty(t, claimFrom(t, d, now.Add(2*time.Hour), 1, "another").Records)
	require.Empty(t, claimFrom(t, d, now, 0, queueName).Records)
	assert.Len(t, claimFrom(t, d, now.Add(2*time.Hour), 0, queueName).Records, 1, "it expires all the same")
}

// Of more than 1,000 such records of a queue, a claim gave some as ready, and a later one took them from the
// process that ran them.
func TestARunningRecordMarkedAsExpiredWasTakenFromItsOwner(t *testing.T) {
	const records = 15
	defer sqlite.TakeFewTimed(10)()
	d := open(t, sqlite.Options{Path: newPath(t)})
	now := time.Now()
	insertMany(t, d, queueName, records, func(r *driver.Record) { r.TimeInfo.DispatchBy = now.Add(time.Hour) })
	for range 2 { // each marks ten
		claimFrom(t, d, now.Add(2*time.Hour), 1, "another")
	}
	seen := map[string]bool{}
	for range 3 {
		for _, r := range claimFrom(t, d, now, records, queueName).Records {
			assert.False(t, seen[r.Name], "%s is claimed twice", r.Name)
			seen[r.Name] = true
		}
	}
	assert.Len(t, seen, records)
}
