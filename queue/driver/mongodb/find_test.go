package mongodb_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/bson"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/mongotest"
	"github.com/mongodb/amboy/job"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/mongodb"
	"github.com/mongodb/amboy/registry"
)

// newRecord returns the record of a new job of a queue.
func newRecord(tb testing.TB, queue, id string, change ...func(j *job.ShellJob)) *driver.Record {
	tb.Helper()
	j := job.NewShellJob("true", "")
	j.SetID(id)
	for _, c := range change {
		c(j)
	}
	r, err := registry.MakeJobInterchange(j, amboy.BSON)
	require.NoError(tb, err)
	r.Group = queue
	r.Name = driver.RecordName(queue, id, r.RetryInfo)
	return r
}

func insert(tb testing.TB, d driver.Driver, records ...*driver.Record) {
	tb.Helper()
	errs, err := d.Insert(tb.Context(), records)
	require.NoError(tb, err)
	for i, err := range errs {
		require.NoError(tb, err, records[i].Name)
	}
}

// claim claims records, which must succeed.
func claim(tb testing.TB, d driver.Driver, req driver.ClaimRequest) []*driver.Record {
	tb.Helper()
	claimed, err := d.Claim(tb.Context(), req)
	require.NoError(tb, err)
	return claimed.Records
}

func names(records []*driver.Record) []string {
	var all []string
	for _, r := range records {
		all = append(all, r.Name)
	}
	return all
}

func TestPagesOfAllQueues(t *testing.T) {
	s := newStore(t)
	d := s.open()
	var want []string
	for i := range 7 {
		r := newRecord(t, fmt.Sprint("queue", i%3), fmt.Sprint(i))
		insert(t, d, r)
		want = append(want, r.Name)
	}
	for _, newest := range []bool{false, true} {
		page := driver.PageRequest{Limit: 2, Newest: newest}
		var found []string
		for more := true; more; {
			got, err := d.Find(t.Context(), driver.Query{}, page)
			require.NoError(t, err)
			found = append(found, names(got.Records)...)
			page.After, more = got.Next, got.Next != ""
		}
		if newest {
			slices.Reverse(found)
		}
		assert.Equal(t, want, found, "newest %t", newest)
	}
}

func TestFindRefusesBadCursors(t *testing.T) {
	d := newStore(t).open()
	for _, after := range []driver.Cursor{"?", "1", "AAAA", "EAAAAAJvAAIAAABhAAA"} {
		_, err := d.Find(t.Context(), driver.Query{}, driver.PageRequest{After: after, Limit: 1})
		require.ErrorContains(t, err, "finding records: invalid cursor: After must be the Next of another page", after)
		require.ErrorIs(t, err, driver.ErrBadCursor)
		_, err = d.Act(t.Context(), driver.ActRequest{Action: driver.Action{Kind: driver.Cancel}, After: after, Limit: 1})
		require.ErrorContains(t, err, `action "cancel": after 0 records: invalid cursor`, after)
		require.ErrorIs(t, err, driver.ErrBadCursor)
	}
}

// TestReadsAreFew counts the commands of calls that read. Their number must not depend on
// the number of records.
func TestReadsAreFew(t *testing.T) {
	synctest.Test(t, readsAreFew)
}

func readsAreFew(t *testing.T) {
	s := newStoreOf(t, mongotest.Options{InMemory: true})
	d := s.open()
	var records []*driver.Record
	for i := range 500 {
		records = append(records, newRecord(t, fmt.Sprint("queue", i%10), fmt.Sprint(i)))
	}
	insert(t, d, records...)
	calls := map[string]struct {
		call func() error
		want []string
	}{
		"Find": {func() error {
			page, err := d.Find(t.Context(), driver.Query{States: []amboy.JobState{amboy.StatePending}}, driver.PageRequest{Limit: 100})
			assert.Len(t, page.Records, 100)
			return err
		}, []string{"find work.group"}},
		"Find by IDs": {func() error {
			page, err := d.Find(t.Context(), driver.Query{Queues: []string{"queue3"}, JobIDs: []string{"3", "13"}}, driver.PageRequest{Limit: 100})
			assert.Len(t, page.Records, 2)
			return err
		}, []string{"find work.group"}},
		"Find by IDs in all queues": {func() error {
			page, err := d.Find(t.Context(), driver.Query{JobIDs: []string{"3", "14"}}, driver.PageRequest{Limit: 100})
			assert.Len(t, page.Records, 2)
			return err
		}, []string{"aggregate work.group", "find work.group"}},
		"Count": {func() error {
			n, err := d.Count(t.Context(), driver.Query{States: []amboy.JobState{amboy.StatePending, amboy.StateBlocked}}, 1000)
			assert.Equal(t, 500, n)
			return err
		}, []string{"aggregate work.group"}},
		"Get": {func() error {
			_, err := d.Get(t.Context(), "queue3", "3")
			return err
		}, []string{"find work.group"}},
		"Stats": {func() error {
			stats, err := d.Stats(t.Context(), "queue3")
			assert.Equal(t, 50, stats.Total)
			return err
		}, []string{"aggregate work.group"}},
		"Queues": {func() error {
			infos, err := d.Queues(t.Context(), driver.QueueRequest{})
			assert.Len(t, infos, 10)
			return err
		}, []string{"aggregate work.group"}},
		"Unfinished": {func() error {
			queues, err := d.Unfinished(t.Context())
			assert.Len(t, queues, 10)
			return err
		}, []string{"aggregate work.group"}},
		"CancelRequests": {func() error {
			_, err := d.CancelRequests(t.Context(), "owner")
			return err
		}, []string{"find work.group"}},
	}
	for name, test := range calls {
		synctest.Wait()
		sent := s.commands(func() { require.NoError(t, test.call(), name) })
		assert.Equal(t, test.want, sent, name)
	}
}

// TestFewAreExamined counts the documents that the stand-in examines in a queue with
// many. It also queries the last document to end and replaced attempts.
func TestFewAreExamined(t *testing.T) {
	synctest.Test(t, fewAreExamined)
}

func fewAreExamined(t *testing.T) {
	server, err := mongotest.New(mongotest.Options{InMemory: true})
	require.NoError(t, err)
	t.Cleanup(server.Close)
	d := newStoreOn(t, server.ClientOptions()).open()
	records := make([]*driver.Record, 300)
	for i := range records {
		records[i] = newRecord(t, "q", fmt.Sprint(i), func(j *job.ShellJob) {
			j.SetTags([]string{"all", fmt.Sprint("tag", i)})
			j.SetScopes([]string{fmt.Sprint(i)})
			if i%100 == 2 {
				require.NoError(t, j.Dependency().AddEdge(fmt.Sprint(i-1)))
			}
		})
	}
	insert(t, d, records...)
	running := claim(t, d, request("owner", 3, "q"))
	endAll(t, d, running[:2]...)
	running = append(running[2:], claim(t, d, request("owner", 1, "q"))...)
	require.Equal(t, []string{"q.3", "q.2"}, names(running))
	endAll(t, d, running[1])
	for name, test := range map[string]struct {
		query driver.Query
		want  []string
	}{
		"tags":             {driver.Query{Tags: []string{"tag7", "all"}}, []string{"q.7"}},
		"no tags":          {driver.Query{Tags: []string{"tag7", "tag8"}}, nil},
		"holding":          {driver.Query{Holding: true}, []string{"q.3"}},
		"a holder":         {driver.Query{Holding: true, Scope: "3"}, []string{"q.3"}},
		"no holder":        {driver.Query{Holding: true, Scope: "4"}, nil},
		"dependents":       {driver.Query{DependsOn: "101"}, []string{"q.102"}},
		"ended dependents": {driver.Query{DependsOn: "1"}, []string{"q.2"}},
		"no dependents":    {driver.Query{DependsOn: "2"}, nil},
	} {
		synctest.Wait() // for the sweep after the first claim
		before := server.Examined().Documents
		test.query.Queues = []string{"q"}
		page, err := d.Find(t.Context(), test.query, driver.PageRequest{Limit: 10})
		require.NoError(t, err, name)
		assert.Equal(t, test.want, names(page.Records), name)
		if !test.query.Holding { // only real servers choose the index with few documents
			assert.LessOrEqual(t, server.Examined().Documents-before, int64(5), name)
		}
	}
}

// TestJobIDs finds jobs of this library and of the legacy library, and their attempts.
func TestJobIDs(t *testing.T) {
	for _, change := range []func(*mongodb.Options){own, func(*mongodb.Options) {}} {
		s := newStore(t)
		var opts mongodb.Options
		opts.Grouped = true
		change(&opts)
		d, queue, prefix := s.open(change), "", ""
		if opts.Grouped {
			queue, prefix = "q", "q."
			insert(t, d, newRecord(t, "other", "a"), newRecord(t, "other", "b"))
		}
		retryable := func(j *job.ShellJob) { j.UpdateRetryInfo(amboy.JobRetryOptions{Retryable: new(true)}) }
		insert(t, d, newRecord(t, queue, "a", retryable), newRecord(t, queue, "b"), newRecord(t, queue, "c"), newRecord(t, queue, "attempt-1.b"))
		_, err := s.jobs(opts.Grouped).UpdateOne(t.Context(), bson.D{{Key: "_id", Value: prefix + "b"}}, bson.D{{Key: "$unset", Value: bson.D{
			{Key: "job_id", Value: 1}, {Key: "order", Value: 1}, {Key: "line", Value: 1}, {Key: "rev", Value: 1},
		}}})
		require.NoError(t, err)
		ids := func(q driver.Query) (found []string) {
			page, err := d.Find(t.Context(), q, driver.PageRequest{Limit: 10})
			require.NoError(t, err)
			n, err := d.Count(t.Context(), q, 10)
			require.NoError(t, err)
			assert.Len(t, page.Records, n)
			for _, r := range page.Records {
				found = append(found, r.Group+"/"+r.JobID())
			}
			return found
		}
		of := func(id string) string { return queue + "/" + id }
		one := []string{queue}
		assert.Equal(t, []string{of("b"), of("a")}, ids(driver.Query{Queues: one, JobIDs: []string{"a", "b", "a", "nobody", "attempt-0.a", "\xff"}}))
		assert.Equal(t, []string{of("attempt-1.b")}, ids(driver.Query{Queues: one, JobIDs: []string{"attempt-1.b", "c"}, ID: "att*"}))
		assert.Equal(t, []string{of("c")}, ids(driver.Query{Queues: one, JobIDs: []string{"a", "c"}, ID: "c"}))
		assert.Empty(t, ids(driver.Query{Queues: one, JobIDs: []string{"a"}, ID: "c"}))
		assert.Empty(t, ids(driver.Query{Queues: []string{"nobody"}, JobIDs: []string{"a"}}))
		assert.Empty(t, ids(driver.Query{JobIDs: []string{"\xff"}}))
		assert.Empty(t, ids(driver.Query{Queues: one, JobIDs: []string{"attempt-0.a"}}), "a record's name is no job ID")
		if opts.Grouped {
			assert.Equal(t, []string{"q/b", "other/a", "other/b", "q/a"}, ids(driver.Query{JobIDs: []string{"a", "b"}}))
			assert.Equal(t, []string{"q/b", "other/b"}, ids(driver.Query{ID: "b"}))
		}
	}
}

func TestJobIDsOfAnEmptyStore(t *testing.T) {
	page, err := newStore(t).open().Find(t.Context(), driver.Query{JobIDs: []string{"a"}}, driver.PageRequest{Limit: 10})
	require.NoError(t, err)
	assert.Equal(t, driver.Page{}, page)
}

func TestUngroupedStoreHasOneQueue(t *testing.T) {
	d := newStore(t).open(own)
	insert(t, d, newRecord(t, "", "job"))
	for queue, want := range map[string]int{"": 1, "other": 0} {
		n, err := d.Count(t.Context(), driver.Query{Queues: []string{queue}}, 10)
		require.NoError(t, err)
		assert.Equal(t, want, n, "queue %q", queue)
	}
	queues, err := d.Unfinished(t.Context())
	require.NoError(t, err)
	assert.Equal(t, []string{""}, queues)
}

// TestIDsThatLookLikeNames finds jobs whose IDs look like record names of other jobs.
func TestIDsThatLookLikeNames(t *testing.T) {
	d := newStore(t).open()
	retryable := func(j *job.ShellJob) { j.UpdateRetryInfo(amboy.JobRetryOptions{Retryable: new(true)}) }
	insert(t, d,
		newRecord(t, "q", "a", retryable),
		newRecord(t, "q", "q.a"),
		newRecord(t, "q", "attempt-1.a"),
		newRecord(t, "q", "nul\x00"),
		newRecord(t, "q", `line\E`+"\n"),
	)
	for pattern, want := range map[string][]string{
		"a":           {"a"},
		"q.a":         {"q.a"},
		"attempt-0.a": nil,
		"attempt-1.a": {"attempt-1.a"},
		"attempt*":    {"attempt-1.a"},
		"*a":          {"a", "q.a", "attempt-1.a"},
		"nul\x00":     {"nul\x00"},
		"*\x00":       {"nul\x00"},
		"nul":         nil,
		`*\E?`:        {`line\E` + "\n"},
		`line\E`:      nil,
		`line\E*`:     {`line\E` + "\n"},
		"\xff*":       nil,
	} {
		for _, queues := range [][]string{nil, {"q"}, {"q", "other"}} {
			page, err := d.Find(t.Context(), driver.Query{ID: pattern, Queues: queues}, driver.PageRequest{Limit: 10})
			require.NoError(t, err)
			var found []string
			for _, r := range page.Records {
				found = append(found, r.JobID())
			}
			assert.Equal(t, want, found, "pattern %q of %q", pattern, queues)
		}
	}
	notFound := func(id string) bool {
		_, err := d.Get(t.Context(), "q", id)
		return amboy.IsJobNotFoundError(err)
	}
	assert.True(t, notFound("attempt-0.a"))
	assert.True(t, notFound("nul"))
	assert.False(t, notFound("nul\x00"))
}

var _ driver.Driver = (*mongodb.Driver)(nil)

// Only the latest of many ended jobs are selected by their end.
func TestFindingJobsByTheirEndExaminedAllJobs(t *testing.T) {
	inMemory(t, func(t *testing.T, s *mongotest.Deployment) {
		d := openOn(t, s)
		putAll(t, d, plainRecords(1000)...)
		endAll(t, d, claimAll(t, d, request("owner", 1000, "queue"))...)
		pass(time.Hour)
		putAll(t, d, plainRecord("late"), plainRecord("waits"))
		endAll(t, d, claimAll(t, d, request("owner", 1, "queue"))...)
		for _, queues := range [][]string{{"queue"}, nil} {
			q := driver.Query{Queues: queues, Ended: driver.TimeRange{From: time.Now().Add(-time.Minute)}}
			s.Server().ResetCosts()
			page, err := d.Find(t.Context(), q, driver.PageRequest{Limit: 10, Newest: true})
			require.NoError(t, err)
			assert.Equal(t, []string{"queue.late"}, names(page.Records))
			n, err := d.Count(t.Context(), q, 10)
			require.NoError(t, err)
			assert.Equal(t, 1, n)
			if queues != nil { // the stand-in does not skip in an index
				assert.Less(t, s.Server().Costs().Examined.Documents, int64(10))
			}
		}
	})
}

// A dry run of a restart reads what holds the scopes and keys of the jobs, and no other jobs.
func TestADryRunOfARestartExaminedAllJobs(t *testing.T) {
	inMemory(t, func(t *testing.T, s *mongotest.Deployment) {
		d := openOn(t, s)
		keyed := func(r *driver.Record) { r.UniqueKey = "key" }
		for _, hold := range []func(*driver.Record){takesScope, keyed} {
			putAll(t, d, plainRecord("first", hold), plainRecord("free"))
			for _, r := range claimAll(t, d, request("owner", 2, "queue")) {
				r.Status.AddError(errors.New("it failed"), 0, time.Now())
				endAll(t, d, r)
			}
			putAll(t, d, plainRecord("holder", hold))
			putAll(t, d, plainRecords(1000)...)
			s.Server().ResetCosts()
			acted, err := d.Act(t.Context(), driver.ActRequest{
				Query:  driver.Query{Queues: []string{"queue"}, JobIDs: []string{"first", "free"}},
				Action: driver.Action{Kind: driver.Restart}, Limit: 10, DryRun: true,
			})
			require.NoError(t, err)
			assert.Equal(t, driver.Acted{Done: 1, Skipped: 1}, acted)
			assert.Less(t, s.Server().Costs().Examined.Documents, int64(20))
			_, err = s.Collection("work.group").DeleteMany(t.Context(), bson.D{})
			require.NoError(t, err)
		}
	})
}

// A job is found by its ID without reading the other jobs of its queue, however many there are.
func TestFindingAJobByItsIDExaminedTheWholeQueue(t *testing.T) {
	inMemory(t, func(t *testing.T, s *mongotest.Deployment) {
		d := openOn(t, s)
		queries := map[string]driver.Query{
			"ID":                {Queues: []string{"queue"}, ID: "3"},
			"JobIDs":            {Queues: []string{"queue", "other"}, JobIDs: []string{"3"}},
			"JobIDs of a state": {Queues: []string{"queue"}, JobIDs: []string{"3"}, States: []amboy.JobState{amboy.StatePending}, Latest: true},
		}
		putAll(t, d, plainRecords(1000)...)
		few := func(what string, call func()) {
			s.Server().ResetCosts()
			call()
			assert.Less(t, s.Server().Costs().Examined.Documents, int64(10), what)
		}
		for name, q := range queries {
			few("Find by "+name, func() {
				page, err := d.Find(t.Context(), q, driver.PageRequest{Limit: 10})
				require.NoError(t, err)
				assert.Len(t, page.Records, 1, name)
			})
			few("Count by "+name, func() {
				n, err := d.Count(t.Context(), q, 10)
				require.NoError(t, err)
				assert.Equal(t, 1, n, name)
			})
			few("Act by "+name, func() {
				acted, err := d.Act(t.Context(), driver.ActRequest{Query: q, Action: driver.Action{Kind: driver.Prioritize, Priority: 1}, Limit: 1})
				require.NoError(t, err)
				assert.Equal(t, 1, acted.Done, name)
			})
		}
	})
}

// The query had the names under which the legacy library may have stored the jobs in each queue, which did not fit
// in a document.
func TestJobsByTheirIDsInVeryManyQueues(t *testing.T) {
	s := newStore(t)
	d := s.open()
	padding := strings.Repeat("x", 400)
	const queues = 500
	var ids []string
	for n := range 100 {
		ids = append(ids, fmt.Sprint(padding, n))
	}
	records := make([]*driver.Record, queues)
	for n := range records {
		records[n] = newRecord(t, fmt.Sprint("queue", n), ids[n%len(ids)])
	}
	insert(t, d, records...)
	found, err := d.Find(t.Context(), driver.Query{JobIDs: ids[:3]}, driver.PageRequest{Limit: 1000})
	require.NoError(t, err)
	assert.Len(t, found.Records, 3*queues/len(ids))
	found, err = d.Find(t.Context(), driver.Query{JobIDs: ids}, driver.PageRequest{Limit: 1000})
	require.NoError(t, err)
	assert.Len(t, found.Records, queues)
}
