package management_test

import (
	"context"
	"strings"
	"sync/atomic"
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
	"github.com/mongodb/amboy/queue/driver/memory"
)

// The description of a job that waited in a paused queue said only that it was pending.
func TestAPendingJobOfAPausedQueueHadNoReason(t *testing.T) {
	inspectEach(t, allViews, func(f *inspected) {
		_, err := post.Put(f.ctx, f.queue, letter{To: "bob"}, job.In(time.Hour), job.Scopes()) // makes the queue known
		require.NoError(f, err)
		paused := "queue is paused"
		if f.name != "" { // the audit list has the entries of each queue that has a name
			paused += " since " + time.Now().UTC().Format("2006")
		}
		for _, test := range []struct {
			change management.ControlChange
			want   string
		}{
			{management.ControlChange{Paused: new(true)}, paused},
			{management.ControlChange{Paused: new(false), Rate: &amboy.Rate{}}, "the rate of the queue is 0"},
			{
				management.ControlChange{NoRate: true, TypeLimit: &management.TypeLimitChange{
					Type: post.Type().Name, TypeLimit: amboy.TypeLimit{Rate: &amboy.Rate{}},
				}},
				"the rate of type \"" + post.Type().Name + "\" is 0",
			},
		} {
			_, err = f.SetControl(management.WithActor(f.ctx, "ann"), f.name, test.change)
			require.NoError(f, err)
			id, err := post.Put(f.ctx, f.queue, letter{To: "ann"}, job.Scopes())
			require.NoError(f, err)
			reason := f.job(id).Reason
			assert.Contains(f, reason, test.want)
			assert.Equal(f, test.change.Paused != nil && *test.change.Paused && f.name != "", strings.HasSuffix(reason, " by ann"), reason)
			page, err := f.FindJobs(f.ctx, management.JobFilter{States: []amboy.JobState{amboy.StatePending}, IDs: []string{id}}, management.PageRequest{})
			require.NoError(f, err)
			require.Len(f, page.Jobs, 1)
			assert.Equal(f, reason, page.Jobs[0].Reason)
		}
	})
}

// holding is what the jobs of a test do.
var holding atomic.Pointer[func()]

var heldByLimit = job.Define("held by a limit", 1, func(context.Context, string) error {
	(*holding.Load())()
	return nil
})

// The reason said "1 jobs of the queue run".
func TestAPendingJobNamesTheMaximumOfItsQueueOrType(t *testing.T) {
	started, release := make(chan struct{}, 1), make(chan struct{})
	hold := func() {
		started <- struct{}{}
		<-release
	}
	holding.Store(&hold)
	store, err := memory.New(memory.Options{KeepFinished: 10})
	require.NoError(t, err)
	q, err := queue.NewDriverQueue(queue.DriverQueueOptions{Driver: store, CloseDriver: true, NumWorkers: 1})
	require.NoError(t, err)
	defer q.Close(t.Context())
	require.NoError(t, q.Start(t.Context()))
	i, err := management.NewInspector(q)
	require.NoError(t, err)
	_, err = heldByLimit.Put(t.Context(), q, "runs")
	require.NoError(t, err)
	<-started
	defer close(release)

	_, err = heldByLimit.Put(t.Context(), q, "waits", job.ID("waits"))
	require.NoError(t, err)
	reason := func(change management.ControlChange) string {
		_, failure := i.SetControl(t.Context(), "", change)
		require.NoError(t, failure)
		j, failure := i.Job(t.Context(), "", "waits")
		require.NoError(t, failure)
		return j.Reason
	}
	assert.Equal(t, "1 job of the queue runs, which is its maximum", reason(management.ControlChange{MaxRunning: new(1)}))
	limit := &management.TypeLimitChange{Type: heldByLimit.Type().Name, TypeLimit: amboy.TypeLimit{MaxRunning: 1}}
	assert.Equal(t, `1 job of type "held by a limit" runs, which is its maximum`, reason(management.ControlChange{MaxRunning: new(0), TypeLimit: limit}))
	assert.Empty(t, reason(management.ControlChange{TypeLimit: &management.TypeLimitChange{Type: heldByLimit.Type().Name}}))
}

// The reason named the operator who had paused the queue long ago and resumed it, although a program had paused it since.
func TestAPauseByAProgramWasAttributedToAnOperatorWhoHadResumedTheQueue(t *testing.T) {
	g := outsidetest.StartGroup(t, queue.DriverQueueOptions{Driver: outsidetest.Memory(t), CloseDriver: true}, outside.Options{})
	i, err := management.NewGroupInspector(g.Queues)
	require.NoError(t, err)
	_, err = i.CreateJob(t.Context(), management.NewJob{Queue: "q", ID: "waits", Type: t.Name(), JobOptions: management.JobOptions{Outside: true}})
	require.NoError(t, err)
	q, err := g.Queues.Get(t.Context(), "q")
	require.NoError(t, err)
	reason := func() string {
		j, failure := i.Job(t.Context(), "q", "waits")
		require.NoError(t, failure)
		return j.Reason
	}
	ann := management.WithActor(t.Context(), "ann")
	_, err = i.SetControl(ann, "q", management.ControlChange{Paused: new(true)})
	require.NoError(t, err)
	assert.Contains(t, reason(), " by ann")
	_, err = i.SetControl(ann, "q", management.ControlChange{Paused: new(false), Draining: new(false)})
	require.NoError(t, err)
	require.NoError(t, amboy.Pause(t.Context(), q))
	assert.Equal(t, "queue is paused", reason())
	_, err = i.SetControl(ann, "q", management.ControlChange{MaxRunning: new(2)})
	require.NoError(t, err)
	assert.Equal(t, "queue is paused", reason())
}
