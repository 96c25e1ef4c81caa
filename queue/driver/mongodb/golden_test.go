package mongodb_test

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/bson"
	"go.mongodb.org/mongo-driver/bson/primitive"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/mongodb"
)

// goldenFiles are collections written by the legacy library.
var goldenFiles = map[string]struct {
	documents, indexes string
	queue              string
	grouped            bool
}{
	"group": {"group.jsonl", "group.indexes.jsonl", "tenant.one", true},
	"own":   {"own.jsonl", "own.indexes.jsonl", "", false},
	"BSON2": {"own-bson2.jsonl", "own.indexes.jsonl", "", false},
}

// goldenTime is when the legacy library last changed them.
var goldenTime = time.UnixMilli(1795269170666)

// goldenStates are the states of their jobs, by record name without the queue's. The
// number in the shell job's name varies.
var goldenStates = map[string]amboy.JobState{
	"attempt-0.fails-twice":   amboy.StateFailed,
	"attempt-1.fails-twice":   amboy.StateFailed,
	"attempt-0.retries-later": amboy.StateFailed,
	"attempt-1.retries-later": amboy.StateScheduled,
	"depends":                 amboy.StateSucceeded,
	"plain":                   amboy.StateSucceeded,
	"shell":                   amboy.StateSucceeded,
	"running":                 amboy.StateRunning,
	"scheduled":               amboy.StateScheduled,
	"scoped-at-enqueue":       amboy.StateScheduled,
	"scoped-in-part":          amboy.StateScheduled,
}

// eventually is how long a test waits for a driver's background work, and often how often it checks for it.
const eventually, often = 10 * time.Second, 50 * time.Millisecond

// golden is a legacy collection with a driver on it.
type golden struct {
	*testing.T
	store   *store
	driver  driver.Driver
	queue   string
	grouped bool
	// loaded are its documents, with their dates moved to the present.
	loaded map[string]bson.Raw
	start  time.Time
}

func eachGolden(t *testing.T, test func(g *golden)) {
	for name, file := range goldenFiles {
		t.Run(name, func(t *testing.T) {
			inFakeTime(t, func(t *testing.T) {
				g := &golden{T: t, store: newStore(t), queue: file.queue, grouped: file.grouped, start: time.Now().Truncate(time.Millisecond)}
				g.loaded = g.store.load(file.grouped, file.documents, file.indexes, g.start.Sub(goldenTime))
				g.driver = g.store.open(func(o *mongodb.Options) { o.Grouped = file.grouped })
				test(g)
			})
		})
	}
}

// load fills the collection of the jobs and builds its indexes. It moves dates by later.
func (s *store) load(grouped bool, documents, indexes string, later time.Duration) map[string]bson.Raw {
	s.Helper()
	jobs := s.jobs(grouped)
	var specs bson.A
	for _, spec := range s.readGolden(indexes) {
		if value(spec, "name") != "_id_" {
			specs = append(specs, spec)
		}
	}
	command := bson.D{{Key: "createIndexes", Value: jobs.Name()}, {Key: "indexes", Value: specs}}
	require.NoError(s, jobs.Database().RunCommand(s.Context(), command).Err())
	loaded := map[string]bson.Raw{}
	for _, doc := range s.readGolden(documents) {
		raw, err := bson.Marshal(moved(doc, later))
		require.NoError(s, err)
		_, err = jobs.InsertOne(s.Context(), bson.Raw(raw))
		require.NoError(s, err)
		loaded[value(doc, "_id").(string)] = raw
	}
	return loaded
}

func (s *store) readGolden(file string) []bson.D {
	s.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "golden", file))
	require.NoError(s, err)
	var docs []bson.D
	for line := range bytes.Lines(bytes.TrimSpace(text)) {
		var doc bson.D
		require.NoError(s, bson.UnmarshalExtJSON(line, true, &doc))
		docs = append(docs, doc)
	}
	return docs
}

// moved returns a value with its dates moved, except the zero date.
func moved(value any, later time.Duration) any {
	switch v := value.(type) {
	case bson.D:
		for i := range v {
			v[i].Value = moved(v[i].Value, later)
		}
	case primitive.DateTime:
		if v > 0 {
			return v + primitive.DateTime(later.Milliseconds())
		}
	}
	return value
}

// name returns the name of a record without the queue's.
func (g *golden) name(id string) string {
	name := strings.TrimPrefix(id, g.queue+".")
	if strings.HasPrefix(name, "shell") {
		return "shell"
	}
	return name
}

// find returns the records that a query selects, by name without the queue's.
func (g *golden) find(q driver.Query) map[string]*driver.Record {
	g.Helper()
	page, err := g.driver.Find(g.Context(), q, driver.PageRequest{Limit: 100})
	require.NoError(g, err)
	found := map[string]*driver.Record{}
	for _, r := range page.Records {
		found[g.name(r.Name)] = r
	}
	return found
}

func (g *golden) claim(at time.Time) map[string]*driver.Record {
	g.Helper()
	claimed, err := g.driver.Claim(g.Context(), driver.ClaimRequest{
		Owner:     "new",
		Queues:    []driver.Demand{{Queue: g.queue, Limit: 10}},
		Limit:     10,
		Now:       at,
		LeaseTime: time.Minute,
	})
	require.NoError(g, err)
	records := map[string]*driver.Record{}
	for _, r := range claimed.Records {
		records[g.name(r.Name)] = r
	}
	return records
}

func (g *golden) end(r *driver.Record, change func(r *driver.Record)) *driver.Record {
	g.Helper()
	e := *r
	e.Status.Completed, e.Status.InProgress = true, false
	e.TimeInfo.End = e.TimeInfo.Start.Add(time.Second)
	if change != nil {
		change(&e)
	}
	errs, err := g.driver.Complete(g.Context(), []driver.Completion{{Lease: driver.LeaseOf(r), Record: &e}})
	require.NoError(g, err)
	require.NoError(g, errs[0])
	return &e
}

func TestGoldenDocumentsAreListed(t *testing.T) {
	eachGolden(t, func(g *golden) {
		found := g.find(driver.Query{})
		assert.ElementsMatch(g, slices.Collect(maps.Keys(goldenStates)), slices.Collect(maps.Keys(found)))
		for id, raw := range g.loaded {
			r := found[g.name(id)]
			require.NotNil(g, r, id)
			assert.Equal(g, goldenStates[g.name(id)], driver.StateOf(r, time.Now()), id)
			assert.Equal(g, id, r.Name)
			assert.Equal(g, g.queue, r.Group, id)
			assert.Equal(g, []byte(raw.Lookup("job").Value), r.Raw(), "body of %s", id)
		}
		for _, state := range amboy.JobStates() {
			q := driver.Query{States: []amboy.JobState{state}, Queues: []string{g.queue}}
			var want []string
			for name, of := range goldenStates {
				if of == state {
					want = append(want, name)
				}
			}
			assert.ElementsMatch(g, want, slices.Collect(maps.Keys(g.find(q))), "in state %s", state)
			n, err := g.driver.Count(g.Context(), q, 100)
			require.NoError(g, err)
			assert.Equal(g, len(want), n, "in state %s", state)
		}
	})
}

func TestGoldenDocumentsAreRead(t *testing.T) {
	eachGolden(t, func(g *golden) {
		for id, want := range map[string]string{"fails-twice": "attempt-1.fails-twice", "retries-later": "attempt-1.retries-later", "plain": "plain", "running": "running"} {
			r, err := g.driver.Get(g.Context(), g.queue, id)
			require.NoError(g, err)
			assert.Equal(g, want, g.name(r.Name))
			assert.Equal(g, id, r.JobID())
		}
		attempts, err := g.driver.Attempts(g.Context(), g.queue, "fails-twice")
		require.NoError(g, err)
		require.Len(g, attempts, 2)
		assert.Equal(g, "attempt-0.fails-twice", g.name(attempts[0].Name))
		assert.Equal(g, 50*time.Millisecond, attempts[0].RetryInfo.WaitUntil)

		latest := g.find(driver.Query{Latest: true})
		assert.Len(g, latest, len(goldenStates)-2)
		assert.NotContains(g, latest, "attempt-0.fails-twice")
		assert.Len(g, g.find(driver.Query{ID: "*-twice"}), 2)
		assert.Len(g, g.find(driver.Query{ID: "scoped-??-*"}), 2)
		assert.Len(g, g.find(driver.Query{ID: "plain"}), 1)
		assert.Len(g, g.find(driver.Query{ID: "plain", Queues: []string{g.queue}}), 1)
		assert.Empty(g, g.find(driver.Query{Error: "maximum attempt limit"}), "not the job's own error")
		assert.Len(g, g.find(driver.Query{Error: "could not read"}), 3, "the jobs' own last error")
		assert.Len(g, g.find(driver.Query{Types: []string{"shell"}}), 1)
		assert.Len(g, g.find(driver.Query{Scope: "folder-c"}), 1)

		stats, err := g.driver.Stats(g.Context(), g.queue)
		require.NoError(g, err)
		assert.Equal(g, amboy.QueueStats{Total: 11, Pending: 4, Running: 1, Completed: 6}.String(), stats.String())
		infos, err := g.driver.Queues(g.Context(), driver.QueueRequest{})
		require.NoError(g, err)
		require.Len(g, infos, 1)
		assert.Equal(g, g.queue, infos[0].Name)
		names, err := g.driver.Unfinished(g.Context())
		require.NoError(g, err)
		assert.Equal(g, []string{g.queue}, names)
	})
}

// TestGoldenDocumentsAreRun claims and ends legacy jobs, and checks that each field that
// the legacy library knows is as that library would write it.
func TestGoldenDocumentsAreRun(t *testing.T) {
	eachGolden(t, func(g *golden) {
		due := map[string]*driver.Record{}
		require.Eventually(g, func() bool {
			require.Empty(g, g.claim(g.start), "jobs that are not due or run elsewhere")
			maps.Copy(due, g.claim(g.start.Add(11*24*time.Hour)))
			return len(due) == 4
		}, eventually, often)
		require.ElementsMatch(g, []string{"attempt-1.retries-later", "scheduled", "scoped-at-enqueue", "scoped-in-part"}, slices.Collect(maps.Keys(due)))
		g.locked("scheduled", 1)
		g.locked("scoped-in-part", 1, "folder-c", "folder-d")
		g.locked("attempt-1.retries-later", 1, "folder-f")

		for name, r := range due {
			if name != "attempt-1.retries-later" {
				g.end(r, nil)
				g.ended(name, 1)
			}
		}
		g.retry(due["attempt-1.retries-later"])
		g.claimStale()
		for id, raw := range g.loaded { // ended documents are not changed
			if g.stored(id).Lookup("status", "completed").Boolean() == raw.Lookup("status", "completed").Boolean() {
				kept(g, "", raw, g.stored(id), nil)
			}
		}
	})
}

// retry runs an attempt of a job, retries it, and runs the next attempt.
func (g *golden) retry(r *driver.Record) {
	g.Helper()
	e := g.end(r, func(r *driver.Record) {
		r.RetryInfo.NeedsRetry = true
		r.Status.ErrorCount, r.Status.Errors = 1, []string{"could not read the file"}
	})
	assert.Equal(g, []string{"folder-f"}, g.scopes("attempt-1.retries-later"), "the record keeps the scope that it took when it was put")
	assert.Len(g, g.find(driver.Query{States: []amboy.JobState{amboy.StateRetrying}}), 1)
	e.RetryInfo.NeedsRetry, e.RetryInfo.Start, e.RetryInfo.End = false, e.TimeInfo.End, e.TimeInfo.End
	next := *e
	next.Status, next.Scopes = amboy.JobStatusInfo{}, nil
	next.TimeInfo = amboy.JobTimeInfo{Created: e.TimeInfo.End}
	next.RetryInfo.CurrentAttempt++
	next.RetryInfo.Start, next.RetryInfo.End = time.Time{}, time.Time{}
	next.Name = driver.RecordName(g.queue, "retries-later", next.RetryInfo)
	require.NoError(g, g.driver.Retry(g.Context(), e, &next))
	assert.Empty(g, g.scopes("attempt-1.retries-later"))
	assert.Equal(g, []string{"folder-f"}, g.scopes("attempt-2.retries-later"))
	g.ended("attempt-1.retries-later", 1)

	again := g.claim(g.start.Add(12 * 24 * time.Hour))["attempt-2.retries-later"]
	require.NotNil(g, again)
	g.end(again, nil)
	stored := g.stored(g.id("attempt-2.retries-later"))
	may := map[string]bool{"_id": true, "status": true, "scopes": true, "time_info": true, "retry_info": true}
	kept(g, "", g.loaded[g.id("attempt-1.retries-later")], stored, may)
	assert.Equal(g, bson.TypeInt32, stored.Lookup("retry_info", "current_attempt").Type)
	assert.Equal(g, bson.TypeInt64, stored.Lookup("retry_info", "wait_until").Type)
}

// claimStale claims the job of a dead process once its lock has expired.
func (g *golden) claimStale() {
	g.Helper()
	recoveredAfter := func(age time.Duration) int {
		endLeases(g, g.store.jobs(g.grouped), age)
		n, err := g.driver.RecoverStale(g.Context())
		require.NoError(g, err)
		return n
	}
	require.Equal(g, 0, recoveredAfter(mongodb.DefaultLockTimeout-time.Minute))
	require.Equal(g, 1, recoveredAfter(2*time.Minute))
	var r *driver.Record
	require.Eventually(g, func() bool {
		r = g.claim(time.Now())["running"]
		return r != nil
	}, eventually, often)
	g.locked("running", 2, "folder-e")
	g.end(r, nil)
	g.ended("running", 2)
}

func (g *golden) id(name string) string {
	if g.queue == "" {
		return name
	}
	return g.queue + "." + name
}

// stored returns the stored document with an _id.
func (g *golden) stored(id string) bson.Raw {
	g.Helper()
	raw, err := g.store.jobs(g.grouped).FindOne(g.Context(), bson.D{{Key: "_id", Value: id}}).Raw()
	require.NoError(g, err)
	return raw
}

func (g *golden) scopes(name string) []string {
	g.Helper()
	var scopes []string
	if value, err := g.stored(g.id(name)).LookupErr("scopes"); err == nil {
		require.NoError(g, value.Unmarshal(&scopes))
	}
	return scopes
}

// locked requires that the legacy library finds a document locked by this library.
func (g *golden) locked(name string, count int32, scopes ...string) {
	g.Helper()
	before, after := g.loaded[g.id(name)], g.stored(g.id(name))
	kept(g, "", before, after, map[string]bool{
		"scopes": true, "status.owner": true, "status.in_prog": true, "status.mod_ts": true, "status.mod_count": true, "time_info.start": true,
	})
	assert.Equal(g, "new", after.Lookup("status", "owner").StringValue())
	assert.True(g, after.Lookup("status", "in_prog").Boolean())
	assert.Equal(g, bson.TypeDateTime, after.Lookup("status", "mod_ts").Type)
	assert.Equal(g, count, after.Lookup("status", "mod_count").Int32())
	assert.Equal(g, bson.TypeDateTime, after.Lookup("time_info", "start").Type)
	assert.ElementsMatch(g, scopes, g.scopes(name))
}

// ended requires that the legacy library finds its job ended.
func (g *golden) ended(name string, count int32) {
	g.Helper()
	before, after := g.loaded[g.id(name)], g.stored(g.id(name))
	kept(g, "", before, after, map[string]bool{
		"scopes": true, "status": true, "time_info.start": true, "retry_info": true,
	})
	for field, want := range map[string]any{
		"owner": bson.TypeString, "completed": bson.TypeBoolean, "in_prog": bson.TypeBoolean,
		"mod_ts": bson.TypeDateTime, "mod_count": bson.TypeInt32, "err_count": bson.TypeInt32,
	} {
		assert.Equal(g, want, after.Lookup("status", field).Type, "status.%s of %s", field, name)
	}
	for field, want := range map[string]any{
		"retryable": bson.TypeBoolean, "needs_retry": bson.TypeBoolean, "current_attempt": bson.TypeInt32,
	} {
		assert.Equal(g, want, after.Lookup("retry_info", field).Type, "retry_info.%s of %s", field, name)
	}
	assert.True(g, after.Lookup("status", "completed").Boolean())
	assert.False(g, after.Lookup("status", "in_prog").Boolean())
	assert.Equal(g, count, after.Lookup("status", "mod_count").Int32())
	assert.Equal(g, bson.TypeDateTime, after.Lookup("time_info", "end").Type)
	assert.Empty(g, g.scopes(name))
}

// kept requires that each field of a document is byte by byte as in another one, except
// for the fields in may.
func kept(tb testing.TB, path string, before, after bson.Raw, may map[string]bool) {
	tb.Helper()
	elements, err := before.Elements()
	require.NoError(tb, err)
	for _, e := range elements {
		field := path + e.Key()
		if may[field] {
			continue
		}
		value, err := after.LookupErr(e.Key())
		require.NoError(tb, err, "field %s is lost", field)
		was, isDocument := e.Value().DocumentOK()
		is, stayed := value.DocumentOK()
		if isDocument && stayed && path == "" {
			kept(tb, field+".", was, is, may)
			continue
		}
		assert.True(tb, e.Value().Equal(value), "field %s changed from %s to %s", field, e.Value(), value)
	}
}

// TestGoldenIndexesAreTaken opens a driver on a collection whose indexes have other names
// than the driver would give them.
func TestGoldenIndexesAreTaken(t *testing.T) {
	eachGolden(t, func(g *golden) {
		cursor, err := g.store.jobs(g.grouped).Indexes().List(g.Context())
		require.NoError(g, err)
		var all []struct {
			Key bson.D `bson:"key"`
		}
		require.NoError(g, cursor.All(g.Context(), &all))
		seen := map[string]bool{}
		for _, index := range all {
			keys := fmt.Sprint(index.Key)
			assert.False(g, seen[keys], "two indexes on %s", keys)
			seen[keys] = true
		}
	})
}
