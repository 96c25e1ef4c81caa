package sqlite_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/management"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/sqlite"
	"github.com/mongodb/amboy/registry"
)

// columnsOfJobs returns the columns of the table jobs that a test damages.
func columnsOfJobs(t *testing.T, path string) (names []string) {
	t.Helper()
	rows, err := openRaw(t, path).QueryContext(t.Context(), "SELECT name FROM pragma_table_info('jobs')")
	require.NoError(t, err)
	defer func() { assert.NoError(t, rows.Close()) }()
	for rows.Next() {
		var name string
		require.NoError(t, rows.Scan(&name))
		if name != "seq" && name != "queue" { // which say which row it is
			names = append(names, name)
		}
	}
	require.NoError(t, rows.Err())
	return names
}

// rich returns a record that uses most columns.
func rich(t *testing.T, id string) *driver.Record {
	t.Helper()
	r := newRecord(t, id)
	r.Tags, r.UniqueKey, r.UniqueUntil = []string{"tag"}, "key of "+id, amboy.UniqueUntilEnded
	r.Metadata = map[string]string{"k": "v"}
	r.EnqueueScopes, r.RequiredScopes = []string{"enqueue " + id}, []string{"scope " + id}
	r.TimeInfo.DispatchBy = time.Now().Add(time.Hour)
	return r
}

// Each test damages one column of each of many records in a state. What can't be read must
// neither stop the other records nor panic.
func TestADamagedRowIsParkedAndStopsNoOther(t *testing.T) {
	for state, prepare := range map[string]func(t *testing.T, d *sqlite.Driver, all []*driver.Record){
		"ready": func(t *testing.T, d *sqlite.Driver, all []*driver.Record) { insert(t, d, all...) },
		"scheduled": func(t *testing.T, d *sqlite.Driver, all []*driver.Record) {
			for _, r := range all {
				r.TimeInfo.WaitUntil = time.Now().Add(time.Minute)
			}
			insert(t, d, all...)
		},
		"running": func(t *testing.T, d *sqlite.Driver, all []*driver.Record) {
			insert(t, d, all...)
			claim(t, d, len(all))
		},
		"finished": func(t *testing.T, d *sqlite.Driver, all []*driver.Record) {
			insert(t, d, all...)
			for _, r := range claim(t, d, len(all)) {
				r.ForgetAt = time.Now()
				complete(t, d, r)
			}
		},
	} {
		for _, value := range []string{"'[1'", "x'ff00'", "1.5e18", "99", "9223372036854775807"} {
			t.Run(state+" "+value, func(t *testing.T) {
				path := newPath(t)
				d := open(t, sqlite.Options{Path: path})
				columns := columnsOfJobs(t, path)
				all := make([]*driver.Record, len(columns))
				for i, column := range columns {
					all[i] = rich(t, column)
				}
				prepare(t, d, all)
				damage(t, path, columns, value)
				insert(t, d, newRecord(t, "good"))
				scheduled := newRecord(t, "good too")
				scheduled.TimeInfo.WaitUntil = time.Now().Add(2 * time.Minute)
				insert(t, d, scheduled)
				survive(t, d, columns)
			})
		}
	}
}

// damage sets columns of the records that have the columns' names, unless the schema refuses it.
func damage(t *testing.T, path string, columns []string, value string) {
	t.Helper()
	tx, err := openRaw(t, path).BeginTx(t.Context(), nil)
	require.NoError(t, err)
	for _, column := range columns {
		_, err = tx.ExecContext(t.Context(), fmt.Sprintf("UPDATE jobs SET %s = %s WHERE job_id = '%s'", column, value, column))
		if err != nil {
			require.ErrorContains(t, err, "constraint failed")
		}
	}
	require.NoError(t, tx.Commit())
}

// survive requires that all calls succeed, or fail with an error that names a record.
func survive(t *testing.T, d *sqlite.Driver, columns []string) {
	t.Helper()
	ctx := t.Context()
	clean := func(err error) {
		t.Helper()
		if err == nil {
			return
		}
		var panicked *amboy.PanicError
		require.NotErrorAs(t, err, &panicked)
		require.ErrorContains(t, err, "record ")
	}
	var claimed []string
	for now := range 3 {
		req := request(1000)
		req.Now = time.Now().Add(time.Duration(now) * 90 * time.Second)
		c, err := d.Claim(ctx, req)
		require.NoError(t, err)
		for _, r := range c.Records {
			claimed = append(claimed, r.JobID())
			if slices.Contains(columns, r.JobID()) && r.Job.IsZero() {
				_, err = d.Release(ctx, []driver.HandBack{{Lease: driver.LeaseOf(r), Park: true}})
				require.NoError(t, err)
			}
		}
	}
	assert.Contains(t, claimed, "good")
	assert.Contains(t, claimed, "good too")
	assert.Len(t, slices.Compact(slices.Sorted(slices.Values(claimed))), len(claimed), "none is claimed again: %s", claimed)

	page, err := d.Find(ctx, driver.Query{}, driver.PageRequest{Limit: 1000})
	require.NoError(t, err)
	assert.Len(t, page.Records, len(columns)+2)
	for _, column := range columns {
		_, err = d.Get(ctx, queueName, column)
		if !amboy.IsJobNotFoundError(err) { // its key is damaged
			clean(err)
		}
	}
	_, err = d.Work(ctx, time.Now())
	require.NoError(t, err)
	sqlite.Elapse(d, 24*time.Hour)
	for range 2 {
		_, err = d.RecoverStale(ctx)
		require.NoError(t, err)
		sqlite.Elapse(d, 24*time.Hour)
	}
	for _, kind := range []driver.ActionKind{driver.Prioritize, driver.Park, driver.Unpark, driver.Restart, driver.Cancel} {
		_, err = d.Act(ctx, driver.ActRequest{Query: driver.Query{}, Action: driver.Action{Kind: kind}, Limit: 1000})
		clean(err)
	}
	_, err = d.Forget(ctx, time.Now().Add(time.Hour), 1000)
	require.NoError(t, err)
	_, err = d.Stats(ctx, queueName)
	require.NoError(t, err)
}

func TestADamagedRowIsParkedWithItsReason(t *testing.T) {
	path := newPath(t)
	d := open(t, sqlite.Options{Path: path})
	insert(t, d, newRecord(t, "one"), newRecord(t, "two"))
	execute(t, path, "UPDATE jobs SET version = 'new' WHERE job_id = 'one'")
	claimed, err := d.Claim(t.Context(), request(1))
	require.NoError(t, err)
	assert.Empty(t, claimed.Records)
	assert.False(t, claimed.Next.After(time.Now()), "the other can be claimed at once")
	assert.Equal(t, []string{"two"}, []string{claim(t, d, 1)[0].JobID()})
	parked := find(t, d, amboy.StateParked)
	require.Len(t, parked, 1)
	assert.Equal(t, "one", parked[0].JobID())
	assert.Contains(t, parked[0].Status.Reason, "stored record is damaged: column")
	one, err := d.Get(t.Context(), queueName, "one")
	require.NoError(t, err)
	_, err = one.Resolve(amboy.BSON2)
	require.ErrorIs(t, err, registry.ErrUnknownType)
	assert.Equal(t, 1, stats(t, d).Running)
	assert.Equal(t, 1, stats(t, d).Pending)
	execute(t, path, "UPDATE jobs SET version = 0 WHERE job_id = 'one'")
	_, err = d.Act(t.Context(), driver.ActRequest{Query: driver.Query{}, Action: driver.Action{Kind: driver.Unpark}, Limit: 10})
	require.NoError(t, err)
	assert.Len(t, claim(t, d, 10), 1, "a repaired record runs")
}

func TestADamagedQueueIsNamed(t *testing.T) {
	path := newPath(t)
	d := open(t, sqlite.Options{Path: path})
	insert(t, d, newRecord(t, "one"))
	execute(t, path, "UPDATE queues SET max_running = 'many'")
	_, err := d.Queues(t.Context(), driver.QueueRequest{})
	require.ErrorContains(t, err, `the row of queue "queue" is damaged`)
	_, err = d.Claim(t.Context(), request(1))
	require.ErrorContains(t, err, `the row of queue "queue" is damaged`)
}

// A page in the middle of the file is overwritten, and the file is cut short.
func TestADamagedFileIsReported(t *testing.T) {
	path := newPath(t)
	d, err := sqlite.Open(t.Context(), sqlite.Options{Path: path})
	require.NoError(t, err)
	for i := range 30 {
		insert(t, d, newRecord(t, fmt.Sprint("job-", i)))
	}
	require.NoError(t, d.Check(t.Context()))
	require.NoError(t, d.Close(context.Background()))
	sound, err := os.ReadFile(path)
	require.NoError(t, err)
	const page = 4096

	for name, change := range map[string]func(data []byte) []byte{
		"header":   func(data []byte) []byte { copy(data, strings.Repeat("x", 100)); return data },
		"cut":      func(data []byte) []byte { return data[:len(data)-3*page] },
		"one page": func(data []byte) []byte { return data[:page] },
		"zeroed":   func(data []byte) []byte { clear(data[page:]); return data },
		"noise": func(data []byte) []byte {
			for i := page; i < len(data); i++ {
				data[i] = byte(i * 7)
			}
			return data
		},
	} {
		t.Run("at Open: "+name, func(t *testing.T) {
			path := newPath(t)
			require.NoError(t, os.WriteFile(path, change(slices.Clone(sound)), 0o600))
			_, err := sqlite.Open(t.Context(), sqlite.Options{Path: path})
			require.ErrorIs(t, err, sqlite.ErrDamaged)
			require.ErrorContains(t, err, path)
		})
	}
	t.Run("by Check", func(t *testing.T) {
		path := newPath(t)
		require.NoError(t, os.WriteFile(path, sound, 0o600))
		db := openRaw(t, path)
		var root int
		require.NoError(t, db.QueryRowContext(t.Context(), "SELECT rootpage FROM sqlite_schema WHERE name = 'jobs_forget'").Scan(&root))
		require.NoError(t, db.Close())
		bad := slices.Clone(sound)
		for i := (root - 1) * page; i < root*page; i++ {
			bad[i] = byte(i * 7)
		}
		require.NoError(t, os.WriteFile(path, bad, 0o600))
		d := open(t, sqlite.Options{Path: path})
		require.ErrorIs(t, d.Check(t.Context()), sqlite.ErrDamaged)
		r := claim(t, d, 1)[0]
		r.Status.Completed, r.Status.InProgress = true, false
		_, err := d.Complete(t.Context(), []driver.Completion{{Lease: driver.LeaseOf(r), Record: r}})
		require.ErrorIs(t, err, sqlite.ErrDamaged)
	})
	t.Run("a table is missing", func(t *testing.T) {
		path := newPath(t)
		require.NoError(t, os.WriteFile(path, sound, 0o600))
		execute(t, path, "DROP TABLE edges")
		_, err := sqlite.Open(t.Context(), sqlite.Options{Path: path})
		require.ErrorIs(t, err, sqlite.ErrDamaged)
		require.ErrorContains(t, err, "edges")
	})
}

func FuzzADamagedRowIsRead(f *testing.F) {
	f.Add(0, int64(99), "text", []byte{0xff}, 1)
	f.Add(2, int64(-1), `["a"]`, []byte("\x05\x00\x00\x00\x00"), 4)
	f.Add(44, int64(1), `[1`, []byte("\x10\x00\x00\x00\x10errors\x00\x01\x00\x00\x00\x00"), 3)
	f.Fuzz(func(t *testing.T, at int, number int64, text string, data []byte, kind int) {
		values := sqlite.RowOf(at, number, text, data, kind)
		r, err := sqlite.ReadRow(values)
		if err != nil {
			assert.True(t, r.Job.IsZero(), "it is not to be run")
			assert.Empty(t, r.Type)
		}
		if _, err = r.Resolve(amboy.BSON); err != nil {
			var panicked *amboy.PanicError
			assert.NotErrorAs(t, err, &panicked)
		}
	})
}

// Groups of errors are made of brief pages.
func TestADamagedRowStoppedBriefPages(t *testing.T) {
	path := newPath(t)
	d := open(t, sqlite.Options{Path: path})
	insert(t, d, newRecord(t, "one"), newRecord(t, "two"))
	execute(t, path, "UPDATE jobs SET started = 'once' WHERE job_id = 'one'")
	execute(t, path, "UPDATE jobs SET scopes = 'none' WHERE job_id = 'two'")
	found, err := d.Find(t.Context(), driver.Query{}, driver.PageRequest{Limit: 10, Brief: true})
	require.NoError(t, err)
	require.Len(t, found.Records, 2)
}

// An action on a page of jobs failed as a whole if one of them could not be read, and again at each try, so that it
// never came to the jobs behind it.
func TestAnActionOnADamagedJobStoppedThatOnTheOthers(t *testing.T) {
	path := newPath(t)
	d := open(t, sqlite.Options{Path: path})
	insert(t, d, newRecord(t, "one"), newRecord(t, "two"), newRecord(t, "three"))
	for _, r := range claim(t, d, 3) {
		r.Status.Errors, r.Status.ErrorCount = []string{"failed"}, 1
		complete(t, d, r)
	}
	execute(t, path, "UPDATE jobs SET extra = x'ff' WHERE job_id = 'two'")
	for _, dryRun := range []bool{true, false} {
		restart := driver.ActRequest{Action: driver.Action{Kind: driver.Restart}, Limit: 10, DryRun: dryRun}
		acted, err := d.Act(t.Context(), restart)
		require.NoError(t, err)
		assert.Equal(t, driver.Acted{Done: 2, Skipped: 1}, acted)
	}
}

// A job that could not be read could not be canceled, neither alone nor among others, and so it could not be deleted.
func TestADamagedJobCouldNotBeCanceledOrDeleted(t *testing.T) {
	for name, damage := range map[string]string{
		"content":  "UPDATE jobs SET extra = x'ff' WHERE job_id = 'bad'",
		"a column": "UPDATE jobs SET max_time = 'long' WHERE job_id = 'bad'",
	} {
		t.Run(name, func(t *testing.T) {
			path := newPath(t)
			d := open(t, sqlite.Options{Path: path})
			bad := rich(t, "bad")
			bad.Name, bad.RetryInfo = "queue.attempt-0.bad", amboy.JobRetryInfo{Retryable: true, BaseJobID: "bad", MaxAttempts: 3}
			after := newRecord(t, "after")
			after.Dependency = &registry.DependencyInterchange{Type: "always", Edges: []string{"bad"}}
			insert(t, d, bad, after)
			execute(t, path, damage)
			inspector, err := management.NewStoreInspector(d)
			require.NoError(t, err)

			acted, err := inspector.ActOn(t.Context(), queueName, "bad", management.Action{Kind: management.Cancel, Reason: "can't be read"})
			require.NoError(t, err)
			assert.Equal(t, 1, acted.Done)
			shown, err := inspector.Job(t.Context(), queueName, "bad")
			require.NoError(t, err)
			assert.Equal(t, []any{amboy.StateCanceled, "can't be read"}, []any{shown.State, shown.Reason})
			checkCounts(t, openRaw(t, path))
			again := rich(t, "again") // which takes the scopes and the key
			again.UniqueKey, again.EnqueueScopes, again.RequiredScopes = bad.UniqueKey, bad.EnqueueScopes, bad.RequiredScopes
			insert(t, d, again)
			assert.ElementsMatch(t, []string{"after", "again"}, []string{claim(t, d, 1)[0].JobID(), claim(t, d, 1)[0].JobID()})

			acted, err = inspector.ActOn(t.Context(), queueName, "bad", management.Action{Kind: management.Delete})
			require.NoError(t, err)
			assert.Equal(t, 1, acted.Done)
			_, err = d.Get(t.Context(), queueName, "bad")
			require.True(t, amboy.IsJobNotFoundError(err))
		})
	}
}
