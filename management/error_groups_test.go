package management_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/management"
)

// failAs puts and runs a job that fails with an error.
func (f *inspected) failAs(id, jobType, message string) {
	f.Helper()
	f.put(doing(f.T, id, jobType, func(_ context.Context, j *task) { j.AddError(errors.New(message)) }))
	f.wait(id)
}

var onlyFailed = management.JobFilter{States: []amboy.JobState{amboy.StateFailed}}

func TestErrorsAreGroupedByFoldedMessage(t *testing.T) {
	inspectEach(t, allViews, func(f *inspected) {
		for n := range 3 {
			f.failAs(fmt.Sprint("page-", n), "alpha", fmt.Sprintf("reading page %d of table \"t%d\": reset", n, n))
		}
		f.failAs("other", "beta", "reading page 99 of table 'x': reset")
		f.failAs("like", "beta", "reading page 3 of table \"t\x001\": reset by peer")
		groups, err := f.ErrorGroups(f.ctx, management.ErrorGroupRequest{Filter: onlyFailed})
		require.NoError(f, err)
		require.Len(f, groups.Groups, 3, "%+v", groups)
		assert.Equal(f, 5, groups.Examined)
		assert.Empty(f, groups.Next)
		first := groups.Groups[0]
		assert.Equal(f, `reading page # of table "#": reset`, first.Message)
		assert.Equal(f, 3, first.Jobs)
		assert.Equal(f, []string{"alpha"}, first.Types)
		assert.Equal(f, "page-2", first.Sample.ID)
		assert.Contains(f, first.Sample.Error, "page 2")
		assert.False(f, first.First.IsZero())
		assert.False(f, first.Last.Before(first.First))

		one, err := f.ErrorGroups(f.ctx, management.ErrorGroupRequest{Filter: onlyFailed, Limit: 1})
		require.NoError(f, err)
		assert.Len(f, one.Groups, 1)
		assert.Equal(f, 2, one.MoreGroups)

		for _, group := range groups.Groups {
			filter := onlyFailed
			filter.ErrorGroup = group.Message
			counted, errCount := f.CountJobs(f.ctx, filter, 10)
			require.NoError(f, errCount)
			assert.Equal(f, group.Jobs, counted.Count, "%q", group.Message)
			page, errFind := f.FindJobs(f.ctx, filter, management.PageRequest{})
			require.NoError(f, errFind)
			assert.Len(f, page.Jobs, group.Jobs, "%q", group.Message)
		}
		pasted := management.JobFilter{ErrorGroup: `reading page 7 of table "t7": reset`}
		count, err := f.CountJobs(f.ctx, pasted, 2)
		require.NoError(f, err)
		assert.Equal(f, management.Count{Count: 2, More: true}, count)
	})
}

// Retrying a group retries its jobs and no others, although the store finds more.
func TestAnActionOnAGroupOfErrorsChangesNoOtherJob(t *testing.T) {
	inspectEach(t, allViews, func(f *inspected) {
		for n := range 3 {
			f.failAs(fmt.Sprint("page-", n), "alpha", fmt.Sprintf("reading page %d", n))
		}
		f.failAs("other", "alpha", "not reading page 1")
		req := management.ActRequest{
			Action: management.Action{Kind: management.Delete}, Filter: management.JobFilter{ErrorGroup: "reading page #"}, Limit: 100, DryRun: true,
		}
		would, err := f.Act(f.ctx, req)
		require.NoError(f, err)
		assert.Equal(f, management.Acted{Done: 3, States: management.StateCounts{Failed: 3}}, would)
		would.States = management.StateCounts{}
		req.DryRun = false
		did, err := f.Act(f.ctx, req)
		require.NoError(f, err)
		assert.Equal(f, would, did)
		assert.Equal(f, amboy.StateFailed, f.state("other"))
		assert.Len(f, f.infos(), 1)
	})
}

// A job's message is text of others: it may be long, have no words, or look like a pattern.
func TestHostileMessagesAreGrouped(t *testing.T) {
	inspectEach(t, allViews, func(f *inspected) {
		messages := []string{
			strings.Repeat("x1 ", 350_000), "\x1b[31m<script>alert('1a')</script>\x00", "\xff\xfe bad 12", "\x00 \t", "(a+)+$ %_*?[", "\u202eabc 7",
		}
		for n, message := range messages {
			f.failAs(fmt.Sprint("job-", n), "alpha", message)
		}
		groups, err := f.ErrorGroups(f.ctx, management.ErrorGroupRequest{Filter: onlyFailed})
		require.NoError(f, err)
		require.Len(f, groups.Groups, len(messages))
		for _, group := range groups.Groups {
			assert.LessOrEqual(f, len(group.Sample.Error), management.MaxFilterBytes+len("…"))
			count, err := f.CountJobs(f.ctx, management.JobFilter{ErrorGroup: group.Message}, 10)
			require.NoError(f, err)
			assert.Equal(f, 1, count.Count, "%q", group.Message)
		}
	})
}

func TestErrorGroupsRefuseBadInput(t *testing.T) {
	inspectEach(t, allViews, func(f *inspected) {
		for field, req := range map[string]management.ErrorGroupRequest{
			"limit":       {Limit: management.MaxLimit + 1},
			"error_group": {Filter: management.JobFilter{ErrorGroup: strings.Repeat("x", management.MaxFilterBytes+1)}},
			"cursor":      {Cursor: "x"},
		} {
			_, err := f.ErrorGroups(f.ctx, req)
			var invalid *management.InvalidArgumentError
			require.ErrorAs(f, err, &invalid)
			assert.Equal(f, field, invalid.Field)
		}
	})
}
