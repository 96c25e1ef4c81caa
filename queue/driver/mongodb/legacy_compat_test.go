package mongodb_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/bson"
	"go.mongodb.org/mongo-driver/bson/primitive"
	"go.mongodb.org/mongo-driver/mongo"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/mongotest"
	"github.com/mongodb/amboy/job"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/mongodb"
	"github.com/mongodb/amboy/registry"
)

// legacyFields are the fields of a document that the legacy library knows. It drops the
// others when it saves a document.
var legacyFields = []string{
	"_id", "type", "version", "group", "status", "scopes", "enqueue_scopes", "enqueue_all_scopes",
	"retry_info", "time_info", "job", "dependency",
}

// legacyStatus are the fields of a document's status that the legacy library knows.
var legacyStatus = []string{"owner", "completed", "in_prog", "mod_ts", "mod_count", "err_count", "errors"}

// legacyProcess is a process with the legacy library that shares a collection with drivers. It
// makes the changes that stored legacy documents show.
type legacyProcess struct {
	*store
	jobs *mongo.Collection
}

const legacyOwner = "legacy"

// insert stores a job that needs scopes when it runs and depends on other jobs.
func (f *legacyProcess) insert(id string, scopes []string, edges ...string) {
	f.Helper()
	doc := bson.D{
		{Key: "_id", Value: id},
		{Key: "type", Value: "sample"},
		{Key: "version", Value: 1},
		{Key: "status", Value: bson.D{
			{Key: "owner", Value: ""},
			{Key: "completed", Value: false},
			{Key: "in_prog", Value: false},
			{Key: "mod_ts", Value: time.Time{}},
			{Key: "mod_count", Value: 0},
			{Key: "err_count", Value: 0},
		}},
		{Key: "retry_info", Value: bson.D{
			{Key: "retryable", Value: false}, {Key: "needs_retry", Value: false}, {Key: "current_attempt", Value: 0},
		}},
		{Key: "time_info", Value: bson.D{{Key: "created", Value: time.Now()}}},
		{Key: "job", Value: bson.D{{Key: "job_base", Value: bson.D{
			{Key: "name", Value: id},
			{Key: "job_type", Value: bson.D{{Key: "name", Value: "sample"}, {Key: "version", Value: 1}}},
			{Key: "required_scopes", Value: slices.Concat([]string{}, scopes)},
		}}}},
		{Key: "dependency", Value: bson.D{
			{Key: "type", Value: "always"},
			{Key: "version", Value: 0},
			{Key: "edges", Value: slices.Concat([]string{}, edges)},
			{Key: "dependency", Value: bson.D{
				{Key: "type", Value: bson.D{{Key: "name", Value: "always"}, {Key: "version", Value: 0}}},
				{Key: "jobedges", Value: bson.D{{Key: "edges", Value: slices.Concat([]string{}, edges)}}},
			}},
		}},
	}
	_, err := f.jobs.InsertOne(f.Context(), doc)
	require.NoError(f, err)
}

// claim takes the lock of a job, unless the job has ended or another process holds the
// lock or one of the scopes. It saves the whole document.
func (f *legacyProcess) claim(id string, scopes ...string) bool {
	f.Helper()
	now := time.Now()
	before, saved := f.read(id)
	status := value(saved, "status").(bson.D)
	isLocked := value(status, "in_prog") == true && now.Sub(value(status, "mod_ts").(primitive.DateTime).Time()) < mongodb.DefaultLockTimeout
	if isLocked || value(status, "completed") == true {
		return false
	}
	count, _ := value(status, "mod_count").(int32)
	put(status, "owner", legacyOwner)
	put(status, "in_prog", true)
	put(status, "mod_ts", now)
	put(status, "mod_count", count+1)
	times := without(value(saved, "time_info").(bson.D), "start")
	put(saved, "time_info", append(times, bson.E{Key: "start", Value: now}))
	if len(scopes) > 0 {
		saved = append(without(saved, "scopes"), bson.E{Key: "scopes", Value: scopes})
	}
	result, err := f.jobs.ReplaceOne(f.Context(), before, saved)
	if mongo.IsDuplicateKeyError(err) {
		return false
	}
	require.NoError(f, err)
	return result.ModifiedCount == 1
}

// save saves a job as it is.
func (f *legacyProcess) save(id string) {
	f.Helper()
	before, saved := f.read(id)
	result, err := f.jobs.ReplaceOne(f.Context(), before, saved)
	require.NoError(f, err)
	require.Equal(f, int64(1), result.MatchedCount)
}

// read returns what the legacy library knows of a document, and a filter for the document as it is.
func (f *legacyProcess) read(id string) (filter, known bson.D) {
	f.Helper()
	var doc bson.D
	require.NoError(f, f.jobs.FindOne(f.Context(), bson.D{{Key: "_id", Value: id}}).Decode(&doc))
	known = only(doc, legacyFields)
	status := only(value(known, "status").(bson.D), legacyStatus)
	put(known, "status", status)
	return bson.D{
		{Key: "_id", Value: id},
		{Key: "status.owner", Value: value(status, "owner")},
		{Key: "status.mod_count", Value: value(status, "mod_count")},
		{Key: "status.completed", Value: value(status, "completed")},
	}, known
}

func without(doc bson.D, field string) bson.D {
	return slices.DeleteFunc(doc, func(e bson.E) bool { return e.Key == field })
}

// end saves the whole document of a job as ended, if the process has its lock.
func (f *legacyProcess) end(id string, needsRetry bool) bool {
	f.Helper()
	var doc bson.D
	require.NoError(f, f.jobs.FindOne(f.Context(), bson.D{{Key: "_id", Value: id}}).Decode(&doc))
	saved := only(doc, legacyFields)
	filter := bson.D{{Key: "_id", Value: id}, {Key: "status.owner", Value: legacyOwner}}
	for i := range saved {
		switch saved[i].Key {
		case "scopes":
			saved[i].Value = bson.A{}
		case "status":
			status := only(saved[i].Value.(bson.D), legacyStatus)
			filter = append(filter, bson.E{Key: "status.mod_count", Value: value(status, "mod_count")})
			put(status, "completed", true)
			put(status, "in_prog", false)
			saved[i].Value = status
		case "time_info":
			saved[i].Value = append(saved[i].Value.(bson.D), bson.E{Key: "end", Value: time.Now()})
		case "retry_info":
			put(saved[i].Value.(bson.D), "needs_retry", needsRetry)
		}
	}
	saved = slices.DeleteFunc(saved, func(e bson.E) bool { return e.Key == "scopes" })
	result, err := f.jobs.ReplaceOne(f.Context(), filter, saved)
	require.NoError(f, err)
	return result.MatchedCount == 1
}

func only(doc bson.D, fields []string) bson.D {
	return slices.DeleteFunc(doc, func(e bson.E) bool { return !slices.Contains(fields, e.Key) })
}

// value returns the value of a field, or nil if it is absent.
func value(doc bson.D, field string) any {
	for _, e := range doc {
		if e.Key == field {
			return e.Value
		}
	}
	return nil
}

func put(doc bson.D, field string, value any) {
	for i := range doc {
		if doc[i].Key == field {
			doc[i].Value = value
		}
	}
}

// legacyTest is a driver withLegacyProcess a process with the legacy library, on a collection with one
// queue and with a fake clock.
type legacyTest struct {
	*store
	driver.Driver
	legacy *legacyProcess
}

// withLegacyProcess runs a test with a driver and a process with the legacy library.
func withLegacyProcess(t *testing.T, test func(s *legacyTest)) {
	for name, opts := range map[string]mongotest.Options{
		"replica set": {InMemory: true},
		"standalone":  {InMemory: true, Standalone: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStoreOf(t, opts)
				test(&legacyTest{store: s, Driver: s.open(own), legacy: &legacyProcess{store: s, jobs: s.jobs(false)}})
			})
		})
	}
}

func (s *legacyTest) insertOne(id string, change func(j *job.ShellJob)) {
	s.Helper()
	require.NoError(s, s.tryInsert(id, change))
}

func (s *legacyTest) tryInsert(id string, change func(j *job.ShellJob)) error {
	s.Helper()
	j := job.NewShellJob("true", "")
	j.SetID(id)
	j.UpdateTimeInfo(amboy.JobTimeInfo{Created: time.Now()})
	if change != nil {
		change(j)
	}
	r, err := registry.MakeJobInterchange(j, amboy.BSON)
	require.NoError(s, err)
	r.Name = driver.RecordName("", id, r.RetryInfo)
	errs, err := s.Insert(s.Context(), []*driver.Record{r})
	require.NoError(s, err)
	return errs[0]
}

func needs(scopes ...string) func(j *job.ShellJob) {
	return func(j *job.ShellJob) { j.SetScopes(scopes) }
}

// claimAs claims records and returns them by job ID.
func claimAs(ctx context.Context, d driver.Driver, owner string) (map[string]*driver.Record, error) {
	claimed, err := d.Claim(ctx, driver.ClaimRequest{
		Owner: owner, Queues: []driver.Demand{{Limit: 10}}, Limit: 10, Now: time.Now(), LeaseTime: time.Minute,
	})
	records := map[string]*driver.Record{}
	for _, r := range claimed.Records {
		records[r.JobID()] = r
	}
	return records, err
}

func (s *legacyTest) claim() map[string]*driver.Record {
	s.Helper()
	records, err := claimAs(s.Context(), s.Driver, "new")
	require.NoError(s, err)
	return records
}

func (s *legacyTest) end(r *driver.Record) error {
	s.Helper()
	e := *r
	e.Status.Completed, e.Status.InProgress = true, false
	e.TimeInfo.End = time.Now()
	errs, err := s.Complete(s.Context(), []driver.Completion{{Lease: driver.LeaseOf(r), Record: &e}})
	require.NoError(s, err)
	return errs[0]
}

func (s *legacyTest) recover() int {
	s.Helper()
	n, err := s.RecoverStale(s.Context())
	require.NoError(s, err)
	return n
}

func (s *legacyTest) state(id string) amboy.JobState {
	s.Helper()
	r, err := s.Get(s.Context(), "", id)
	require.NoError(s, err)
	return driver.StateOf(r, time.Now())
}

// pass lets time pass, so that the driver's background work runs.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func TestLegacyLockIsRespected(t *testing.T) {
	withLegacyProcess(t, func(s *legacyTest) {
		s.insertOne("job", needs("a"))
		before, err := s.Get(s.Context(), "", "job")
		require.NoError(t, err)
		require.True(s, s.legacy.claim("job", "a"))
		assert.Equal(s, amboy.StateRunning, s.state("job"))
		assert.Empty(s, s.claim())
		require.ErrorIs(s, s.end(before), driver.ErrLeaseLost)
		pass(mongodb.DefaultLockTimeout - time.Minute)
		assert.Zero(s, s.recover())
		assert.Empty(s, s.claim())

		pass(2 * time.Minute)
		assert.Equal(s, 1, s.recover())
		pass(10 * time.Second)
		r := s.claim()["job"]
		require.NotNil(s, r)
		assert.Equal(s, 2, r.Status.ModificationCount)
		assert.False(s, s.legacy.end("job", false), "another process has its lock")
		require.NoError(s, s.end(r))
		assert.False(s, s.legacy.claim("job", "a"), "the job has ended")
	})
}

func TestLegacyProcessRespectsLock(t *testing.T) {
	withLegacyProcess(t, func(s *legacyTest) {
		s.insertOne("job", nil)
		r := s.claim()["job"]
		require.NotNil(s, r)
		assert.False(s, s.legacy.claim("job"))
		pass(mongodb.DefaultLockTimeout - time.Minute)
		lost, err := s.Extend(s.Context(), []driver.Lease{driver.LeaseOf(r)}, time.Minute)
		require.NoError(s, err)
		assert.Empty(s, lost)
		pass(mongodb.DefaultLockTimeout - time.Minute)
		assert.False(s, s.legacy.claim("job"), "the lock was renewed")

		pass(2 * time.Minute)
		require.True(s, s.legacy.claim("job"), "the lock has expired")
		lost, err = s.Extend(s.Context(), []driver.Lease{driver.LeaseOf(r)}, time.Minute)
		require.NoError(s, err)
		assert.Len(s, lost, 1)
		require.ErrorIs(s, s.end(r), driver.ErrLeaseLost)
		require.ErrorIs(s, s.SetProgress(s.Context(), driver.LeaseOf(r), driver.Progress{}), driver.ErrLeaseLost)
		assert.True(s, s.legacy.end("job", false))
		assert.Equal(s, amboy.StateSucceeded, s.state("job"))
	})
}

func TestLegacyProcessSharesScopes(t *testing.T) {
	withLegacyProcess(t, func(s *legacyTest) {
		s.legacy.insert("legacy", []string{"a"})
		require.True(s, s.legacy.claim("legacy", "a"))
		s.insertOne("new", needs("a"))
		assert.Empty(s, s.claim())
		pass(time.Minute)
		assert.Empty(s, s.claim())
		assert.Equal(s, amboy.StateBlocked, s.state("new"))

		require.True(s, s.legacy.end("legacy", false))
		pass(10 * time.Second)
		r := s.claim()["new"]
		require.NotNil(s, r, "the scope is free")
		s.legacy.insert("another", []string{"a"})
		assert.False(s, s.legacy.claim("another", "a"))
		require.NoError(s, s.end(r))
		assert.True(s, s.legacy.claim("another", "a"))
	})
}

func TestDependencyEndedByLegacyProcess(t *testing.T) {
	withLegacyProcess(t, func(s *legacyTest) {
		s.insertOne("target", nil)
		s.insertOne("new", func(j *job.ShellJob) { require.NoError(s, j.Dependency().AddEdge("target")) })
		require.True(s, s.legacy.claim("target"))
		assert.Empty(s, s.claim())
		require.True(s, s.legacy.end("target", false))
		pass(time.Minute)
		assert.Contains(s, s.claim(), "new")
	})
}

// Nothing was left to sweep when the legacy process ended the jobs.
func TestAnEndByALegacyProcessReleasedNoWaiters(t *testing.T) {
	for name, test := range map[string]struct {
		first, waits func(j *job.ShellJob)
		scopes       []string
	}{
		"dependent":            {waits: func(j *job.ShellJob) { _ = j.Dependency().AddEdge("first") }},
		"waiter for its scope": {first: needs("a"), waits: needs("a"), scopes: []string{"a"}},
	} {
		t.Run(name, func(t *testing.T) {
			withLegacyProcess(t, func(s *legacyTest) {
				assert.Empty(s, s.claim())
				pass(time.Minute)
				s.insertOne("first", test.first)
				require.True(s, s.legacy.claim("first", test.scopes...))
				s.insertOne("waits", test.waits)
				assert.Empty(s, s.claim())
				pass(time.Minute)
				require.True(s, s.legacy.end("first", false))
				pass(10 * time.Second)
				assert.Contains(s, s.claim(), "waits")
			})
		})
	}
}

func TestJobSavedByLegacyProcess(t *testing.T) {
	withLegacyProcess(t, func(s *legacyTest) {
		s.insertOne("job", func(j *job.ShellJob) {
			j.SetPriority(3)
			j.UpdateRetryInfo(amboy.JobRetryOptions{Retryable: new(true)})
		})
		require.True(s, s.legacy.claim("attempt-0.job"))
		require.True(s, s.legacy.end("attempt-0.job", true))
		assert.Equal(s, amboy.StateRetrying, s.state("job"))
		page, err := s.Find(s.Context(), driver.Query{States: []amboy.JobState{amboy.StateRetrying}, Latest: true}, driver.PageRequest{Limit: 10})
		require.NoError(s, err)
		require.Len(s, page.Records, 1)
		ended := *page.Records[0]
		ended.RetryInfo.NeedsRetry = false
		next := ended
		next.Status, next.TimeInfo.Start, next.TimeInfo.End = amboy.JobStatusInfo{}, time.Time{}, time.Time{}
		next.RetryInfo.CurrentAttempt = 1
		next.Name = "attempt-1.job"
		require.NoError(s, s.Retry(s.Context(), &ended, &next))
		attempts, err := s.Attempts(s.Context(), "", "job")
		require.NoError(s, err)
		assert.Len(s, attempts, 2)
		r := s.claim()["job"]
		require.NotNil(s, r)
		assert.Equal(s, "attempt-1.job", r.Name)
		require.NoError(s, s.end(r))
		assert.Empty(s, s.claim())
		assert.True(s, amboy.IsDuplicateJobError(s.tryInsert("job", func(j *job.ShellJob) {
			j.UpdateRetryInfo(amboy.JobRetryOptions{Retryable: new(true)})
		})))
	})
}

// A legacy process saves the copy of a job that runs here, for example to change its arguments. It drops
// the order, which is the stamp of the lease.
func TestALegacyProcessThatSavedARunningJobTookItsLease(t *testing.T) {
	withLegacyProcess(t, func(s *legacyTest) {
		s.insertOne("job", nil)
		r := s.claim()["job"]
		require.NotNil(s, r)
		lease := driver.LeaseOf(r)
		s.legacy.save("job")

		lost, err := s.Extend(s.Context(), []driver.Lease{lease}, time.Minute)
		require.NoError(s, err)
		assert.Empty(s, lost)
		require.NoError(s, s.SetProgress(s.Context(), lease, driver.Progress{Message: "half"}))
		require.NoError(s, s.Save(s.Context(), r))
		acted, err := s.Act(s.Context(), driver.ActRequest{Action: driver.Action{Kind: driver.Cancel}, Limit: 10})
		require.NoError(s, err)
		require.Equal(s, 1, acted.Done)
		canceled, err := s.CancelRequests(s.Context(), lease.Owner)
		require.NoError(s, err)
		assert.Equal(s, []driver.Lease{lease}, canceled)
		pass(mongodb.DefaultLockTimeout + time.Minute)
		n, err := s.RecoverStale(s.Context(), lease)
		require.NoError(s, err)
		assert.Zero(s, n, "its run has not returned")
		require.NoError(s, s.end(r))
		assert.Equal(s, amboy.StateSucceeded, s.state("job"))
	})
}

// The list in "Beside the legacy library" of docs/guides/use-mongodb.md, and more.
func TestWhatALegacyProcessIgnoresAndLoses(t *testing.T) {
	inserted := func(s *legacyTest, id string, change func(r *driver.Record)) {
		r := plainRecord(id, func(r *driver.Record) { r.Group, r.Name = "", id }, change)
		errs, err := s.Insert(s.Context(), []*driver.Record{r})
		require.NoError(s, err)
		require.NoError(s, errs[0])
	}
	act := func(s *legacyTest, action driver.Action) {
		acted, err := s.Act(s.Context(), driver.ActRequest{Action: action, Limit: 10})
		require.NoError(s, err)
		require.Equal(s, 1, acted.Done)
	}
	for name, test := range map[string]func(s *legacyTest){
		"runs a job before the jobs that it depends on": func(s *legacyTest) {
			s.insertOne("target", nil)
			s.insertOne("job", func(j *job.ShellJob) { require.NoError(s, j.Dependency().AddEdge("target")) })
			assert.True(s, s.legacy.claim("job"))
		},
		"runs a parked job": func(s *legacyTest) {
			inserted(s, "job", func(*driver.Record) {})
			act(s, driver.Action{Kind: driver.Park})
			assert.True(s, s.legacy.claim("job"))
		},
		"runs a job of a paused queue": func(s *legacyTest) {
			inserted(s, "job", func(*driver.Record) {})
			_, err := s.Control(s.Context(), "", driver.ControlChange{Paused: new(true)})
			require.NoError(s, err)
			assert.True(s, s.legacy.claim("job"))
		},
		"loses a unique key when it saves the job": func(s *legacyTest) {
			inserted(s, "job", func(r *driver.Record) { r.UniqueKey = "key" })
			require.True(s, s.legacy.claim("job"))
			r := plainRecord("other", func(r *driver.Record) { r.Group, r.Name, r.UniqueKey = "", "other", "key" })
			errs, err := s.Insert(s.Context(), []*driver.Record{r})
			require.NoError(s, err)
			require.NoError(s, errs[0])
		},
		"loses tags, metadata and priority": func(s *legacyTest) {
			inserted(s, "job", func(r *driver.Record) {
				r.Tags, r.Metadata, r.Priority = []string{"tag"}, map[string]string{"k": "v"}, 3
			})
			require.True(s, s.legacy.claim("job"))
			require.True(s, s.legacy.end("job", false))
			r, err := s.Get(s.Context(), "", "job")
			require.NoError(s, err)
			assert.Empty(s, r.Tags)
			assert.Empty(s, r.Metadata)
			assert.Zero(s, r.Priority)
		},
		"runs one job more than a limited scope allows": func(s *legacyTest) {
			limited := amboy.LimitScope("scope", 1)
			for _, id := range []string{"one", "two"} {
				inserted(s, id, func(r *driver.Record) { r.RequiredScopes = []string{limited} })
			}
			require.Len(s, s.claim(), 1)
			assert.True(s, s.legacy.claim("two", limited))
		},
		"takes over a job whose lease is longer than the lock timeout": func(s *legacyTest) {
			inserted(s, "job", func(*driver.Record) {})
			claimed, err := s.Claim(s.Context(), driver.ClaimRequest{
				Owner: "elsewhere", Queues: []driver.Demand{{Limit: 1}}, Limit: 1, Now: time.Now(), LeaseTime: time.Hour,
			})
			require.NoError(s, err)
			require.Len(s, claimed.Records, 1)
			time.Sleep(mongodb.DefaultLockTimeout + time.Second)
			assert.True(s, s.legacy.claim("job"))
		},
		"does not end a canceled job early": func(s *legacyTest) {
			inserted(s, "job", func(*driver.Record) {})
			require.True(s, s.legacy.claim("job"))
			act(s, driver.Action{Kind: driver.Cancel})
			require.True(s, s.legacy.end("job", false))
			assert.Equal(s, amboy.StateSucceeded, s.state("job"))
		},
	} {
		t.Run(name, func(t *testing.T) { withLegacyProcess(t, test) })
	}
}

func TestAttemptsOfLegacyProcess(t *testing.T) {
	withLegacyProcess(t, func(s *legacyTest) {
		s.legacy.insert("attempt-0.job", nil)
		s.legacy.insert("attempt-1.job", nil)
		for i, id := range []string{"attempt-0.job", "attempt-1.job"} {
			_, err := s.legacy.jobs.UpdateOne(s.Context(), bson.D{{Key: "_id", Value: id}}, bson.D{{Key: "$set", Value: bson.D{
				{Key: "retry_info.retryable", Value: true},
				{Key: "retry_info.base_job_id", Value: "job"},
				{Key: "retry_info.current_attempt", Value: i},
				{Key: "status.completed", Value: true},
				{Key: "status.err_count", Value: 1},
			}}})
			require.NoError(s, err)
		}
		r, err := s.Get(s.Context(), "", "job")
		require.NoError(s, err)
		assert.Equal(s, "attempt-1.job", r.Name)
		for _, dryRun := range []bool{true, false} {
			acted, err := s.Act(s.Context(), driver.ActRequest{Action: driver.Action{Kind: driver.Restart}, Limit: 10, DryRun: dryRun})
			require.NoError(s, err)
			assert.Equal(s, driver.Acted{Done: 1, Skipped: 1}, acted, "dry run %t", dryRun)
		}
		assert.Contains(s, s.claim(), "job")
	})
}

func TestLegacyJobsRunOnce(t *testing.T) {
	const jobs = 30
	withLegacyProcess(t, func(s *legacyTest) {
		other := s.open(own)
		s.legacy.insert("edge", nil, "0")
		for i := range jobs {
			s.legacy.insert(fmt.Sprint(i), []string{fmt.Sprint("scope", i%3)})
		}
		ran := map[string]int{}
		var mu sync.Mutex
		note := func(id string) {
			mu.Lock()
			defer mu.Unlock()
			ran[id]++
		}
		sum := func() int {
			mu.Lock()
			defer mu.Unlock()
			return len(ran)
		}
		var workers sync.WaitGroup
		errs := make([]error, 2)
		for i, d := range []driver.Driver{s.Driver, other} {
			workers.Go(func() {
				for sum() < jobs+1 && errs[i] == nil && s.Context().Err() == nil {
					claimed, err := claimAs(s.Context(), d, fmt.Sprint("new", i))
					for id, r := range claimed {
						note(id)
						err = errors.Join(err, (&legacyTest{store: s.store, Driver: d}).end(r))
					}
					errs[i] = err
					time.Sleep(100 * time.Millisecond)
				}
			})
		}
		workers.Go(func() {
			for i := range jobs {
				id := fmt.Sprint(i)
				if s.legacy.claim(id, fmt.Sprint("scope", i%3)) {
					note(id)
					assert.True(s, s.legacy.end(id, false))
				}
				time.Sleep(10 * time.Millisecond)
			}
		})
		workers.Wait()
		require.NoError(s, errors.Join(errs...))
		for id, n := range ran {
			assert.Equal(s, 1, n, "job %q", id)
		}
		stats, err := s.Stats(s.Context(), "")
		require.NoError(s, err)
		assert.Equal(s, jobs+1, stats.Completed)
	})
}

// Documents whose IDs other jobs have were read again and again, at once, and no others.
func TestLegacyJobsThatCanNotBeAdoptedHidOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStoreOf(t, mongotest.Options{InMemory: true})
		d := s.open(own)
		f := &legacyProcess{store: s, jobs: s.jobs(false)}
		const jobs = 250
		var taken []*driver.Record
		var docs []any
		for i := range jobs {
			id := fmt.Sprint("taken-", i)
			taken = append(taken, &driver.Record{Name: id, Type: "sample"})
			docs = append(docs, bson.M{
				"_id":        "again-" + id,
				"type":       "sample",
				"status":     bson.M{"completed": false, "in_prog": false, "owner": "", "mod_count": 0},
				"retry_info": bson.M{"retryable": true, "base_job_id": id, "current_attempt": 1},
				"time_info":  bson.M{"created": time.Now()},
				"job":        bson.M{},
			})
		}
		putAll(t, d, taken...)
		_, err := f.jobs.InsertMany(t.Context(), docs)
		require.NoError(t, err)
		f.insert("behind", nil)
		claimed := map[string]bool{}
		for range 5 {
			for _, r := range claimAll(t, d, request("owner", 2*jobs, "")) {
				claimed[r.Name] = true
			}
			pass(10 * time.Second)
		}
		assert.True(t, claimed["behind"])
		assert.GreaterOrEqual(t, len(claimed), jobs+1)
	})
}

// The base of the jobs is in a base of the service's own. Its scopes were not found there, so that jobs
// with the same scope ran at once.
func TestLegacyJobsWithANestedBaseRanWithoutTheirScopes(t *testing.T) {
	withLegacyProcess(t, func(s *legacyTest) {
		for _, id := range []string{"one", "two"} {
			s.legacy.insert(id, []string{"a"})
			_, doc := s.legacy.read(id)
			put(doc, "job", bson.D{{Key: "common", Value: value(doc, "job")}})
			_, err := s.legacy.jobs.ReplaceOne(s.Context(), bson.D{{Key: "_id", Value: id}}, doc)
			require.NoError(s, err)
		}
		claimed := s.claim() // the driver may have taken over the documents by now, or not
		pass(time.Minute)
		maps.Copy(claimed, s.claim())
		assert.Len(s, claimed, 1)
		pass(time.Minute)
		assert.Empty(s, s.claim())
		for _, r := range claimed {
			assert.Equal(s, []string{"a"}, r.RequiredScopes)
		}
	})
}

// A process whose workers are all busy does not hear of the jobs that a legacy process puts, and no claim
// finds them. If another driver of the process is idle, the change stream continues.
func TestAJobThatALegacyProcessPutWhileAllWorkersWereBusyNeverRan(t *testing.T) {
	for name, besideIdle := range map[string]bool{"alone": false, "beside an idle driver": true} {
		t.Run(name, func(t *testing.T) {
			withLegacyProcess(t, func(s *legacyTest) {
				if besideIdle {
					_, err := claimAs(s.Context(), s.open(own, func(o *mongodb.Options) { o.Collection = "other" }), "idle")
					require.NoError(s, err)
				}
				s.makeBusy()
				s.legacy.insert("legacy", nil)
				pass(30 * time.Second) // until the change stream is beyond the job
				claimed := s.claim()   // now it has idle workers
				pass(10 * time.Second)
				maps.Copy(claimed, s.claim())
				assert.Contains(s, claimed, "legacy")
			})
		})
	}
}

func TestAJobThatALegacyProcessPutDidNotRunUntilWorkersWereIdle(t *testing.T) {
	withLegacyProcess(t, func(s *legacyTest) {
		s.makeBusy()
		s.legacy.insert("legacy", nil)
		pass(2 * time.Minute)
		assert.Contains(s, s.claim(), "legacy")
	})
}

// makeBusy makes the driver believe for long enough that it has no idle workers.
func (s *legacyTest) makeBusy() {
	s.Helper()
	const workers = 10
	for i := range workers {
		s.insertOne(fmt.Sprint(i), nil)
	}
	require.Len(s, s.claim(), workers, "it gets all that it asks for")
	pass(11 * time.Second)
}

// The change stream can't be resumed, so the event of a legacy job is lost.
func TestAJobThatALegacyProcessPutBeforeTheChangeStreamBeganAnewNeverRan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := mongotest.Open(t, mongotest.InMemory())
		client := d.Connect()
		opened, err := mongodb.Open(t.Context(), mongodb.Options{Client: client, DB: d.Database(), Collection: "work"})
		require.NoError(t, err)
		t.Cleanup(func() { assert.NoError(t, opened.Close(context.Background())) })
		_, err = claimAs(t.Context(), opened, "new")
		require.NoError(t, err)
		pass(time.Minute)
		const historyLost = 286
		d.Fail(mongotest.Failure{Commands: []string{"aggregate", "getMore"}, ErrorCode: historyLost})
		pass(time.Minute)
		s := &store{TB: t, client: client, db: d.Database()}
		(&legacyProcess{store: s, jobs: d.Collection("work.jobs")}).insert("legacy", nil)
		d.Heal()
		pass(time.Minute)
		claimed, err := claimAs(t.Context(), opened, "new")
		require.NoError(t, err)
		assert.Contains(t, claimed, "legacy")
	})
}

// The events of a busy legacy process made each idle process query legacy jobs without a pause.
func TestABusyLegacyProcessKeptIdleProcessesBusy(t *testing.T) {
	inMemory(t, func(t *testing.T, s *mongotest.Deployment) {
		const jobs, processes = 100, 5
		for range processes {
			_, err := claimAs(t.Context(), openOn(t, s, own), "new")
			require.NoError(t, err)
		}
		legacy := &legacyProcess{store: &store{TB: t, client: s.Connect(), db: s.Database()}, jobs: s.Collection("work.jobs")}
		pass(time.Minute)
		s.Server().ResetCosts()
		began := time.Now()
		for i := range jobs {
			id := fmt.Sprint(i)
			legacy.insert(id, nil)
			pass(20 * time.Millisecond)
			require.True(t, legacy.claim(id))
			pass(20 * time.Millisecond)
			require.True(t, legacy.end(id, false))
			pass(20 * time.Millisecond)
		}
		perSecond := float64(s.Server().Costs().Commands["aggregate"]) / time.Since(began).Seconds() / processes
		assert.LessOrEqual(t, perSecond, 5.0)
	})
}
