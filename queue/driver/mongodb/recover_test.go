package mongodb_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"go.mongodb.org/mongo-driver/bson"

	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/mongodb"
)

func recoverStale(t *testing.T, d driver.Driver) int {
	t.Helper()
	n, err := d.RecoverStale(t.Context())
	require.NoError(t, err)
	return n
}

// claimOne claims the only job for a minute, by a wall clock that is ahead.
func claimOne(t *testing.T, d driver.Driver, ahead time.Duration) driver.Lease {
	t.Helper()
	req := request("owner", 1, "q")
	req.Now, req.LeaseTime = time.Now().Add(ahead), time.Minute
	claimed := claim(t, d, req)
	require.Len(t, claimed, 1)
	return driver.LeaseOf(claimed[0])
}

// The server has renewed leases, and then its clock was set back, or a server with a
// slower clock became primary.
func TestAStepBackOfTheServerMadeDeadLeasesLastForHours(t *testing.T) {
	t.Parallel()
	inFakeTime(t, func(t *testing.T) {
		s := newStore(t)
		holder, taker := s.open(), s.open()
		insert(t, holder, newRecord(t, "q", "live"))
		live := claimOne(t, holder, 0)
		insert(t, holder, newRecord(t, "q", "dead"))
		claimOne(t, holder, 0)
		endLeases(t, s.jobs(true), -8*time.Hour)
		for range 4 {
			assert.Zero(t, recoverStale(t, taker))
			lost, err := holder.Extend(t.Context(), []driver.Lease{live}, time.Minute)
			require.NoError(t, err)
			require.Empty(t, lost)
			mongodb.Elapse(taker, 19*time.Second)
		}
		assert.Equal(t, 1, recoverStale(t, taker), "the lease was seen unrenewed for a minute")
		assert.Len(t, claim(t, taker, request("owner", 9, "q")), 1)
	})
}

// Leases that this driver gave do not limit the length of leases that other processes
// give.
func TestALongLeaseOfAnotherProcessIsNotRecovered(t *testing.T) {
	t.Parallel()
	inFakeTime(t, func(t *testing.T) {
		s := newStore(t)
		holder, taker := s.open(), s.open()
		insert(t, holder, newRecord(t, "q", "job"))
		req := request("owner", 1, "q")
		req.LeaseTime = 8 * time.Hour
		require.Len(t, claim(t, holder, req), 1)
		for range 7 {
			assert.Zero(t, recoverStale(t, taker))
			mongodb.Elapse(taker, time.Hour)
		}
	})
}

func TestQueueLockThatLastsTooLongIsTaken(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	d := s.open()
	most := 1
	_, err := d.Control(t.Context(), "q", driver.ControlChange{MaxRunning: &most})
	require.NoError(t, err)
	insert(t, d, newRecord(t, "q", "job"))
	control := s.client.Database(s.db).Collection("work.group.control")
	_, err = control.InsertOne(t.Context(), bson.D{
		{Key: "_id", Value: "room/q"}, {Key: "holder", Value: "dead"}, {Key: "until", Value: time.Now().Add(8 * time.Hour)},
	})
	require.NoError(t, err)
	claimOne(t, d, 0)
}

// The leases of this process that have ended and are kept came before those of dead processes.
func TestAThousandKeptLeasesHidThoseOfDeadProcesses(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	d := s.open()
	const jobs = 1500
	records := plainRecords(jobs)
	dead := plainRecord("dead")
	dead.Group, dead.Name = "rear", driver.RecordName("rear", "dead", dead.RetryInfo)
	putAll(t, d, append(records, dead)...)
	var kept []driver.Lease
	for len(kept) < jobs {
		for _, r := range claim(t, d, request("owner", jobs, "queue")) {
			kept = append(kept, driver.LeaseOf(r))
		}
	}
	require.Len(t, claim(t, d, request("dead", 1, "rear")), 1)
	endLeases(t, s.jobs(true), time.Hour)
	n, err := d.RecoverStale(t.Context(), kept...)
	require.NoError(t, err)
	assert.Equal(t, 1, n)
}
