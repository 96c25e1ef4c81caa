package management_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/outsidetest"
	"github.com/mongodb/amboy/job"
	"github.com/mongodb/amboy/management"
	"github.com/mongodb/amboy/outside"
	"github.com/mongodb/amboy/queue"
)

// The answer was that it was rescheduled, and then it expired without having run. Put refuses such a job.
func TestAJobWasRescheduledToATimeAfterItsDeadline(t *testing.T) {
	ctx := t.Context()
	g := outsidetest.StartGroup(t, queue.DriverQueueOptions{Driver: outsidetest.Memory(t), CloseDriver: true}, outside.Options{})
	i, err := management.NewGroupInspector(g.Queues)
	require.NoError(t, err)
	now := time.Now()
	_, err = i.CreateJob(ctx, management.NewJob{
		Queue: "q", ID: "job", Type: t.Name(), Due: now.Add(time.Hour), Deadline: now.Add(2 * time.Hour), JobOptions: management.JobOptions{Outside: true},
	})
	require.NoError(t, err)
	late := management.Action{Kind: management.Reschedule, At: now.Add(3 * time.Hour)}
	_, err = i.ActOn(ctx, "q", "job", late)
	var state *management.StateError
	require.ErrorAs(t, err, &state)
	assert.Contains(t, state.Error(), "deadline")
	filter := management.JobFilter{Queues: []string{"q"}}
	for _, dryRun := range []bool{true, false} {
		acted, failure := i.Act(ctx, management.ActRequest{Action: late, Filter: filter, Limit: 10, DryRun: dryRun})
		require.NoError(t, failure)
		assert.Equal(t, management.Acted{Skipped: 1}, acted)
	}
	_, err = i.EditJob(ctx, "q", "job", management.JobEdit{Due: &late.At, DryRun: true})
	var invalid *management.InvalidArgumentError
	require.ErrorAs(t, err, &invalid)
	assert.Equal(t, "due", invalid.Field)

	j, err := i.Job(ctx, "q", "job")
	require.NoError(t, err)
	assert.WithinDuration(t, now.Add(time.Hour), j.Due, time.Second)
	assert.Contains(t, j.Actions, management.Reschedule)
	acted, err := i.ActOn(ctx, "q", "job", management.Action{Kind: management.Reschedule, At: j.Deadline})
	require.NoError(t, err)
	assert.Equal(t, 1, acted.Done)
}

// The deadline was in the year 10000, which JSON has no form for: every list with the job was an error.
func TestATimeToLiveEndedInAYearThatCantBeShown(t *testing.T) {
	g := outsidetest.StartGroup(t, queue.DriverQueueOptions{Driver: outsidetest.Memory(t), CloseDriver: true}, outside.Options{})
	i, err := management.NewGroupInspector(g.Queues)
	require.NoError(t, err)
	_, err = i.CreateJob(t.Context(), management.NewJob{
		Queue: "q", Type: t.Name(), Due: time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC),
		JobOptions: management.JobOptions{Outside: true, TimeToLive: management.Duration(48 * time.Hour)},
	})
	var invalid *management.InvalidArgumentError
	require.ErrorAs(t, err, &invalid)
	assert.Equal(t, "time_to_live", invalid.Field)
}

// A program put a job for never. Every list with it was an internal error, and so was its page.
func TestAJobOfAYearThatCantBeShownHidTheOthers(t *testing.T) {
	for _, at := range []time.Time{time.Unix(1<<60, 0), time.Date(-1, 1, 1, 0, 0, 0, 0, time.UTC)} {
		g := outsidetest.StartGroup(t, queue.DriverQueueOptions{Driver: outsidetest.Memory(t), CloseDriver: true}, outside.Options{})
		i, err := management.NewGroupInspector(g.Queues)
		require.NoError(t, err)
		q, err := g.Queues.Get(t.Context(), "q")
		require.NoError(t, err)
		never, err := job.NewOutside(amboy.JobType{Name: t.Name(), Version: 1}, job.Payload{}, job.ID("never"), job.At(at))
		require.NoError(t, err)
		require.NoError(t, q.Put(t.Context(), never))

		page, err := i.FindJobs(t.Context(), management.JobFilter{}, management.PageRequest{})
		require.NoError(t, err)
		_, err = json.Marshal(page)
		require.NoError(t, err)
		one, err := i.Job(t.Context(), "q", "never")
		require.NoError(t, err)
		_, err = json.Marshal(one)
		require.NoError(t, err)
		edited, err := i.EditJob(t.Context(), "q", "never", management.JobEdit{Due: new(time.Now())})
		require.NoError(t, err)
		assert.Len(t, edited.Changes, 1)
	}
}
