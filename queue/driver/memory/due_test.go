package memory_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/memory"
)

// All jobs that had become due, or had expired, were moved under one lock, however many they were: a million stopped
// every Put for as long as that took.
func TestAClaimMovedAllDueRecordsUnderOneLock(t *testing.T) {
	const many = 5000
	for name, test := range map[string]struct {
		set   func(r *driver.Record, at time.Time)
		limit int
	}{
		"due":     {func(r *driver.Record, at time.Time) { r.TimeInfo.WaitUntil = at }, many},
		"expired": {func(r *driver.Record, at time.Time) { r.TimeInfo.DispatchBy = at.Add(-time.Nanosecond) }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			now := time.Now()
			at := now.Add(time.Hour)
			d, err := memory.New(memory.Options{KeepFinished: 1, Now: func() time.Time { return now }})
			require.NoError(t, err)
			records := make([]*driver.Record, many)
			for i := range records {
				records[i] = record(fmt.Sprint(i))
				test.set(records[i], at)
			}
			_, err = d.Insert(t.Context(), records)
			require.NoError(t, err)
			req := driver.ClaimRequest{
				Owner: "owner", Queues: []driver.Demand{{Queue: queueName, Limit: test.limit}}, Limit: test.limit, Now: at, LeaseTime: time.Minute,
			}
			for got := 0; got < many; {
				claimed, err := d.Claim(t.Context(), req)
				require.NoError(t, err)
				require.NotEmpty(t, claimed.Records)
				require.LessOrEqual(t, len(claimed.Records), many/2)
				got += len(claimed.Records)
				if got < many {
					require.Equal(t, at, claimed.Next, "the others can be claimed at once")
				}
			}
		})
	}
}

// The driver keeps the queues apart whose time has come, which must not outlast that.
func TestAQueueThatWasDueWaitsForItsTimeAgainIfTheClockIsSetBack(t *testing.T) {
	d := newDriver(t, memory.Options{KeepFinished: 1})
	at := time.Now().Add(time.Hour).Truncate(time.Millisecond)
	insert(t, d, recordOf("other", "job", func(r *driver.Record) { r.TimeInfo.WaitUntil = at }))
	for _, test := range []struct {
		now  time.Time
		want driver.Work
	}{
		{at.Add(-time.Minute), driver.Work{Next: at}},
		{at, driver.Work{Queues: []driver.QueueWork{{Queue: "other", Ready: true, Expired: true}}}},
		{at.Add(-time.Minute), driver.Work{Next: at}},
		{at.Add(time.Minute), driver.Work{Queues: []driver.QueueWork{{Queue: "other", Ready: true, Expired: true}}}},
	} {
		work, err := d.Work(t.Context(), test.now)
		require.NoError(t, err)
		require.Equal(t, test.want, work, "at %s", test.now)
		req := claimRequest("owner", 1)
		req.Now = test.now
		claimed, err := d.Claim(t.Context(), req)
		require.NoError(t, err)
		require.Equal(t, driver.Claimed{Next: test.want.Next}, claimed, "at %s", test.now)
	}
}
