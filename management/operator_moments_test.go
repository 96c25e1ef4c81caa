package management_test

import (
	"context"
	"fmt"
	"slices"
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

// An operator's retry runs the same attempt again. The timeline keeps the first start, and says
// who retried.
func TestTimelineAfterARetryLostTheFirstStart(t *testing.T) {
	q := openSQLite(t)
	i, err := management.NewInspector(q)
	require.NoError(t, err)
	_, err = post.Put(t.Context(), q, letter{}, job.ID("letter"))
	require.NoError(t, err)
	_, err = post.Put(t.Context(), q, letter{}, job.ID("other"))
	require.NoError(t, err)
	_, _ = post.Wait(t.Context(), q, "letter") // fails
	_, _ = post.Wait(t.Context(), q, "other")
	first, err := i.Job(t.Context(), "", "letter")
	require.NoError(t, err)
	require.Equal(t, []string{"created", "started", "error", "failed"}, whats(first.Timeline))

	ada, bob := management.WithActor(t.Context(), "ada"), management.WithActor(t.Context(), "bob")
	_, err = i.ActOn(ada, "", "letter", management.Action{Kind: management.Retry})
	require.NoError(t, err)
	_, _ = post.Wait(t.Context(), q, "letter")
	_, err = i.ActOn(ada, "", "other", management.Action{Kind: management.Retry})
	require.NoError(t, err)
	_, _ = post.Wait(t.Context(), q, "other")
	_, err = i.Act(bob, management.ActRequest{
		Action: management.Action{Kind: management.Retry}, Limit: 10,
		Filter: management.JobFilter{States: []amboy.JobState{amboy.StateFailed}, TypePart: "pos"},
	})
	require.NoError(t, err)
	_, _ = post.Wait(t.Context(), q, "letter")
	_, _ = post.Wait(t.Context(), q, "other")
	_, err = i.Act(bob, management.ActRequest{
		Action: management.Action{Kind: management.Retry}, Limit: 10, Filter: management.JobFilter{IDs: []string{"other"}},
	})
	require.NoError(t, err)
	_, _ = post.Wait(t.Context(), q, "other")

	last, err := i.Job(t.Context(), "", "letter")
	require.NoError(t, err)
	// Runs that follow within a millisecond are shown in any order, and with one start.
	withoutStarts := slices.DeleteFunc(whats(last.Timeline), func(what string) bool { return what == "started" })
	assert.ElementsMatch(t, []string{"created", "error", "retry", "error", "retry", "error", "failed"}, withoutStarts)
	retries := map[string]string{}
	isShown := false
	for _, m := range last.Timeline {
		isShown = isShown || m.What == "started" && m.Time.Sub(first.Started).Abs() < time.Millisecond
		if m.What == "retry" {
			retries[m.Actor] = m.Detail
		}
	}
	assert.True(t, isShown, "the first start")
	assert.Equal(t, map[string]string{"ada": "", "bob": "with 2 jobs that a filter selected"}, retries)
}

// blocking makes the job "holder" hold a scope, until the returned channel is closed, for which the job
// "waits" waits.
func blocking(t *testing.T, q amboy.Queue) (end chan struct{}) {
	t.Helper()
	began := make(chan struct{})
	end = make(chan struct{})
	holder := doing(t, "holder", "alpha", func(context.Context, *task) { close(began); <-end })
	holder.SetScopes([]string{"printer"})
	require.NoError(t, q.Put(t.Context(), holder))
	<-began
	waits := newTask("waits", "alpha")
	waits.SetScopes([]string{"printer"})
	require.NoError(t, q.Put(t.Context(), waits))
	return end
}

func TestBlockedSinceAndByWhat(t *testing.T) {
	q := openSQLite(t)
	i, err := management.NewInspector(q)
	require.NoError(t, err)
	end := blocking(t, q)
	after := newTask("after", "alpha")
	require.NoError(t, after.Dependency().AddEdge("waits"))
	require.NoError(t, q.Put(t.Context(), after))

	j, err := i.Job(t.Context(), "", "waits")
	require.NoError(t, err)
	require.NotNil(t, j.Blocked)
	assert.WithinDuration(t, j.Created, j.Blocked.Since, 0)
	held, err := i.Job(t.Context(), "", "holder")
	require.NoError(t, err)
	assert.Equal(t, []management.Blocker{{Scope: "printer", Job: &held.JobRef, State: amboy.StateRunning, Since: held.Started}}, j.Blocked.By)
	assert.Nil(t, held.Blocked)
	j, err = i.Job(t.Context(), "", "after")
	require.NoError(t, err)
	require.NotNil(t, j.Blocked)
	assert.Equal(t, []management.Blocker{{Job: &management.JobRef{ID: "waits"}, State: amboy.StateBlocked}}, j.Blocked.By)
	close(end)
	require.True(t, amboy.Wait(t.Context(), q))
	j, err = i.Job(t.Context(), "", "waits")
	require.NoError(t, err)
	assert.Nil(t, j.Blocked)
}

// The timeline of a blocked job said that it was blocked at the present time, at each look, while the
// same page said since when.
func TestTimelineSaidThatAJobIsBlockedOnlyNow(t *testing.T) {
	q := openSQLite(t)
	i, err := management.NewInspector(q)
	require.NoError(t, err)
	defer close(blocking(t, q))

	j, err := i.Job(t.Context(), "", "waits")
	require.NoError(t, err)
	require.Equal(t, []string{"created", "blocked"}, whats(j.Timeline))
	assert.WithinDuration(t, j.Blocked.Since, j.Timeline[1].Time, 0)

	_, err = i.ActOn(t.Context(), "", "waits", management.Action{Kind: management.Park, Reason: "not today"})
	require.NoError(t, err)
	parked := auditOf(t, i)[0].Time
	j, err = i.Job(t.Context(), "", "waits")
	require.NoError(t, err)
	require.Equal(t, "parked", j.Timeline[len(j.Timeline)-1].What)
	assert.WithinDuration(t, parked, j.Timeline[len(j.Timeline)-1].Time, 0)
}

// The timeline of a job that was asked to end said so with the present time, at each look.
func TestTimelineSaidThatAJobWasAskedToEndNow(t *testing.T) {
	q := openSQLite(t)
	i, err := management.NewInspector(q)
	require.NoError(t, err)
	began, end := make(chan struct{}), make(chan struct{})
	require.NoError(t, q.Put(t.Context(), doing(t, "deaf", "alpha", func(context.Context, *task) { close(began); <-end })))
	<-began
	defer close(end)
	_, err = i.ActOn(t.Context(), "", "deaf", management.Action{Kind: management.Cancel, Reason: "enough"})
	require.NoError(t, err)
	canceled := auditOf(t, i)[0].Time
	deaf, err := i.Job(t.Context(), "", "deaf")
	require.NoError(t, err)
	asked := deaf.Timeline[slices.Index(whats(deaf.Timeline), "asked to end")]
	assert.Equal(t, "enough", asked.Detail)
	assert.WithinDuration(t, canceled, asked.Time, 0)
}

// Only the latest actions by filters are compared with a job, and changes of schedules counted as such: then the timeline
// did not say who had canceled the job.
func TestChangesOfSchedulesHidWhoCanceledAJob(t *testing.T) {
	g := outsidetest.StartGroup(t, queue.DriverQueueOptions{Driver: outsidetest.Memory(t), CloseDriver: true}, outside.Options{})
	i, err := management.NewGroupInspector(g.Queues)
	require.NoError(t, err)
	_, err = i.CreateJob(t.Context(), management.NewJob{Queue: "q", ID: "canceled", Type: t.Name(), JobOptions: management.JobOptions{Outside: true}})
	require.NoError(t, err)
	ann := management.WithActor(t.Context(), "ann")
	_, err = i.Act(ann, management.ActRequest{
		Action: management.Action{Kind: management.Cancel}, Filter: management.JobFilter{Queues: []string{"q"}}, Limit: 10,
	})
	require.NoError(t, err)
	spec := management.ScheduleSpec{Every: management.Duration(time.Hour), ScheduledJob: management.ScheduledJob{Type: t.Name(), JobOptions: management.JobOptions{Outside: true}}}
	for n := range 20 {
		_, err = i.(management.ScheduleManager).CreateSchedule(t.Context(), "q", fmt.Sprint("schedule-", n), spec)
		require.NoError(t, err)
	}
	j, err := i.Job(t.Context(), "q", "canceled")
	require.NoError(t, err)
	assert.True(t, slices.ContainsFunc(j.Timeline, func(m management.Moment) bool { return m.What == "cancel" && m.Actor == "ann" }), j.Timeline)
}
