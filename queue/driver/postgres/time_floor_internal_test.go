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

// isFoundAtOnce waits until claims no longer search a time, and tests that they find a job of that time once it
// is committed, although they do not search for all due jobs.
func (l *lateCommit) isFoundAtOnce(t *testing.T, due time.Time, commit func()) {
	t.Helper()
	require.Eventually(t, func() bool {
		require.Empty(t, l.claim(t, l.claims))
		look := l.claims.lookForDue(time.Now().UnixNano())
		defer look.close()
		return look.from > due.UnixNano()
	}, time.Minute, 10*time.Millisecond)

	l.claims.due.mu.Lock()
	l.claims.due.whole = time.Now().Add(time.Hour) // the next search for all is far away, on a slow machine too
	l.claims.due.mu.Unlock()
	commit()
	require.Eventually(t, func() bool { return len(l.claim(t, l.claims)) == 1 }, time.Minute, time.Millisecond)
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

// Claims found the dependent when they searched for all due jobs, up to 30 s later.
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
	blocking, err = l.inserts.pool.Begin(t.Context())
	require.NoError(t, err)
	_, err = blocking.Exec(t.Context(), "SELECT pg_advisory_xact_lock($1)", key)
	require.NoError(t, err)

	var due time.Time
	released := make(chan error, 1)
	for wait := 500 * time.Millisecond; ; wait *= 2 {
		lease := driver.LeaseOf(l.claim(t, l.inserts)[0])
		due = time.Now().Add(wait)
		go func() {
			errs, err := l.inserts.Release(t.Context(), []driver.HandBack{{Lease: lease, NotBefore: due, Since: time.Now()}})
			released <- errors.Join(append(errs, err)...)
		}()
		if l.commitWaits(t, key, released) {
			break
		}
		require.NoError(t, <-released) // The time had come already, so the job became ready: this machine is slow.
	}
	l.isFoundAtOnce(t, due, func() {
		require.NoError(t, blocking.Rollback(t.Context()))
		require.NoError(t, <-released)
	})
}

// commitWaits waits until a commit waits for a lock. It reports false if the call that makes it has ended instead.
func (l *lateCommit) commitWaits(t *testing.T, key int64, ended <-chan error) (waits bool) {
	t.Helper()
	require.Eventually(t, func() bool {
		const query = "SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND classid = 0 AND objid = $1::bigint::oid AND NOT granted)"
		return assert.NoError(t, l.inserts.pool.QueryRow(t.Context(), query, key).Scan(&waits)) && waits || len(ended) > 0
	}, time.Minute, time.Millisecond)
	return waits
}

// Claims of a process whose clock is ahead no longer search the time when the job is put, although it is to come for
// the process that puts it.
func TestATimeToComeIsAnnouncedToProcessesWhoseClocksAreAhead(t *testing.T) {
	d := newDriver(Options{})
	d.signals = newSignals(d)
	due := spansOf(instant(time.Now().Add(time.Minute).UnixNano()))
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
		l.foundDue(first, table.Instant{}, now)
	}
	lower := func(due int64) { d.lower(moments{due: spansOf(instant(due))}) }

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
	before.foundDue(table.Instant{}, table.Instant{}, now)
	before.close()
	assert.Equal(t, behind(now), from(now), "jobs that are not late don't keep it low")

	before = d.lookForDue(now)
	lower(now - int64(time.Minute))
	before.foundDue(table.Instant{}, table.Instant{}, now)
	before.close()
	assert.Equal(t, now-int64(time.Minute), from(now), "the look began before")
}

func TestTheFloorOfExpiriesFollowsWhatClaimsFind(t *testing.T) {
	now := time.Now().UnixNano()
	at := func(hours int) int64 { return now + int64(hours)*int64(time.Hour) }
	in := func(hours int) table.Instant { return instant(at(hours)) }
	d := newDriver(Options{})
	looksFrom := func(hours int, from int64, coming spans, until int64) {
		t.Helper()
		l := d.lookForExpired(at(hours))
		defer l.close()
		assert.Equal(t, []any{from, coming, until}, []any{l.from, l.spans, l.until})
	}
	find := func(first, next table.Instant) {
		l := d.lookForExpired(now)
		defer l.close()
		l.foundExpiry(first, next)
	}
	none := table.Instant{}
	lower := func(hours int) { d.lower(moments{expires: spansOf(in(hours))}) }
	only := func(hours int) span { return span{at(hours), at(hours)} }

	looksFrom(0, always, nil, now)
	assert.Empty(t, d.expires.looks)
	find(none, in(3))
	looksFrom(0, now, nil, at(3))
	looksFrom(4, now, nil, at(4))
	looksFrom(-1, now, nil, at(-1)) // the clock was set back

	lower(1)
	lower(5)
	lower(2)
	looksFrom(0, now, spans{only(1), only(2)}, at(3))
	find(none, in(2)) // the first one has started
	looksFrom(0, now, spans{only(2)}, at(3))
	find(none, in(4)) // the others, too
	looksFrom(0, now, nil, at(4))

	find(in(-2), none) // of a queue that no process serves
	looksFrom(0, at(-2), nil, never)

	before := d.lookForExpired(now)
	lower(1)
	before.foundExpiry(none, none)
	before.close()
	looksFrom(0, now, spans{only(1)}, never)

	d.lower(parseMoments("no time"))
	looksFrom(0, always, nil, now)
}

func TestSpansContainAllTimes(t *testing.T) {
	assert.Equal(t, spans{{1, 4}, {6, 8}}, spans{{1, 2}, {6, 7}}.with(span{7, 8}, span{2, 4}))
	assert.Equal(t, spans{{always, never}}, spans{{1, 2}}.with(anyTime.due...).with(anyTime.due...))
	var many spans
	for i := range int64(2 * maxSpans) {
		many = append(many, span{10 * i * i, 10*i*i + 1})
	}
	some := many.with(span{-5, -4})
	require.Len(t, some, maxSpans)
	assert.EqualValues(t, -5, some[0].from, "the first ones are closest to each other")
	assert.Equal(t, many[len(many)-maxSpans+1:], some[1:])
	assert.Equal(t, spans{{3, 4}, {6, 8}}, spans{{1, 4}, {6, 8}}.since(3))
	assert.Empty(t, spans{{1, 4}}.since(5))
}

func TestANotificationNamesTheTimesOfJobsThatWereWritten(t *testing.T) {
	one, some := spansOf(instant(5)), spans{{-2, -2}, {3, 4}}
	for _, m := range []moments{{}, {due: one}, {expires: one}, {due: one, expires: some}, {due: some, expires: some}} {
		what, times, _ := strings.Cut(news(true, m), "/")
		assert.Equal(t, "claim", what)
		assert.Equal(t, m, parseMoments(times))
	}
	assert.Equal(t, moments{due: spans{{5, never}}}, parseMoments("5"), "of a process with an earlier version")
}

func instant(at int64) table.Instant { return table.Instant{Int64: at, Valid: true} }
