package queue_test

import (
	"context"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/job"
	"github.com/mongodb/amboy/queue"
	"github.com/mongodb/amboy/queue/driver"
)

func idsOf(records []*driver.Record) []string {
	ids := make([]string, len(records))
	for i, r := range records {
		ids[i] = r.JobID()
	}
	return ids
}

func TestFindOnLocalAndStoredQueuesIsEqual(t *testing.T) {
	start := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	queries := map[string]driver.Query{
		"all":                     {},
		"an ID":                   {ID: "edge"},
		"a pattern":               {ID: "s*d"},
		"a pattern for none":      {ID: "s?d"},
		"some IDs":                {JobIDs: []string{"parked", "nobody", "failed", "parked"}},
		"some IDs and a pattern":  {JobIDs: []string{"parked", "failed"}, ID: "f*"},
		"a tag":                   {Tags: []string{"red"}},
		"two tags":                {Tags: []string{"red", "blue"}},
		"a scope":                 {Scope: "busy"},
		"holders":                 {Holding: true},
		"the holder of a scope":   {Holding: true, Scope: "busy"},
		"dependents":              {DependsOn: "running"},
		"an error":                {Error: "luck"},
		"another error":           {Error: "Luck"},
		"created later":           {Created: driver.TimeRange{From: start.Add(time.Second)}},
		"created at first":        {Created: driver.TimeRange{To: start.Add(time.Second)}},
		"due":                     {Due: driver.TimeRange{From: start.Add(time.Hour)}},
		"ended":                   {Ended: driver.TimeRange{From: start}},
		"ended later":             {Ended: driver.TimeRange{From: start.Add(time.Second)}},
		"a type":                  {Types: []string{"other", funcJobType}},
		"another type":            {Types: []string{"other"}},
		"the latest":              {Latest: true},
		"failed or in another":    {States: []amboy.JobState{amboy.StateFailed, amboy.StateParked}, Tags: []string{"red"}},
		"what ended unsuccessful": {States: []amboy.JobState{amboy.StateFailed, amboy.StateCanceled, amboy.StateExpired}},
	}
	for _, state := range amboy.JobStates() {
		queries["state "+string(state)] = driver.Query{States: []amboy.JobState{state}}
	}
	found := onAdminKinds(t, func(a administered) map[string][]string {
		a.inEveryState()
		found := map[string][]string{}
		for name, query := range queries {
			query.Queues = []string{"another", a.name}
			found[name] = idsOf(a.find(query, driver.PageRequest{Limit: 100}))
			for _, limit := range []int{1, 3, len(found[name]) + 1} {
				assert.Equal(a.t, found[name], idsOf(a.find(query, driver.PageRequest{Limit: limit})), "%s, %d on a page", name, limit)
				newest := idsOf(a.find(query, driver.PageRequest{Limit: limit, Newest: true}))
				slices.Reverse(newest)
				assert.Equal(a.t, found[name], newest, "%s, newest first", name)
			}
			n, err := a.admin.Count(a.t.Context(), query, math.MaxInt)
			require.NoError(a.t, err)
			assert.Equal(a.t, len(found[name]), n, name)
			n, err = a.admin.Count(a.t.Context(), query, 1)
			require.NoError(a.t, err)
			assert.Equal(a.t, min(1, len(found[name])), n, name)
			query.Queues = []string{"another"}
			assert.Empty(a.t, a.find(query, driver.PageRequest{Limit: 2}), "%s, in another queue", name)
		}
		return found
	})
	assert.Len(t, found["all"], len(everyStates))
	assert.Equal(t, []string{"running", "scope"}, found["a scope"])
	assert.Equal(t, []string{"running", "scheduled"}, found["holders"])
	assert.Equal(t, []string{"edge"}, found["dependents"])
	assert.Equal(t, []string{"failed", "parked"}, found["some IDs"])
}

func TestInvalidReadsOfALocalQueue(t *testing.T) {
	onAdminKinds(t, func(a administered) []string {
		var refusals []string
		find := func(q driver.Query, page driver.PageRequest) error {
			_, err := a.admin.Find(a.t.Context(), q, page)
			require.Error(a.t, err)
			refusals = append(refusals, err.Error())
			return err
		}
		require.ErrorIs(a.t, find(driver.Query{}, driver.PageRequest{Limit: 1, After: "nowhere"}), driver.ErrBadCursor)
		require.Error(a.t, find(driver.Query{}, driver.PageRequest{}))
		require.Error(a.t, find(driver.Query{DependsOn: "a"}, driver.PageRequest{Limit: 1}))
		_, err := a.admin.Count(a.t.Context(), driver.Query{}, 0)
		require.Error(a.t, err)
		for _, req := range []driver.ActRequest{
			{Action: driver.Action{Kind: "explode"}, Limit: 1},
			{Action: driver.Action{Kind: driver.Park}},
			{Action: driver.Action{Kind: driver.Park}, Limit: 1, After: "nowhere"},
		} {
			_, err = a.admin.Act(a.t.Context(), req)
			require.Error(a.t, err)
			refusals = append(refusals, err.Error())
		}
		_, err = a.admin.Get(a.t.Context(), a.name, "nobody")
		assert.True(a.t, amboy.IsJobNotFoundError(err))
		_, err = a.admin.Get(a.t.Context(), "another", "nobody")
		assert.True(a.t, amboy.IsJobNotFoundError(err))
		attempts, err := a.admin.Attempts(a.t.Context(), a.name, "nobody")
		require.NoError(a.t, err)
		assert.Empty(a.t, attempts)
		stats, err := a.admin.Stats(a.t.Context(), "another")
		require.NoError(a.t, err)
		assert.Equal(a.t, amboy.QueueStats{}, stats)
		return refusals
	})
}

// newLocalAdmin starts a local queue, and returns it with its driver.Admin.
func newLocalAdmin(t *testing.T, opts queue.LocalOptions) administered {
	t.Helper()
	q, err := queue.NewLocal(opts)
	require.NoError(t, err)
	t.Cleanup(func() { q.Close(context.Background()) })
	return administer(t, q)
}

// TestPagesOfAQueueThatChanges reads a page at a time while jobs come and go.
func TestPagesOfAQueueThatChanges(t *testing.T) {
	a := newLocalAdmin(t, queue.LocalOptions{NumWorkers: 1})
	require.NoError(t, controlled(t, a.queue).Pause(t.Context()))
	const jobs = 2000
	for i := range jobs {
		put(t, a.queue, noop(t, fmt.Sprint(i)))
	}
	read := map[string]int{}
	page := driver.PageRequest{Limit: 7}
	for i := 0; ; i++ {
		p, err := a.admin.Find(t.Context(), a.all(), page)
		require.NoError(t, err)
		for _, id := range idsOf(p.Records) {
			read[id]++
		}
		if p.Next == "" {
			break
		}
		page.After = p.Next
		// The last job of the page is canceled, and a job far ahead.
		gone := []string{p.Records[len(p.Records)-1].JobID(), fmt.Sprint(jobs - 1 - i)}
		a.act(a.jobs(gone...), driver.Action{Kind: driver.Cancel})
		a.act(a.jobs(gone...), driver.Action{Kind: driver.Delete})
	}
	for _, r := range a.find(a.all(), driver.PageRequest{Limit: jobs}) {
		assert.Equal(t, 1, read[r.JobID()], r.JobID())
	}
	assert.Greater(t, len(read), jobs/2)
}

// plain is a job of a type that is not registered.
type plain struct {
	job.Base
	Note string
}

func (j *plain) Run(context.Context) { j.MarkComplete() }

func TestRecordOfALocalJob(t *testing.T) {
	a := newLocalAdmin(t, queue.LocalOptions{NumWorkers: 1})
	get := func(id string) *driver.Record {
		r, err := a.admin.Get(t.Context(), a.name, id)
		require.NoError(t, err)
		return r
	}
	require.NoError(t, controlled(t, a.queue).Pause(t.Context()))
	unregistered := &plain{Note: "secret"}
	unregistered.JobType = amboy.JobType{Name: "plain", Version: 3}
	unregistered.SetID("unregistered")
	noted := newJob(t, "noted", func(_ context.Context, j *funcJob) { j.Note = "done" })
	noted.SetPriority(4)
	noted.SetTags([]string{"red"})
	noted.SetMetadata("trace", "17")
	require.NoError(t, noted.Dependency().AddEdge("unregistered"))
	labeled := newLabeled("labeled", "key", amboy.UniqueUntilForgotten)
	put(t, a.queue, unregistered, retryable(noted, 3), labeled)

	r := get("noted")
	assert.Equal(t, a.name, r.Group)
	assert.Equal(t, driver.RecordName(a.name, "noted", r.RetryInfo), r.Name)
	assert.Equal(t, "noted", r.JobID())
	assert.Equal(t, funcJobType, r.Type)
	assert.Equal(t, 1, r.Version)
	assert.Equal(t, 4, r.Priority)
	assert.Equal(t, []string{"red"}, r.Tags)
	assert.Equal(t, map[string]string{"trace": "17"}, r.Metadata)
	assert.Equal(t, []string{"unregistered"}, r.Dependency.Edges)
	assert.True(t, r.Job.IsZero(), "the job may change until it has ended")
	assert.Equal(t, "key", get("labeled").UniqueKey)
	attempts, err := a.admin.Attempts(t.Context(), a.name, "noted")
	require.NoError(t, err)
	assert.Equal(t, []*driver.Record{r}, attempts)
	attempts, err = a.admin.Attempts(t.Context(), a.name, "labeled")
	require.NoError(t, err)
	assert.Empty(t, attempts, "the job is not retryable")

	require.NoError(t, controlled(t, a.queue).Resume(t.Context()))
	drain(t, a.queue)
	j, err := get("noted").Resolve(amboy.JSON)
	require.NoError(t, err)
	assert.Equal(t, "done", j.(*funcJob).Note)
	assert.Equal(t, amboy.StateSucceeded, driver.StateOf(get("unregistered"), time.Now()))
	assert.True(t, get("unregistered").Job.IsZero())
	assert.Equal(t, "plain", get("unregistered").Type)
	assert.Equal(t, 3, get("unregistered").Version)
}

func TestLocalReadsEndWithTheirContext(t *testing.T) {
	a := newLocalAdmin(t, queue.LocalOptions{NumWorkers: 1})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := a.admin.Find(ctx, a.all(), driver.PageRequest{Limit: 1})
	require.ErrorIs(t, err, context.Canceled)
	_, err = a.admin.Act(ctx, driver.ActRequest{Action: driver.Action{Kind: driver.Park}, Limit: 1})
	require.ErrorIs(t, err, context.Canceled)
	_, err = a.admin.Get(ctx, a.name, "a")
	require.ErrorIs(t, err, context.Canceled)
	for _, failure := range []error{
		a.admin.Keep(ctx, driver.Note{}),
		a.admin.Drop(ctx, "kind", "key"),
	} {
		require.ErrorIs(t, failure, context.Canceled)
	}
}
