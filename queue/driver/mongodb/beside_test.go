package mongodb_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/bson"
	"go.mongodb.org/mongo-driver/mongo"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/mongotest"
	"github.com/mongodb/amboy/job"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/mongodb"
	"github.com/mongodb/amboy/registry"
)

// formerFields are the fields of a document that the former library knows. It
// drops the others when it saves one.
var formerFields = []string{
	"_id", "type", "version", "group", "status", "scopes", "enqueue_scopes", "enqueue_all_scopes",
	"retry_info", "time_info", "job", "dependency",
}

// formerStatus are those of its status.
var formerStatus = []string{"owner", "completed", "in_prog", "mod_ts", "mod_count", "err_count", "errors"}

// former is a process with the former library, which shares a collection with
// drivers. It does what the documents show that it did.
type former struct {
	*store
	jobs *mongo.Collection
}

const formerOwner = "former"

// insert stores a job that needs scopes when it runs, and depends on others.
func (f *former) insert(id string, scopes []string, edges ...string) {
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

// claim takes the lock of a job, unless it has ended, somebody else holds the lock
// or one of the scopes.
func (f *former) claim(id string, scopes ...string) bool {
	f.Helper()
	now := time.Now()
	filter := bson.D{
		{Key: "_id", Value: id},
		{Key: "status.completed", Value: false},
		{Key: "$or", Value: bson.A{
			bson.D{{Key: "status.in_prog", Value: false}},
			bson.D{{Key: "status.mod_ts", Value: bson.D{{Key: "$lte", Value: now.Add(-mongodb.DefaultLockTimeout)}}}},
		}},
	}
	set := bson.D{
		{Key: "status.owner", Value: formerOwner},
		{Key: "status.in_prog", Value: true},
		{Key: "status.mod_ts", Value: now},
		{Key: "time_info.start", Value: now},
	}
	if len(scopes) > 0 {
		set = append(set, bson.E{Key: "scopes", Value: scopes})
	}
	result, err := f.jobs.UpdateOne(f.Context(), filter, bson.D{
		{Key: "$set", Value: set},
		{Key: "$inc", Value: bson.D{{Key: "status.mod_count", Value: 1}}},
	})
	if mongo.IsDuplicateKeyError(err) {
		return false
	}
	require.NoError(f, err)
	return result.ModifiedCount == 1
}

// end saves a job as ended, all of it, where the process has its lock.
func (f *former) end(id string, needsRetry bool) bool {
	f.Helper()
	var doc bson.D
	require.NoError(f, f.jobs.FindOne(f.Context(), bson.D{{Key: "_id", Value: id}}).Decode(&doc))
	saved := only(doc, formerFields)
	filter := bson.D{{Key: "_id", Value: id}, {Key: "status.owner", Value: formerOwner}}
	for i := range saved {
		switch saved[i].Key {
		case "scopes":
			saved[i].Value = bson.A{}
		case "status":
			status := only(saved[i].Value.(bson.D), formerStatus)
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

// value is that of a field; nil where there is none.
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

// side is a driver beside a process with the former library, on a collection with
// one queue, under a clock that is faked.
type side struct {
	*store
	driver.Driver
	former *former
}

// beside runs a test with a driver and a process of the former library.
func beside(t *testing.T, test func(s *side)) {
	for name, opts := range map[string]mongotest.Options{
		"replica set": {InMemory: true},
		"standalone":  {InMemory: true, Standalone: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStoreOf(t, opts)
				test(&side{store: s, Driver: s.open(own), former: &former{store: s, jobs: s.jobs(false)}})
			})
		})
	}
}

func (s *side) insertOne(id string, change func(j *job.ShellJob)) {
	s.Helper()
	require.NoError(s, s.tryInsert(id, change))
}

func (s *side) tryInsert(id string, change func(j *job.ShellJob)) error {
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

// claimAs claims, and returns the records by the IDs of their jobs.
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

func (s *side) claim() map[string]*driver.Record {
	s.Helper()
	records, err := claimAs(s.Context(), s.Driver, "new")
	require.NoError(s, err)
	return records
}

func (s *side) end(r *driver.Record) error {
	s.Helper()
	e := *r
	e.Status.Completed, e.Status.InProgress = true, false
	e.TimeInfo.End = time.Now()
	errs, err := s.Complete(s.Context(), []driver.Completion{{Lease: driver.LeaseOf(r), Record: &e}})
	require.NoError(s, err)
	return errs[0]
}

func (s *side) recover() int {
	s.Helper()
	n, err := s.RecoverStale(s.Context())
	require.NoError(s, err)
	return n
}

func (s *side) state(id string) amboy.JobState {
	s.Helper()
	r, err := s.Get(s.Context(), "", id)
	require.NoError(s, err)
	return driver.StateOf(r, time.Now())
}

// pass lets time pass, in which the driver does what it does by itself.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func TestLockOfFormerProcess(t *testing.T) {
	beside(t, func(s *side) {
		s.insertOne("job", needs("a"))
		before, err := s.Get(s.Context(), "", "job")
		require.NoError(t, err)
		require.True(s, s.former.claim("job", "a"))
		assert.Equal(s, amboy.StateRunning, s.state("job"))
		assert.Empty(s, s.claim())
		require.ErrorIs(s, s.end(before), driver.ErrLeaseLost)
		pass(mongodb.DefaultLockTimeout - time.Minute)
		assert.Zero(s, s.recover())
		assert.Empty(s, s.claim())

		pass(2 * time.Minute)
		assert.Equal(s, 1, s.recover())
		r := s.claim()["job"]
		require.NotNil(s, r)
		assert.Equal(s, 2, r.Status.ModificationCount)
		assert.False(s, s.former.end("job", false), "its lock is another's")
		require.NoError(s, s.end(r))
		assert.False(s, s.former.claim("job", "a"), "it has ended")
	})
}

func TestLockIsRespectedByFormerProcess(t *testing.T) {
	beside(t, func(s *side) {
		s.insertOne("job", nil)
		r := s.claim()["job"]
		require.NotNil(s, r)
		assert.False(s, s.former.claim("job"))
		pass(mongodb.DefaultLockTimeout - time.Minute)
		lost, err := s.Extend(s.Context(), []driver.Lease{driver.LeaseOf(r)}, time.Minute)
		require.NoError(s, err)
		assert.Empty(s, lost)
		pass(mongodb.DefaultLockTimeout - time.Minute)
		assert.False(s, s.former.claim("job"), "the lock was renewed")

		pass(2 * time.Minute)
		require.True(s, s.former.claim("job"), "the lock is over")
		lost, err = s.Extend(s.Context(), []driver.Lease{driver.LeaseOf(r)}, time.Minute)
		require.NoError(s, err)
		assert.Len(s, lost, 1)
		require.ErrorIs(s, s.end(r), driver.ErrLeaseLost)
		require.ErrorIs(s, s.SetProgress(s.Context(), driver.LeaseOf(r), driver.Progress{}), driver.ErrLeaseLost)
		assert.True(s, s.former.end("job", false))
		assert.Equal(s, amboy.StateSucceeded, s.state("job"))
	})
}

func TestScopesAreSharedWithFormerProcess(t *testing.T) {
	beside(t, func(s *side) {
		s.former.insert("former", []string{"a"})
		require.True(s, s.former.claim("former", "a"))
		s.insertOne("new", needs("a"))
		assert.Empty(s, s.claim())
		pass(time.Minute)
		assert.Empty(s, s.claim())
		assert.Equal(s, amboy.StateBlocked, s.state("new"))

		require.True(s, s.former.end("former", false))
		pass(10 * time.Second)
		r := s.claim()["new"]
		require.NotNil(s, r, "the scope is free")
		s.former.insert("another", []string{"a"})
		assert.False(s, s.former.claim("another", "a"))
		require.NoError(s, s.end(r))
		assert.True(s, s.former.claim("another", "a"))
	})
}

func TestEdgesThatFormerProcessEnds(t *testing.T) {
	beside(t, func(s *side) {
		s.insertOne("target", nil)
		s.insertOne("new", func(j *job.ShellJob) { require.NoError(s, j.Dependency().AddEdge("target")) })
		require.True(s, s.former.claim("target"))
		assert.Empty(s, s.claim())
		require.True(s, s.former.end("target", false))
		pass(time.Minute)
		assert.Contains(s, s.claim(), "new")
	})
}

func TestSavedByFormerProcess(t *testing.T) {
	beside(t, func(s *side) {
		s.insertOne("job", func(j *job.ShellJob) {
			j.SetPriority(3)
			j.UpdateRetryInfo(amboy.JobRetryOptions{Retryable: new(true)})
		})
		require.True(s, s.former.claim("attempt-0.job"))
		require.True(s, s.former.end("attempt-0.job", true))
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

func TestAttemptsOfFormerProcess(t *testing.T) {
	beside(t, func(s *side) {
		s.former.insert("attempt-0.job", nil)
		s.former.insert("attempt-1.job", nil)
		for i, id := range []string{"attempt-0.job", "attempt-1.job"} {
			_, err := s.former.jobs.UpdateOne(s.Context(), bson.D{{Key: "_id", Value: id}}, bson.D{{Key: "$set", Value: bson.D{
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

func TestJobsOfFormerProcessRunOnce(t *testing.T) {
	const jobs = 30
	beside(t, func(s *side) {
		other := s.open(own)
		s.former.insert("edge", nil, "0")
		for i := range jobs {
			s.former.insert(fmt.Sprint(i), []string{fmt.Sprint("scope", i%3)})
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
						err = errors.Join(err, (&side{store: s.store, Driver: d}).end(r))
					}
					errs[i] = err
					time.Sleep(100 * time.Millisecond)
				}
			})
		}
		workers.Go(func() {
			for i := range jobs {
				id := fmt.Sprint(i)
				if s.former.claim(id, fmt.Sprint("scope", i%3)) {
					note(id)
					assert.True(s, s.former.end(id, false))
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
