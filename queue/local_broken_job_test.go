package queue_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/dependency"
	"github.com/mongodb/amboy/queue"
	"github.com/mongodb/amboy/queue/driver"
)

// startAdministered returns a started local queue of one worker, with its driver.Admin.
func startAdministered(t *testing.T) administered {
	t.Helper()
	q := queue.NewLocalLimitedSize(1, 10)
	t.Cleanup(func() { q.Close(context.Background()) })
	return administer(t, q)
}

// The queue called the methods of the job with its lock, and waited for that lock when they failed.
func TestAJobThatBrokeWhenItsCancelTookEffectWedgedItsQueue(t *testing.T) {
	for name, exits := range map[string]bool{"panic": false, "exit": true} {
		t.Run(name, func(t *testing.T) {
			a := startAdministered(t)
			j := newBrittle(t, "")
			j.exits = exits
			dependency.RegisterCheck(t.Name(), func() dependency.CheckFunc {
				return func([]string) dependency.State {
					_, err := a.admin.Act(t.Context(), driver.ActRequest{Query: a.all(), Action: driver.Action{Kind: driver.Cancel}, Limit: 1})
					if err != nil {
						t.Error(err)
					}
					j.breaks.Store("Status")
					return dependency.Blocked
				}
			})
			j.SetDependency(dependency.NewCheckManager(t.Name()))
			put(t, a.queue, j)
			inTime(t, func() { drain(t, a.queue) })
			assert.Equal(t, amboy.QueueStats{Completed: 1, Total: 1}, a.queue.Stats(t.Context()))
		})
	}
}

// Its end had begun, so that the end of its run was refused.
func TestAJobThatBrokeWhenItWasCompletedBeforeItsStartRanForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := startLocal(t)
		require.NoError(t, amboy.Pause(t.Context(), q))
		j := newBrittle(t, "")
		put(t, q, j)
		j.breaks.Store("Status")
		require.NoError(t, q.Complete(t.Context(), j))
		j.breaks.Store("")
		require.NoError(t, amboy.Resume(t.Context(), q))
		drain(t, q)
		assert.Equal(t, amboy.QueueStats{Completed: 1, Total: 1}, q.Stats(t.Context()))
	})
}

func TestABrokenJobKeptOthersFromBeingCanceled(t *testing.T) {
	for name, exits := range map[string]bool{"panic": false, "exit": true} {
		t.Run(name, func(t *testing.T) {
			a := startAdministered(t)
			_, cancel, err := amboy.Subscribe(a.queue, 10)
			require.NoError(t, err)
			defer cancel()
			running, started, _ := holder(t, "running")
			put(t, a.queue, running)
			<-started
			broken, last := newBrittle(t, ""), noop(t, "last")
			broken.exits = exits
			put(t, a.queue, broken, last)
			broken.breaks.Store("Status")
			inTime(t, func() {
				assert.Equal(t, driver.Acted{Done: 3}, a.act(a.all(), driver.Action{Kind: driver.Cancel}))
				drain(t, a.queue)
			})
			assert.Equal(t, amboy.QueueStats{Completed: 3, Total: 3}, a.queue.Stats(t.Context()))
		})
	}
}

func TestABrokenJobKeptOthersFromBeingFoundByAnOperator(t *testing.T) {
	a := startAdministered(t)
	require.NoError(t, amboy.Pause(t.Context(), a.queue))
	j := newBrittle(t, "")
	put(t, a.queue, noop(t, "first"), j, noop(t, "last"))
	j.breaks.Store("Status")

	pending := amboy.JobQuery{States: []amboy.JobState{amboy.StatePending}}
	var found []string
	var failure error
	for info, err := range amboy.FindJobs(t.Context(), a.queue, pending) {
		found, failure = append(found, info.ID), err
	}
	assert.Equal(t, []string{"first", "last", ""}, found)
	var panicked *amboy.PanicError
	require.ErrorAs(t, failure, &panicked)
	_, err := amboy.CountJobs(t.Context(), a.queue, pending)
	require.ErrorAs(t, err, &panicked)

	query := a.all()
	query.States = pending.States
	assert.Equal(t, []string{"first", "last"}, idsOf(a.find(query, driver.PageRequest{Limit: 1})))
	n, err := a.admin.Count(t.Context(), query, 10)
	require.NoError(t, err)
	assert.Equal(t, 2, n)
	_, err = a.admin.Get(t.Context(), a.name, j.ID())
	require.ErrorAs(t, err, &panicked)
	assert.Equal(t, driver.Acted{Done: 2}, a.act(query, driver.Action{Kind: driver.Prioritize, Priority: 1}))
}
