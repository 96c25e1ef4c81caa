package postgres

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/internal/pgtest"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/internal/table"
	"github.com/mongodb/amboy/registry"
)

// lateCommit is a job whose transaction is committed after its time.
type lateCommit struct {
	inserts, claims *Driver
}

func newLateCommit(t *testing.T) *lateCommit {
	opts := Options{URL: pgtest.URL(t), Schema: pgtest.Schema(t)}
	open := func() *Driver {
		d, err := Open(t.Context(), opts)
		require.NoError(t, err)
		t.Cleanup(func() { assert.NoError(t, d.Close(context.Background())) })
		return d
	}
	l := &lateCommit{open(), open()}
	l.insert(t, t.Context(), &driver.Record{Name: "first", Type: "test"})
	require.Len(t, l.claim(t, l.claims), 1)
	return l
}

func (l *lateCommit) insert(t *testing.T, ctx context.Context, r *driver.Record) { //nolint:revive // It may carry a transaction.
	t.Helper()
	errs, err := l.inserts.Insert(ctx, []*driver.Record{r})
	require.NoError(t, err)
	require.NoError(t, errs[0])
}

func (l *lateCommit) claim(t *testing.T, d *Driver) []*driver.Record {
	t.Helper()
	claimed, err := d.Claim(t.Context(), driver.ClaimRequest{
		Owner: "owner", Queues: []driver.Demand{{Limit: 1}}, Limit: 1, Now: time.Now(), LeaseTime: time.Minute,
	})
	require.NoError(t, err)
	return claimed.Records
}

// isFoundAtOnce waits until claims no longer look at a time, and tests that they find a job of that time once it
// is committed.
func (l *lateCommit) isFoundAtOnce(t *testing.T, due time.Time, commit func()) {
	t.Helper()
	require.Eventually(t, func() bool {
		require.Empty(t, l.claim(t, l.claims))
		look := l.claims.lookForDue(time.Now().UnixNano())
		defer look.close()
		return look.from > due.UnixNano()
	}, wholeLookInterval, 10*time.Millisecond)

	commit()
	began := time.Now()
	require.Eventually(t, func() bool { return len(l.claim(t, l.claims)) == 1 }, wholeLookInterval+time.Second, time.Millisecond)
	assert.Less(t, time.Since(began), wholeLookInterval/3, "not when all due jobs are looked for")
}

func TestAJobWhoseTransactionWasOpenUntilAfterItsTimeIsFoundAtOnce(t *testing.T) {
	l := newLateCommit(t)
	tx, err := l.inserts.pool.Begin(t.Context())
	require.NoError(t, err)
	due := time.Now().Add(100 * time.Millisecond)
	late := &driver.Record{Name: "late", Type: "test"}
	late.TimeInfo.WaitUntil = due
	l.insert(t, WithTx(t.Context(), tx), late)
	l.isFoundAtOnce(t, due, func() { require.NoError(t, tx.Commit(t.Context())) })
}

// Claims found the dependent when they looked for all due jobs, up to 30 s later.
func TestAJobWhoseDependencyEndedInATransactionThatWasOpenUntilAfterItsTimeIsFoundAtOnce(t *testing.T) {
	for name, scopes := range map[string][]string{"plain": nil, "with a scope": {"scope"}} {
		t.Run(name, func(t *testing.T) {
			l := newLateCommit(t)
			l.insert(t, t.Context(), &driver.Record{Name: "target", Type: "test"})
			target := l.claim(t, l.inserts)[0]
			due := time.Now().Add(500 * time.Millisecond)
			late := &driver.Record{Name: "late", Type: "test", Dependency: &registry.DependencyInterchange{Edges: []string{"target"}}}
			late.RequiredScopes, late.TimeInfo.WaitUntil = scopes, due
			l.insert(t, t.Context(), late)

			tx, err := l.inserts.pool.Begin(t.Context())
			require.NoError(t, err)
			lease := driver.LeaseOf(target)
			target.Status.Completed, target.Status.InProgress = true, false
			errs, err := l.inserts.Complete(WithTx(t.Context(), tx), []driver.Completion{{Lease: lease, Record: target}})
			require.NoError(t, err)
			require.NoError(t, errs[0])
			l.isFoundAtOnce(t, due, func() { require.NoError(t, tx.Commit(t.Context())) })
		})
	}
}

// As when the disk of the server was slow, or a row was locked.
func TestAJobThatWasHandedBackIsFoundAtOnceIfTheCommitTookUntilAfterItsTime(t *testing.T) {
	const key = 20261129
	l := newLateCommit(t)
	blocking, err := l.inserts.pool.Begin(t.Context())
	require.NoError(t, err)
	_, err = blocking.Exec(t.Context(), l.inserts.inSchema(`CREATE FUNCTION {s}.wait() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
		PERFORM set_config('lock_timeout', '0', true), pg_advisory_xact_lock_shared(`+strconv.Itoa(key)+`); RETURN NULL; END $$;
		CREATE CONSTRAINT TRIGGER wait AFTER UPDATE ON {s}.jobs DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (NEW.place = 2) EXECUTE FUNCTION {s}.wait()`))
	require.NoError(t, err)
	require.NoError(t, blocking.Commit(t.Context()))
	l.insert(t, t.Context(), &driver.Record{Name: "late", Type: "test"})
	lease := driver.LeaseOf(l.claim(t, l.inserts)[0])
	blocking, err = l.inserts.pool.Begin(t.Context())
	require.NoError(t, err)
	_, err = blocking.Exec(t.Context(), "SELECT pg_advisory_xact_lock($1)", key)
	require.NoError(t, err)

	due := time.Now().Add(500 * time.Millisecond)
	released := make(chan error, 1)
	go func() {
		errs, err := l.inserts.Release(t.Context(), []driver.HandBack{{Lease: lease, NotBefore: due, Since: time.Now()}})
		released <- errors.Join(append(errs, err)...)
	}()
	l.isFoundAtOnce(t, due, func() {
		require.NoError(t, blocking.Rollback(t.Context()))
		require.NoError(t, <-released)
	})
}

// Claims of a process whose clock is ahead no longer look at the time when the job is put, although it is to come for
// the process that puts it.
func TestATimeToComeIsAnnouncedToProcessesWhoseClocksAreAhead(t *testing.T) {
	d := newDriver(Options{})
	d.signals = newSignals(d)
	due := instant(time.Now().Add(time.Minute).UnixNano())
	d.noteWritten(moments{due: due})
	assert.Equal(t, due, d.signals.written.due)
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
