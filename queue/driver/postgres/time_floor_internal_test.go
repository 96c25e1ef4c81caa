package postgres

import (
	"context"
	"strings"
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
		l := claims.lookForDue(time.Now().UnixNano())
		defer l.close()
		return l.from > due.UnixNano()
	}, wholeLookInterval, 10*time.Millisecond)

	require.NoError(t, tx.Commit(t.Context()))
	began := time.Now()
	require.Eventually(t, func() bool { return len(claim()) == 1 }, wholeLookInterval, time.Millisecond)
	assert.Less(t, time.Since(began), wholeLookInterval/3, "not when all due jobs are looked for")
}

func TestTheFloorOfDueJobsFollowsWhatClaimsFind(t *testing.T) {
	now := time.Now().UnixNano()
	d := newDriver(Options{})
	from := func(now int64) int64 {
		l := d.lookForDue(now)
		defer l.close()
		return l.from
	}
	find := func(now int64, first table.Instant) {
		l := d.lookForDue(now)
		defer l.close()
		l.foundDue(first, now)
	}
	lower := func(due int64) { d.lower(moments{due: instant(due)}) }

	assert.Negative(t, from(now), "all due jobs are looked for at first")
	find(now, instant(now-int64(time.Hour)))
	assert.Equal(t, now-int64(time.Hour), from(now), "a job that stays due")
	find(now, table.Instant{})
	assert.Equal(t, behind(now), from(now))
	assert.Equal(t, behind(now-int64(time.Hour)), from(now-int64(time.Hour)), "the clock was set back")

	find(now+int64(time.Hour), table.Instant{})
	assert.Less(t, from(now+int64(time.Hour)), now+int64(time.Minute), "a claim of a time to come")

	lower(now - int64(time.Hour))
	before := d.lookForDue(now)
	lower(now + int64(time.Hour))
	before.foundDue(table.Instant{}, now)
	before.close()
	assert.Equal(t, behind(now), from(now), "jobs that are not late don't keep it low")

	before = d.lookForDue(now)
	lower(now - int64(time.Minute))
	before.foundDue(table.Instant{}, now)
	before.close()
	assert.Equal(t, now-int64(time.Minute), from(now), "the look began before")
}

func TestTheFloorOfExpiriesFollowsWhatClaimsFind(t *testing.T) {
	now := time.Now().UnixNano()
	const hour = int64(time.Hour)
	d := newDriver(Options{})
	from := func(now int64) int64 {
		l := d.lookForExpired()
		defer l.close()
		return (&claim{now: now, expired: l}).expiredFrom()
	}
	find := func(first table.Instant) {
		l := d.lookForExpired()
		defer l.close()
		l.foundExpiry(first)
	}
	assert.EqualValues(t, always, from(now), "all jobs are looked at first")
	assert.Empty(t, d.expires.looks)

	find(instant(now + 2*hour))
	assert.EqualValues(t, never, from(now), "nothing expires now")
	assert.Equal(t, now+2*hour, from(now+3*hour))
	assert.Equal(t, instant(now+2*hour), d.expires.next())

	d.lower(moments{expires: instant(now + hour)})
	assert.Equal(t, now+hour, from(now+3*hour), "a job was put that expires earlier")
	d.lower(moments{expires: instant(now + 2*hour)})
	assert.Equal(t, now+hour, from(now+3*hour))

	before := d.lookForExpired()
	d.lower(moments{expires: instant(now + 2*hour)})
	before.foundExpiry(table.Instant{})
	before.close()
	assert.Equal(t, now+2*hour, from(now+3*hour), "the look began before")

	find(table.Instant{})
	assert.Equal(t, table.Instant{}, d.expires.next(), "no job expires")

	d.lower(parseMoments("no time"))
	assert.EqualValues(t, always, from(now), "an announcement that can't be read")
}

func TestANotificationNamesTheTimesOfJobsThatWereWritten(t *testing.T) {
	for _, m := range []moments{{}, {due: instant(1)}, {expires: instant(-2)}, {due: instant(3), expires: instant(4)}, {due: instant(5), expires: instant(5)}} {
		what, times, _ := strings.Cut(news(true, m), "/")
		assert.Equal(t, "claim", what)
		assert.Equal(t, m, parseMoments(times))
	}
	assert.Equal(t, moments{due: instant(5)}, parseMoments("5"), "of a process with an earlier version")
}

func instant(at int64) table.Instant { return table.Instant{Int64: at, Valid: true} }
