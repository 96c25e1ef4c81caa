package memory_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/memory"
)

// newDriver returns a driver as a driver.Driver.
func newDriver(t *testing.T, opts memory.Options) driver.Driver {
	t.Helper()
	d, err := memory.New(opts)
	require.NoError(t, err)
	return d
}

// queueName is the queue of most records.
const queueName = "queue"

// record returns the record of a job that is not retryable, after applying changes to it.
func record(id string, changes ...func(*driver.Record)) *driver.Record {
	return recordOf(queueName, id, changes...)
}

func recordOf(queue, id string, changes ...func(*driver.Record)) *driver.Record {
	r := &driver.Record{Name: driver.RecordName(queue, id, amboy.JobRetryInfo{}), Group: queue, Type: "type"}
	for _, change := range changes {
		change(r)
	}
	return r
}

func priority(p int) func(*driver.Record) { return func(r *driver.Record) { r.Priority = p } }

func scopes(names ...string) func(*driver.Record) {
	return func(r *driver.Record) { r.RequiredScopes = names }
}

func unique(key string, until amboy.UniqueUntil) func(*driver.Record) {
	return func(r *driver.Record) { r.UniqueKey, r.UniqueUntil = key, until }
}

// ended returns an ended copy of a record.
func ended(r *driver.Record) *driver.Record {
	done := *r
	done.Status.Completed, done.Status.InProgress = true, false
	done.TimeInfo.End = time.Now()
	return &done
}

func insert(t *testing.T, d driver.Driver, records ...*driver.Record) {
	t.Helper()
	errs, err := d.Insert(t.Context(), records)
	require.NoError(t, err)
	require.Len(t, errs, len(records))
	for i, failure := range errs {
		require.NoError(t, failure, records[i].Name)
	}
}

// insertOne inserts a record.
func insertOne(ctx context.Context, d driver.Driver, r *driver.Record) error {
	return only(d.Insert(ctx, []*driver.Record{r}))
}

// only returns the error of a call for one item.
func only(errs []error, err error) error {
	if err != nil {
		return err
	}
	return errs[0]
}

// claimRequest returns a claim of records of the queue.
func claimRequest(owner string, limit int) driver.ClaimRequest {
	return driver.ClaimRequest{
		Owner:     owner,
		Queues:    []driver.Demand{{Queue: queueName, Limit: limit}},
		Limit:     limit,
		Now:       time.Now(),
		LeaseTime: time.Minute,
	}
}

func claim(t *testing.T, d driver.Driver, limit int) []*driver.Record {
	t.Helper()
	claimed, err := d.Claim(t.Context(), claimRequest("owner", limit))
	require.NoError(t, err)
	return claimed.Records
}

// run claims records and completes them.
func run(t *testing.T, d driver.Driver, limit int, changes ...func(*driver.Record)) {
	t.Helper()
	for _, r := range claim(t, d, limit) {
		done := ended(r)
		for _, change := range changes {
			change(done)
		}
		require.NoError(t, complete(t.Context(), d, r, done))
	}
}

func complete(ctx context.Context, d driver.Driver, claimed, done *driver.Record) error {
	return only(d.Complete(ctx, []driver.Completion{{Lease: driver.LeaseOf(claimed), Record: done}}))
}

func get(t *testing.T, d driver.Driver, id string) *driver.Record {
	t.Helper()
	r, err := d.Get(t.Context(), queueName, id)
	require.NoError(t, err)
	return r
}

func stats(t *testing.T, d driver.Driver) amboy.QueueStats {
	t.Helper()
	s, err := d.Stats(t.Context(), queueName)
	require.NoError(t, err)
	return s
}

func ids(records []*driver.Record) []string {
	var all []string
	for _, r := range records {
		all = append(all, r.JobID())
	}
	return all
}

func TestOptions(t *testing.T) {
	for name, test := range map[string]struct {
		opts memory.Options
		err  string
	}{
		"valid":             {opts: memory.Options{KeepFinished: 1}},
		"negative capacity": {opts: memory.Options{Capacity: -1, KeepFinished: 1}, err: "Capacity must not be negative (is -1)"},
		"nothing kept":      {opts: memory.Options{Capacity: 1}, err: "KeepFinished must be at least 1 (is 0)"},
	} {
		t.Run(name, func(t *testing.T) {
			d, err := memory.New(test.opts)
			if test.err == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, test.err)
			assert.Nil(t, d)
		})
	}
}

func TestRecordsAreCopies(t *testing.T) {
	d := newDriver(t, memory.Options{KeepFinished: 10})
	r := record("a", priority(1))
	insert(t, d, r)
	r.Priority = 2
	got := get(t, d, "a")
	got.Priority = 3
	given := claim(t, d, 1)[0]
	assert.Equal(t, 1, given.Priority)
	given.Priority = 4
	assert.Equal(t, 1, get(t, d, "a").Priority)
	done := ended(given)
	require.NoError(t, complete(t.Context(), d, given, done))
	done.Type = "other"
	assert.Equal(t, "type", get(t, d, "a").Type)
}

// The test retries a job whose code has changed its unique key.
func TestNextAttemptShowsTheUniqueKey(t *testing.T) {
	d := newDriver(t, memory.Options{KeepFinished: 10})
	retry := amboy.JobRetryInfo{Retryable: true, NeedsRetry: true}
	insert(t, d, record("job", unique("key", amboy.UniqueUntilFailed)))
	run(t, d, 1, func(r *driver.Record) { r.RetryInfo = retry })
	next := record("job", unique("other", amboy.UniqueUntilForgotten))
	next.Name = "next"
	require.NoError(t, d.Retry(t.Context(), ended(get(t, d, "job")), next))
	got := get(t, d, "job")
	assert.Equal(t, "next", got.Name)
	assert.Equal(t, "key", got.UniqueKey)
	assert.Equal(t, amboy.UniqueUntilFailed, got.UniqueUntil)
}

func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDriver(t, memory.Options{Capacity: 1, KeepFinished: 10})
		insert(t, d, record("running"))
		claim(t, d, 1)
		insert(t, d, record("pending"), recordOf("other", "pending"))
		var waiting, waitingOther error
		go func() { waiting = insertOne(t.Context(), d, record("waiting")) }()
		go func() { waitingOther = insertOne(t.Context(), d, recordOf("other", "waiting")) }()
		synctest.Wait()

		require.NoError(t, d.Close(t.Context()))
		require.NoError(t, d.Close(t.Context()))
		synctest.Wait()
		require.ErrorIs(t, waiting, driver.ErrClosed)
		require.ErrorIs(t, waitingOther, driver.ErrClosed)
		_, err := d.Claim(t.Context(), claimRequest("owner", 1))
		require.ErrorIs(t, err, driver.ErrClosed)

		assert.Equal(t, "pending", get(t, d, "pending").JobID(), "a closed driver can be read")
		assert.Equal(t, amboy.QueueStats{Pending: 1, Running: 1, Total: 2}, stats(t, d))
		page, err := d.Find(t.Context(), driver.Query{}, driver.PageRequest{Limit: 10})
		require.NoError(t, err)
		assert.Len(t, page.Records, 3)
	})
}

func TestControlRefusesNegativeMaxRunning(t *testing.T) {
	d := newDriver(t, memory.Options{KeepFinished: 10})
	limit := -1
	_, err := d.Control(t.Context(), queueName, driver.ControlChange{MaxRunning: &limit})
	require.ErrorContains(t, err, `control of queue "queue": MaxRunning must not be negative (is -1)`)
	infos, err := d.Queues(t.Context(), driver.QueueRequest{})
	require.NoError(t, err)
	assert.Empty(t, infos)
}

// Many goroutines insert, claim, complete and read concurrently.
func TestConcurrentCalls(t *testing.T) {
	const goroutines, each, capacity = 16, 50, 20
	d := newDriver(t, memory.Options{Capacity: capacity, KeepFinished: 100})
	var claims, holders sync.Map
	run := func(r *driver.Record) {
		_, twice := claims.LoadOrStore(r.Name, true)
		assert.False(t, twice, "record %q was claimed twice", r.Name)
		for _, scope := range r.Scopes {
			other, held := holders.LoadOrStore(scope, r.Name)
			assert.False(t, held, "scope %q of record %q is held by %v", scope, r.Name, other)
		}
		lost, extendErr := d.Extend(t.Context(), []driver.Lease{driver.LeaseOf(r)}, time.Minute)
		assert.Empty(t, lost)
		for _, scope := range r.Scopes {
			holders.Delete(scope)
		}
		assert.NoError(t, errors.Join(extendErr, complete(t.Context(), d, r, ended(r))))
	}
	check := func() (idle bool) {
		counts, countErr := d.Stats(t.Context(), queueName)
		_, findErr := d.Find(t.Context(), driver.Query{States: []amboy.JobState{amboy.StateRunning}}, driver.PageRequest{Limit: 10})
		assert.LessOrEqual(t, counts.Pending, capacity)
		assert.Equal(t, counts.Total, counts.Pending+counts.Running+counts.Completed)
		if err := errors.Join(countErr, findErr); err != nil {
			t.Error(err)
		}
		return counts.IsIdle() && counts.Total == goroutines*each
	}
	var all sync.WaitGroup
	for g := range goroutines {
		all.Go(func() {
			for !check() && !t.Failed() {
				claimed, err := d.Claim(t.Context(), claimRequest(fmt.Sprint(g), 3))
				for _, r := range claimed.Records {
					run(r)
				}
				assert.NoError(t, err)
			}
		})
		all.Go(func() {
			for i := range each {
				assert.NoError(t, insertOne(t.Context(), d, record(fmt.Sprintf("%d-%d", g, i), scopes(fmt.Sprint(i%3)))))
			}
		})
	}
	all.Wait()
}
