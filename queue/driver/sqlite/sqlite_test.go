package sqlite_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/sqlite"
	"github.com/mongodb/amboy/registry"
)

// insert adds records, which must be accepted.
func insert(t *testing.T, d *sqlite.Driver, records ...*driver.Record) {
	t.Helper()
	errs, err := d.Insert(t.Context(), records)
	require.NoError(t, err)
	for i, err := range errs {
		require.NoError(t, err, records[i].Name)
	}
}

// claim claims the records that may run now.
func claim(t *testing.T, d *sqlite.Driver, limit int) []*driver.Record {
	t.Helper()
	claimed, err := d.Claim(t.Context(), request(limit))
	require.NoError(t, err)
	return claimed.Records
}

// complete ends a claimed record.
func complete(t *testing.T, d *sqlite.Driver, r *driver.Record) {
	t.Helper()
	completion := driver.Completion{Lease: driver.LeaseOf(r), Record: r}
	r.Status.Completed, r.Status.InProgress = true, false
	errs, err := d.Complete(t.Context(), []driver.Completion{completion})
	require.NoError(t, err)
	require.NoError(t, errs[0])
}

// find returns the records of all queues that are in one of the states.
func find(t *testing.T, d *sqlite.Driver, states ...amboy.JobState) []*driver.Record {
	t.Helper()
	page, err := d.Find(t.Context(), driver.Query{States: states}, driver.PageRequest{Limit: 1000})
	require.NoError(t, err)
	require.Empty(t, page.Next)
	return page.Records
}

func list(t *testing.T, d *sqlite.Driver, states ...amboy.JobState) (ids []string) {
	t.Helper()
	for _, r := range find(t, d, states...) {
		ids = append(ids, r.JobID())
	}
	return ids
}

func stats(t *testing.T, d *sqlite.Driver) amboy.QueueStats {
	t.Helper()
	s, err := d.Stats(t.Context(), queueName)
	require.NoError(t, err)
	return s
}

// everyState inserts a record in each place.
func everyState(t *testing.T, d *sqlite.Driver) {
	t.Helper()
	with := func(id string, change func(*driver.Record)) *driver.Record {
		r := newRecord(t, id)
		change(r)
		return r
	}
	insert(t, d,
		with("holder", func(r *driver.Record) { r.RequiredScopes, r.Priority = []string{"scope"}, 9 }),
		with("parked", func(r *driver.Record) { r.Priority = 8 }),
		with("postponed", func(r *driver.Record) { r.Priority = 7 }),
		with("retrying", func(r *driver.Record) {
			r.RetryInfo = amboy.JobRetryInfo{Retryable: true, BaseJobID: "retrying"}
			r.Name, r.Priority = driver.RecordName(queueName, "retrying", r.RetryInfo), 6
		}),
		with("finished", func(r *driver.Record) { r.Priority = 5 }),
		with("blocked", func(r *driver.Record) { r.RequiredScopes = []string{"scope"} }),
		with("dependent", func(r *driver.Record) { r.Dependency = &registry.DependencyInterchange{Edges: []string{"holder"}} }),
		with("scheduled", func(r *driver.Record) { r.TimeInfo.WaitUntil = time.Now().Add(time.Hour) }),
		with("ready", func(r *driver.Record) { r.TimeInfo.DispatchBy = time.Now().Add(time.Hour) }),
	)
	claimed := claim(t, d, 5)
	require.Len(t, claimed, 5)
	_, err := d.Release(t.Context(), []driver.HandBack{
		{Lease: driver.LeaseOf(claimed[1]), Park: true, Reason: "nobody knows it"},
		{Lease: driver.LeaseOf(claimed[2]), NotBefore: time.Now().Add(time.Hour), Reason: "not yet"},
	})
	require.NoError(t, err)
	claimed[3].RetryInfo.NeedsRetry = true
	complete(t, d, claimed[3])
	complete(t, d, claimed[4])
}

func TestRecordsSurviveReopening(t *testing.T) {
	path := newPath(t)
	d, err := sqlite.Open(t.Context(), sqlite.Options{Path: path})
	require.NoError(t, err)
	everyState(t, d)
	before := find(t, d)
	statsBefore := stats(t, d)
	require.NoError(t, d.Close(t.Context()))

	d = open(t, sqlite.Options{Path: path})
	assert.Equal(t, before, find(t, d))
	assert.Equal(t, statsBefore, stats(t, d))
	assert.Equal(t, amboy.QueueStats{Total: 9, Pending: 6, Blocked: 3, Running: 1, Completed: 2, Retrying: 1}, statsBefore)
	for state, want := range map[amboy.JobState][]string{
		amboy.StateRunning:   {"holder"},
		amboy.StateParked:    {"parked"},
		amboy.StateBlocked:   {"postponed", "blocked", "dependent"},
		amboy.StateRetrying:  {"retrying"},
		amboy.StateSucceeded: {"finished"},
		amboy.StateScheduled: {"scheduled"},
		amboy.StatePending:   {"ready"},
	} {
		assert.Equal(t, want, list(t, d, state), state)
	}

	// The records that wait for the holder become pending when it ends.
	holder, err := d.Get(t.Context(), queueName, "holder")
	require.NoError(t, err)
	complete(t, d, holder)
	assert.ElementsMatch(t, []string{"blocked", "dependent", "ready"}, list(t, d, amboy.StatePending))
}

func TestTimesAreExact(t *testing.T) {
	d := open(t, sqlite.Options{Path: newPath(t)})
	r := newRecord(t, "job")
	r.TimeInfo.DispatchBy = time.Date(2100, 1, 1, 0, 0, 0, 123_456_789, time.UTC)
	insert(t, d, r)
	req := request(0)
	req.Now = r.TimeInfo.DispatchBy
	claimed, err := d.Claim(t.Context(), req)
	require.NoError(t, err)
	assert.Empty(t, claimed.Records, "a job may still start at its deadline")
	assert.Equal(t, r.TimeInfo.DispatchBy.Add(1), claimed.Next)
	req.Now = claimed.Next
	claimed, err = d.Claim(t.Context(), req)
	require.NoError(t, err)
	require.Len(t, claimed.Records, 1)
	assert.Equal(t, r.TimeInfo.DispatchBy, claimed.Records[0].TimeInfo.DispatchBy)
}

func TestDriversShareAQueue(t *testing.T) {
	path := newPath(t)
	drivers := []*sqlite.Driver{open(t, sqlite.Options{Path: path}), open(t, sqlite.Options{Path: path})}
	const each = 50
	ran := make(chan string, len(drivers)*each+1)
	var ended sync.WaitGroup
	for i, d := range drivers {
		var records []*driver.Record
		for n := range each {
			records = append(records, newRecord(t, fmt.Sprintf("job-%d-%d", i, n)))
		}
		ended.Go(func() { assert.NoError(t, runAll(t.Context(), d, records, ran)) })
	}
	ended.Wait()
	close(ran)
	times := map[string]int{}
	for name := range ran {
		times[name]++
		assert.Equal(t, 1, times[name], name)
	}
	assert.Len(t, times, len(drivers)*each)
	assert.True(t, stats(t, drivers[0]).IsIdle())
	checkCounts(t, openRaw(t, path))
}

// runAll inserts records, and completes those that it can claim.
func runAll(ctx context.Context, d *sqlite.Driver, records []*driver.Record, ran chan<- string) error {
	for _, r := range records {
		if _, err := d.Insert(ctx, []*driver.Record{r}); err != nil {
			return err
		}
	}
	for {
		claimed, err := d.Claim(ctx, request(4))
		if err != nil || len(claimed.Records) == 0 {
			return err
		}
		var completions []driver.Completion
		for _, r := range claimed.Records {
			ran <- r.Name
			completions = append(completions, driver.Completion{Lease: driver.LeaseOf(r), Record: r})
			r.Status.Completed = true
		}
		errs, err := d.Complete(ctx, completions)
		err = errors.Join(append(errs, err)...)
		if err != nil {
			return err
		}
	}
}

func TestAnUndecodableRecordIsClaimedWithoutAJob(t *testing.T) {
	path := newPath(t)
	d := open(t, sqlite.Options{Path: path})
	insert(t, d, newRecord(t, "job"))
	execute(t, path, "UPDATE jobs SET extra = x'00'")

	claimed := claim(t, d, 1)
	require.Len(t, claimed, 1)
	_, err := claimed[0].Resolve(amboy.BSON2)
	require.ErrorIs(t, err, registry.ErrUnknownType)
	errs, err := d.Release(t.Context(), []driver.HandBack{{Lease: driver.LeaseOf(claimed[0]), Park: true, Reason: "can't be read"}})
	require.NoError(t, err)
	require.NoError(t, errs[0])
	assert.Equal(t, []string{"job"}, list(t, d, amboy.StateParked))
}

// It was handed back, without the request, if it could not be decoded.
func TestADamagedJobRanAgainAfterItsCancelWasRequested(t *testing.T) {
	path := newPath(t)
	d := open(t, sqlite.Options{Path: path})
	insert(t, d, newRecord(t, "bad"), newRecord(t, "good"))
	require.Len(t, claim(t, d, 2), 2)
	acted, err := d.Act(t.Context(), driver.ActRequest{Action: driver.Action{Kind: driver.Cancel}, Limit: 2})
	require.NoError(t, err)
	require.Equal(t, 2, acted.Done)
	execute(t, path, "UPDATE jobs SET extra = x'00' WHERE job_id = 'bad'")

	_, err = d.RecoverStale(t.Context()) // which observes the leases
	require.NoError(t, err)
	sqlite.Elapse(d, 24*time.Hour)
	recovered, err := d.RecoverStale(t.Context())
	require.NoError(t, err)
	assert.Equal(t, 2, recovered)
	assert.Equal(t, []string{"bad", "good"}, list(t, d, amboy.StateCanceled))
	assert.Empty(t, claim(t, d, 2))
}

// lock acquires the right to write, so that other writers wait until unlock is called.
func lock(t *testing.T, path string) (unlock func()) {
	t.Helper()
	conn, err := openRaw(t, path).Conn(t.Context())
	require.NoError(t, err)
	_, err = conn.ExecContext(t.Context(), "BEGIN IMMEDIATE")
	require.NoError(t, err)
	return func() {
		_, err := conn.ExecContext(context.Background(), "ROLLBACK")
		assert.NoError(t, err)
		assert.NoError(t, conn.Close())
	}
}

// later returns a context that ends after a moment.
func later(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	t.Cleanup(cancel)
	return ctx
}

func TestAChangeWaitsForALockedFileUntilItsContextEnds(t *testing.T) {
	path := newPath(t)
	d := open(t, sqlite.Options{Path: path})
	insert(t, d, newRecord(t, "claimed"), newRecord(t, "there"))
	claimed := claim(t, d, 1)[0]
	unlock := lock(t, path)

	patient, patientRecord := make(chan error), newRecord(t, "patient")
	go func() {
		errs, err := d.Insert(context.Background(), []*driver.Record{patientRecord})
		patient <- errors.Join(append(errs, err)...)
	}()
	calls := map[string]func(ctx context.Context) error{
		"Insert": func(ctx context.Context) error {
			_, err := d.Insert(ctx, []*driver.Record{newRecord(t, "impatient")})
			return err
		},
		"Claim": func(ctx context.Context) error {
			_, err := d.Claim(ctx, request(1))
			return err
		},
		"Complete": func(ctx context.Context) error {
			_, err := d.Complete(ctx, []driver.Completion{{Lease: driver.LeaseOf(claimed), Record: claimed}})
			return err
		},
	}
	for name, call := range calls {
		err := call(later(t))
		require.ErrorIs(t, err, context.DeadlineExceeded, name)
		require.NotErrorIs(t, err, driver.ErrOutcomeUnknown, name)
	}
	assert.Equal(t, []string{"claimed", "there"}, list(t, d), "reads don't wait")
	unlock()
	require.NoError(t, <-patient)
	assert.Equal(t, []string{"claimed", "there", "patient"}, list(t, d))
	assert.Equal(t, []string{"claimed"}, list(t, d, amboy.StateRunning))
}

func TestCloseDoesNotWaitForALockedFile(t *testing.T) {
	path := newPath(t)
	d := open(t, sqlite.Options{Path: path})
	unlock := lock(t, path)
	defer unlock()
	waiting, r := make(chan error), newRecord(t, "job")
	go func() {
		_, err := d.Insert(context.Background(), []*driver.Record{r})
		waiting <- err
	}()
	_, err := d.Extend(later(t), nil, time.Minute)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.NoError(t, d.Close(t.Context()))
	require.ErrorIs(t, <-waiting, driver.ErrClosed)
}

// A failed change does not fail other changes in its transaction.
func TestAFailedChangeDoesNotFailOthersInItsTransaction(t *testing.T) {
	path := newPath(t)
	d := open(t, sqlite.Options{Path: path})
	insert(t, d, newRecord(t, "target"))
	execute(t, path, "CREATE TRIGGER refuse BEFORE INSERT ON jobs WHEN new.job_id = 'bad' BEGIN SELECT raise(FAIL, 'refused'); END")
	unlock := lock(t, path)
	var ended sync.WaitGroup
	insertNow := func(records ...*driver.Record) (err error) {
		errs, err := d.Insert(t.Context(), records)
		return errors.Join(append(errs, err)...)
	}
	good := []*driver.Record{newRecord(t, "good-0"), newRecord(t, "good-1"), newRecord(t, "good-2")}
	bad := []*driver.Record{newRecord(t, "first"), newRecord(t, "bad")}
	ended.Go(func() { assert.NoError(t, insertNow(good[0])) })
	ended.Go(func() { assert.NoError(t, insertNow(good[1])) })
	ended.Go(func() { assert.ErrorContains(t, insertNow(bad...), "refused") })
	ended.Go(func() { assert.NoError(t, insertNow(good[2])) })
	pass(t, d)
	unlock()
	ended.Wait()
	assert.ElementsMatch(t, []string{"target", "good-0", "good-1", "good-2"}, list(t, d))
	assert.Equal(t, 4, stats(t, d).Pending)
}

// pass waits until calls that were started before have requested their changes: it makes a
// change that gives up while the file is locked.
func pass(t *testing.T, d *sqlite.Driver) {
	t.Helper()
	_, err := d.Extend(later(t), nil, time.Minute)
	require.ErrorIs(t, err, context.DeadlineExceeded)
}

// checkCounts compares the stored counts with the records.
func checkCounts(t *testing.T, db *sql.DB) {
	t.Helper()
	var wrong int
	require.NoError(t, db.QueryRowContext(t.Context(), `SELECT count(*) FROM queues q WHERE
		waiting <> (SELECT count(*) FROM jobs WHERE queue = q.id AND place = 0)
		OR scheduled <> (SELECT count(*) FROM jobs WHERE queue = q.id AND place = 1)
		OR postponed <> (SELECT count(*) FROM jobs WHERE queue = q.id AND place = 2)
		OR scope_blocked <> (SELECT count(*) FROM jobs WHERE queue = q.id AND place = 3)
		OR ready <> (SELECT count(*) FROM jobs WHERE queue = q.id AND place = 4)
		OR parked <> (SELECT count(*) FROM jobs WHERE queue = q.id AND place = 5)
		OR running <> (SELECT count(*) FROM jobs WHERE queue = q.id AND place = 6)
		OR retrying <> (SELECT count(*) FROM jobs WHERE queue = q.id AND place = 7)
		OR finished <> (SELECT count(*) FROM jobs WHERE queue = q.id AND place >= 8)
		OR overdue <> (SELECT count(*) FROM jobs WHERE queue = q.id AND overdue = 1)`).Scan(&wrong))
	assert.Zero(t, wrong, "queues whose counts are wrong")
}

// The refusal was lost if the completion had a next attempt, and the whole call failed.
func TestAnEndThatCannotBeEncodedIsRefusedDespiteItsNextAttempt(t *testing.T) {
	d := open(t, sqlite.Options{Path: newPath(t)})
	insert(t, d, newRecord(t, "bad"), newRecord(t, "good"))
	claimed := claim(t, d, 2)
	completions := make([]driver.Completion, len(claimed))
	for i, r := range claimed {
		r.Status.Completed, r.Status.InProgress = true, false
		completions[i] = driver.Completion{Lease: driver.LeaseOf(r), Record: r}
	}
	next := *newRecord(t, "bad")
	next.Name = "attempt-1.bad"
	claimed[0].Metadata = map[string]string{"zero\x00": ""} // which BSON can't encode
	completions[0].Next = &next
	errs, err := d.Complete(t.Context(), completions)
	require.NoError(t, err)
	require.ErrorContains(t, errs[0], "encoding")
	require.NoError(t, errs[1])
	assert.Equal(t, []string{"bad"}, list(t, d, amboy.StateRunning))
}
