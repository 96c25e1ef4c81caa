package management_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/management"
)

// found returns the sorted IDs of the jobs of this queue that a filter selects.
func (f *inspected) found(filter management.JobFilter) []string {
	f.Helper()
	filter.Queues = []string{f.name}
	ids := []string{}
	page := management.PageRequest{Limit: 2}
	for {
		found, err := f.FindJobs(f.ctx, filter, page)
		require.NoError(f, err)
		for _, j := range found.Jobs {
			ids = append(ids, j.ID)
		}
		if found.Next == "" {
			break
		}
		page.Cursor = found.Next
	}
	count, err := f.CountJobs(f.ctx, filter, management.MaxCount)
	require.NoError(f, err)
	assert.Equal(f, management.Count{Count: len(ids)}, count)
	slices.Sort(ids)
	return ids
}

func TestFindJobs(t *testing.T) {
	inspectEach(t, allViews, func(f *inspected) {
		start := time.Now()
		tagged := newTask("tagged", "beta")
		tagged.SetTags([]string{"red", "round"})
		f.put(tagged, newTask("plain", "alpha"), f.fail("failed*", "beta"))
		f.wait("tagged", "plain", "failed*")
		scheduled := newTask("scheduled", "alpha")
		scheduled.SetTimeInfo(amboy.JobTimeInfo{WaitUntil: inAnHour()})
		scheduled.SetScopes([]string{"ledger"})
		f.put(scheduled)

		all := []string{"failed*", "plain", "scheduled", "tagged"}
		for name, test := range map[string]struct {
			filter management.JobFilter
			want   []string
		}{
			"all":          {management.JobFilter{}, all},
			"states":       {management.JobFilter{States: []amboy.JobState{amboy.StateFailed, amboy.StateScheduled}}, []string{"failed*", "scheduled"}},
			"types":        {management.JobFilter{Types: []string{"alpha"}}, []string{"plain", "scheduled"}},
			"both tags":    {management.JobFilter{Tags: []string{"round", "red"}}, []string{"tagged"}},
			"another tag":  {management.JobFilter{Tags: []string{"red", "blue"}}, []string{}},
			"IDs":          {management.JobFilter{IDs: []string{"plain", "failed*", "gone"}}, []string{"failed*", "plain"}},
			"pattern":      {management.JobFilter{IDPattern: "*l*d*"}, []string{"failed*", "scheduled"}},
			"error":        {management.JobFilter{Error: "general error"}, []string{"failed*"}},
			"another case": {management.JobFilter{Error: "General error"}, []string{"failed*"}},
			"ID part":      {management.JobFilter{IDPart: "LED"}, []string{"failed*", "scheduled"}},
			"type part":    {management.JobFilter{TypePart: "ET"}, []string{"failed*", "tagged"}},
			"tag part":     {management.JobFilter{TagPart: "OUN"}, []string{"tagged"}},
			"two parts":    {management.JobFilter{IDPart: "AI", TypePart: "LPH"}, []string{"plain"}},
			"scope":        {management.JobFilter{Scope: "ledger"}, []string{"scheduled"}},
			"created":      {management.JobFilter{Created: management.TimeRange{From: start.Add(-time.Minute)}}, all},
			"created then": {management.JobFilter{Created: management.TimeRange{To: start.Add(-time.Minute)}}, []string{}},
			"due":          {management.JobFilter{Due: management.TimeRange{From: start.Add(time.Minute)}}, []string{"scheduled"}},
			"ended":        {management.JobFilter{Ended: management.TimeRange{From: start.Add(-time.Minute), To: inAnHour()}}, []string{"failed*", "plain", "tagged"}},
		} {
			assert.Equal(f, test.want, f.found(test.filter), name)
		}
	})
}

func TestPagesOfJobs(t *testing.T) {
	inspectEach(t, []view{ofQueue}, func(f *inspected) {
		for _, id := range []string{"a", "b", "c"} {
			f.put(newTask(id, "alpha"))
		}
		f.wait("a", "b", "c")
		for newest, want := range map[bool][]string{false: {"a", "b"}, true: {"c", "b"}} {
			page, err := f.FindJobs(f.ctx, management.JobFilter{}, management.PageRequest{Limit: 2, Newest: newest})
			require.NoError(f, err)
			require.Len(f, page.Jobs, 2)
			assert.Equal(f, want, []string{page.Jobs[0].ID, page.Jobs[1].ID})
			require.NotEmpty(f, page.Next)

			// A cursor of one list is invalid in another.
			for _, other := range []management.PageRequest{{Cursor: page.Next, Newest: !newest}} {
				_, err = f.FindJobs(f.ctx, management.JobFilter{}, other)
				f.refusedFor("cursor", err)
			}
			_, err = f.FindJobs(f.ctx, management.JobFilter{Types: []string{"alpha"}}, management.PageRequest{Cursor: page.Next, Newest: newest})
			f.refusedFor("cursor", err)
		}
		count, err := f.CountJobs(f.ctx, management.JobFilter{}, 2)
		require.NoError(f, err)
		assert.Equal(f, management.Count{Count: 2, More: true}, count)
		count, err = f.CountJobs(f.ctx, management.JobFilter{}, 3)
		require.NoError(f, err)
		assert.Equal(f, management.Count{Count: 3}, count)
	})
}

// refusedFor checks that an error names a field.
func (f *inspected) refusedFor(field string, err error) {
	f.Helper()
	var argument *management.InvalidArgumentError
	require.ErrorAs(f, err, &argument)
	assert.Equal(f, field, argument.Field, "%v", err)
}

func TestSummary(t *testing.T) {
	inspectEach(t, []view{ofQueue}, func(f *inspected) {
		deadline := time.Now().Add(2 * time.Hour).Truncate(time.Millisecond)
		due := deadline.Add(-time.Hour)
		j := newTask("summed up", "alpha")
		j.SetTags([]string{"red"})
		j.SetPriority(3)
		j.SetTimeInfo(amboy.JobTimeInfo{WaitUntil: due, DispatchBy: deadline})
		j.UpdateRetryInfo(amboy.JobRetryOptions{Retryable: new(true), MaxAttempts: new(4)})
		f.put(j)
		found, err := f.FindJobs(f.ctx, management.JobFilter{}, management.PageRequest{})
		require.NoError(f, err)
		require.Len(f, found.Jobs, 1)
		s := found.Jobs[0]
		assert.WithinDuration(f, time.Now(), s.Created, time.Minute)
		assert.WithinDuration(f, due, s.Due, time.Millisecond)
		assert.WithinDuration(f, deadline, s.Deadline, time.Millisecond)
		s.Created, s.Due, s.Deadline = time.Time{}, time.Time{}, time.Time{}
		assert.Equal(f, management.JobSummary{
			JobRef: management.JobRef{Queue: f.name, ID: "summed up"}, Type: "alpha", State: amboy.StateScheduled, Priority: 3,
			Tags: []string{"red"}, MaxAttempts: 4,
		}, s)
	})
}

func TestListedJobsHaveTheirArgumentsIfAsked(t *testing.T) {
	inspectEach(t, allViews, func(f *inspected) {
		f.failAs("short", "alpha", "broken")
		if !f.stored {
			f.Skip("the queue holds the jobs themselves")
		}
		long := newTask("long", "alpha")
		long.Key = strings.Repeat("a", management.MaxListedArgs)
		f.put(long)
		f.wait("long")
		filter := management.JobFilter{Queues: []string{f.name}, IDs: []string{"short", "long"}}
		page, err := f.FindJobs(f.ctx, filter, management.PageRequest{Args: true})
		require.NoError(f, err)
		require.Len(f, page.Jobs, 2)
		whole, err := f.Job(f.ctx, f.name, "short")
		require.NoError(f, err)
		assert.JSONEq(f, string(whole.Args), string(page.Jobs[0].Args))
		assert.Empty(f, page.Jobs[1].Args)
		assert.Contains(f, page.Jobs[1].ArgsHidden, "bytes")
		page, err = f.FindJobs(f.ctx, filter, management.PageRequest{})
		require.NoError(f, err)
		for _, j := range page.Jobs {
			assert.Empty(f, j.Args)
			assert.Empty(f, j.ArgsHidden)
		}
	})
}

func TestRunIsOfTheLatestAttempt(t *testing.T) {
	now := time.Now()
	started := now.Add(-time.Minute)
	for _, test := range []struct {
		job  management.JobSummary
		want time.Duration
	}{
		{management.JobSummary{State: amboy.StatePending}, 0},
		{management.JobSummary{State: amboy.StateRunning, Started: started}, time.Minute},
		{management.JobSummary{State: amboy.StateFailed, Started: started, Ended: started.Add(time.Second)}, time.Second},
		{management.JobSummary{State: amboy.StateFailed, Started: started, Ended: started.Add(-time.Second)}, 0}, // the clock jumped
		{management.JobSummary{State: amboy.StatePending, Started: started}, 0},                                  // handed back
	} {
		assert.Equal(t, test.want, test.job.Run(now), "%+v", test.job)
	}
}
