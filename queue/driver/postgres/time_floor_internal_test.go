package postgres

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/internal/pgtest"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/internal/table"
)

// Claims no longer look at the time of the job when its transaction is committed.
func TestAJobWhoseTransactionWasOpenUntilAfterItsTimeIsFoundAtOnce(t *testing.T) {
	opts := Options{URL: pgtest.URL(t), Schema: pgtest.Schema(t)}
	open := func() *Driver {
		d, err := Open(t.Context(), opts)
		require.NoError(t, err)
		t.Cleanup(func() { assert.NoError(t, d.Close(context.Background())) })
		return d
	}
	inserts, claims := open(), open()
	claim := func() []*driver.Record {
		claimed, err := claims.Claim(t.Context(), driver.ClaimRequest{
			Owner: "owner", Queues: []driver.Demand{{Limit: 1}}, Limit: 1, Now: time.Now(), LeaseTime: time.Minute,
		})
		require.NoError(t, err)
		return claimed.Records
	}
	errs, err := inserts.Insert(t.Context(), []*driver.Record{{Name: "first", Type: "test"}})
	require.NoError(t, err)
	require.NoError(t, errs[0])
	require.Len(t, claim(), 1)

	tx, err := inserts.pool.Begin(t.Context())
	require.NoError(t, err)
	due := time.Now().Add(100 * time.Millisecond)
	late := &driver.Record{Name: "late", Type: "test"}
	late.TimeInfo.WaitUntil = due
	errs, err = inserts.Insert(WithTx(t.Context(), tx), []*driver.Record{late})
	require.NoError(t, err)
	require.NoError(t, errs[0])
	require.Eventually(t, func() bool {
		require.Empty(t, claim())
		return claims.due.begin(time.Now().UnixNano()).from > due.UnixNano()
	}, wholeLookInterval, 10*time.Millisecond)

	require.NoError(t, tx.Commit(t.Context()))
	began := time.Now()
	require.Eventually(t, func() bool { return len(claim()) == 1 }, wholeLookInterval, time.Millisecond)
	assert.Less(t, time.Since(began), wholeLookInterval/3, "not when all due jobs are looked for")
}

func TestTheFloorOfDueJobsFollowsWhatClaimsFind(t *testing.T) {
	now := time.Now().UnixNano()
	at := func(due int64) table.Instant { return table.Instant{Int64: due, Valid: true} }
	f := &dueFloor{}
	first := f.begin(now)
	assert.Negative(t, first.from, "all due jobs are looked for at first")
	f.end(first, at(now-int64(time.Hour)))
	assert.Equal(t, now-int64(time.Hour), f.begin(now).from, "a job that stays due")
	f.end(f.begin(now), table.Instant{})
	assert.Equal(t, behind(now), f.begin(now).from)
	assert.Equal(t, behind(now-int64(time.Hour)), f.begin(now-int64(time.Hour)).from, "the clock was set back")

	f.end(f.begin(now+int64(time.Hour)), table.Instant{})
	assert.Less(t, f.begin(now+int64(time.Hour)).from, now+int64(time.Minute), "a claim of a time to come")

	f.lower(now - int64(time.Hour))
	before := f.begin(now)
	f.lower(now + int64(time.Hour))
	f.end(before, table.Instant{})
	assert.Equal(t, behind(now), f.begin(now).from, "jobs that are not late don't keep it low")

	before = f.begin(now)
	f.lower(now - int64(time.Minute))
	f.end(before, table.Instant{})
	assert.Equal(t, now-int64(time.Minute), f.begin(now).from, "the look began before")
}
