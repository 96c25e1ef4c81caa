package sqlite_test

import (
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/sqlite"
	"github.com/mongodb/amboy/registry"
)

// scoped returns a record that needs scopes.
func scoped(tb testing.TB, id string, priority int, scopes ...string) *driver.Record {
	tb.Helper()
	r := newRecord(tb, id)
	r.Priority, r.RequiredScopes = priority, scopes
	return r
}

// claimAt claims one record at a time, and returns when there may be more.
func claimAt(t *testing.T, d *sqlite.Driver, now time.Time) ([]*driver.Record, time.Time) {
	t.Helper()
	req := request(1)
	req.Now = now
	claimed, err := d.Claim(t.Context(), req)
	require.NoError(t, err)
	return claimed.Records, claimed.Next
}

// written returns the number of bytes that a function adds to the log of a file.
func written(t *testing.T, d *sqlite.Driver, path string, write func()) int64 {
	t.Helper()
	require.NoError(t, sqlite.Exec(d, "PRAGMA wal_autocheckpoint(0)")) // so that the log grows
	before := logSize(t, path)
	write()
	return logSize(t, path) - before
}

// fewBytes is an upper bound of what is written when few of many records change.
const fewBytes = 300_000

func TestTheCostOfFreeingAScopeDoesNotDependOnRecordsThatNeedAnotherScope(t *testing.T) {
	const waiters = 3000
	path := newPath(t)
	d := open(t, sqlite.Options{Path: path})
	all := []*driver.Record{scoped(t, "first", 2, "first"), scoped(t, "second", 2, "second")}
	for i := range waiters {
		all = append(all, scoped(t, fmt.Sprint(i), 1, "first", "second"))
	}
	insert(t, d, append(all, scoped(t, "other", 0, "first"))...)
	holders := claim(t, d, 2)
	require.Len(t, holders, 2)

	assert.Less(t, written(t, d, path, func() { complete(t, d, holders[0]) }), int64(fewBytes))
	other := claim(t, d, 10)
	require.Len(t, other, 1)
	assert.Equal(t, "other", other[0].JobID())
	blocked, err := d.Get(t.Context(), queueName, "7")
	require.NoError(t, err)
	assert.Equal(t, `waits for scope "second"`, blocked.Status.Reason)
	assert.Less(t, written(t, d, path, func() { complete(t, d, holders[1]) }), int64(fewBytes))
	require.Empty(t, claim(t, d, 10))
	assert.Less(t, written(t, d, path, func() { complete(t, d, other[0]) }), int64(fewBytes))
	for i := range 3 {
		next := claim(t, d, 10)
		require.Len(t, next, 1)
		assert.Equal(t, fmt.Sprint(i), next[0].JobID())
		assert.Less(t, written(t, d, path, func() { complete(t, d, next[0]) }), int64(fewBytes))
	}
}

func TestFreeingAScopeWithManyWaitingGroupsIsSpreadOverTransactions(t *testing.T) {
	const waiters = 500
	path := newPath(t)
	d := open(t, sqlite.Options{Path: path})
	all := []*driver.Record{scoped(t, "first", 3, "first")}
	for i := range waiters {
		second := fmt.Sprint("second of ", i)
		all = append(all, scoped(t, "holder of "+second, 2, second), scoped(t, fmt.Sprint(i), 1, "first", second))
	}
	insert(t, d, append(all, scoped(t, "last", 0, "first"))...)
	holders := claim(t, d, waiters+1)
	require.Len(t, holders, waiters+1)

	assert.Less(t, written(t, d, path, func() { complete(t, d, holders[0]) }), int64(fewBytes))
	steps := 0
	for now := time.Now(); ; steps++ {
		require.Less(t, steps, waiters, "it comes to an end")
		var got []*driver.Record
		var next time.Time
		assert.Less(t, written(t, d, path, func() { got, next = claimAt(t, d, now) }), int64(fewBytes))
		if len(got) > 0 {
			assert.Equal(t, "last", got[0].JobID())
			break
		}
		require.Equal(t, now, next, "a claim goes on at once")
	}
	assert.Greater(t, steps, waiters/16/2)
}

// released counts the records that no longer wait for their dependencies.
func released(t *testing.T, d *sqlite.Driver) int {
	t.Helper()
	s := stats(t, d)
	return s.Pending - s.Blocked
}

func TestTheEndOfAJobReleasesManyDependentsInSmallTransactions(t *testing.T) {
	const dependents, most = 1500, 256
	for _, outcome := range []amboy.Outcome{"", amboy.OutcomeCanceled} {
		t.Run(fmt.Sprint("outcome ", outcome), func(t *testing.T) {
			d := open(t, sqlite.Options{Path: newPath(t)})
			all := []*driver.Record{newRecord(t, "job")}
			for i := range dependents {
				r := newRecord(t, fmt.Sprint(i))
				r.Dependency = &registry.DependencyInterchange{Edges: []string{"job"}}
				all = append(all, r)
			}
			insert(t, d, all...)
			job := claim(t, d, 1)
			job[0].ForgetAt = time.Now().Add(-time.Hour)
			endEach(t, d, job, outcome)
			assert.Positive(t, released(t, d))
			assert.LessOrEqual(t, released(t, d), most)

			// The ID counts as taken until all dependents are released.
			errs, err := d.Insert(t.Context(), []*driver.Record{newRecord(t, "job")})
			require.NoError(t, err)
			assert.True(t, amboy.IsDuplicateJobError(errs[0]))
			forgotten, err := d.Forget(t.Context(), time.Now(), 10)
			require.NoError(t, err)
			require.Equal(t, 1, forgotten)
			errs, err = d.Insert(t.Context(), []*driver.Record{newRecord(t, "job")})
			require.NoError(t, err)
			assert.True(t, amboy.IsDuplicateJobError(errs[0]), "a new job would be taken for the removed one")

			now := time.Now()
			req := request(0) // all workers are busy
			req.Now = now
			for released(t, d) < dependents {
				before := released(t, d)
				claimed, err := d.Claim(t.Context(), req)
				require.NoError(t, err)
				step := released(t, d) - before
				if released(t, d) < dependents {
					require.Equal(t, now, claimed.Next, "a claim goes on at once")
				}
				require.Positive(t, step)
				require.LessOrEqual(t, step, most)
			}
			require.NoError(t, errors.Join(claimAll(t, d, req)))
			insert(t, d, newRecord(t, "job"))
			r := claim(t, d, 1)[0]
			if outcome == "" {
				assert.Empty(t, r.Dependency.Failed)
			} else {
				assert.Equal(t, []string{"job"}, r.Dependency.Failed)
			}
		})
	}
}

// Jobs that the end of another lets run, but that its transaction has left for later, were no work of their queue. So
// no process of a group opened the queue for them.
func TestAQueueHadNoWorkAlthoughDependentsWereLeft(t *testing.T) {
	d := open(t, sqlite.Options{Path: newPath(t)})
	later := newRecord(t, "later")
	later.TimeInfo.WaitUntil = time.Now().Add(time.Hour)
	all := []*driver.Record{newRecord(t, "target"), later}
	add := func(id string, edges ...string) {
		r := newRecord(t, id)
		r.Dependency = &registry.DependencyInterchange{Edges: edges}
		all = append(all, r)
	}
	for i := range 300 { // more than the 256 edges that one transaction ends
		add(fmt.Sprint(i), "target", "later")
	}
	add("last", "target")
	insert(t, d, all...)
	complete(t, d, claim(t, d, 1)[0])
	require.Equal(t, 1, released(t, d), "all but the one that is due later")
	work, err := d.Work(t.Context(), time.Now())
	require.NoError(t, err)
	assert.Equal(t, []driver.QueueWork{{Queue: queueName, Ready: true}}, work.Queues)
}

// claimAll claims until nothing is left to do.
func claimAll(t *testing.T, d *sqlite.Driver, req driver.ClaimRequest) error {
	t.Helper()
	for range 100 {
		claimed, err := d.Claim(t.Context(), req)
		if err != nil || claimed.Next.IsZero() {
			return err
		}
	}
	return errors.New("claims find ever more to do")
}

// The test ends many jobs at once that have few dependents each.
func TestManyEndsReleaseFewDependentsInOneTransaction(t *testing.T) {
	const jobs, each = 100, 10
	d := open(t, sqlite.Options{Path: newPath(t)})
	var all []*driver.Record
	for i := range jobs {
		all = append(all, newRecord(t, fmt.Sprint("job-", i)))
	}
	for i := range jobs * each {
		r := newRecord(t, fmt.Sprint(i))
		r.Dependency = &registry.DependencyInterchange{Edges: []string{fmt.Sprint("job-", i%jobs)}}
		all = append(all, r)
	}
	insert(t, d, all...)
	var completions []driver.Completion
	for _, r := range claim(t, d, jobs) {
		r.Status.Completed = true
		completions = append(completions, driver.Completion{Lease: driver.LeaseOf(r), Record: r})
	}
	errs, err := d.Complete(t.Context(), completions)
	require.NoError(t, errors.Join(append(errs, err)...))
	assert.LessOrEqual(t, released(t, d), 256)
	require.NoError(t, claimAll(t, d, request(0)))
	assert.Equal(t, jobs*each, released(t, d))
}

// The test opens a file of the schema version without groups, in which each record waited
// for a scope by itself.
func TestOpenGroupsTheRecordsThatWaitForScopes(t *testing.T) {
	path := newPath(t)
	d := open(t, sqlite.Options{Path: path})
	insert(t, d, scoped(t, "first", 9, "first"), scoped(t, "second", 9, "second"),
		scoped(t, "both", 0, "first", "second"), scoped(t, "both, better", 1, "second", "first"), scoped(t, "one", 2, "first"))
	holders := claim(t, d, 2)
	before := find(t, d)
	require.NoError(t, d.Close(t.Context()))
	asBefore(t, openRaw(t, path))

	d = open(t, sqlite.Options{Path: path})
	assert.Equal(t, before, find(t, d))
	complete(t, d, holders[slices.IndexFunc(holders, func(r *driver.Record) bool { return r.JobID() == "first" })])
	one := claim(t, d, 10)
	require.Len(t, one, 1)
	assert.Equal(t, "one", one[0].JobID())
	complete(t, d, holders[slices.IndexFunc(holders, func(r *driver.Record) bool { return r.JobID() == "second" })])
	require.Empty(t, claim(t, d, 10))
	for r, want := range map[*driver.Record]string{one[0]: "both, better"} {
		complete(t, d, r)
		next := claim(t, d, 10)
		require.Len(t, next, 1)
		assert.Equal(t, want, next[0].JobID())
	}
}

// asBefore converts a file to the schema version before groups.
func asBefore(t *testing.T, db *sql.DB) {
	t.Helper()
	for _, text := range []string{
		`UPDATE jobs SET waiting_for = (SELECT scope FROM scope_groups WHERE queue = jobs.queue AND scopes = waiting_for)
			WHERE waiting_for IS NOT NULL`,
		"DROP TABLE holders",
		"ALTER TABLE queues DROP COLUMN type_limits", "ALTER TABLE queues DROP COLUMN type_buckets",
		"ALTER TABLE queues DROP COLUMN rate", "ALTER TABLE queues DROP COLUMN burst", "ALTER TABLE queues DROP COLUMN bucket",
		"DROP INDEX queues_empty", "ALTER TABLE queues DROP COLUMN used", "DROP TABLE prunings",
		"DROP TABLE scope_groups", "DROP TABLE leftovers", "DROP INDEX edges_open", "PRAGMA user_version = 4",
	} {
		_, err := db.ExecContext(t.Context(), text)
		require.NoError(t, err)
	}
}
