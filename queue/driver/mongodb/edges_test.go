package mongodb_test

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/event"
	"go.mongodb.org/mongo-driver/mongo"

	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/mongodb"
)

// beforeDependents returns a process that calls a function once, when it is about to find the
// dependents of jobs that have ended. It does so from when the result is set to true.
func (s *store) beforeDependents(call func()) (driver.Driver, *atomic.Bool) {
	s.Helper()
	var armed atomic.Bool
	opts := *s.options
	opts.SetMonitor(&event.CommandMonitor{Started: func(_ context.Context, e *event.CommandStartedEvent) {
		_, err := e.Command.LookupErr("filter", "line.edges", "$in") // a sweep sends other filters
		if err == nil && e.CommandName == "find" && armed.Swap(false) {
			call()
		}
	}})
	client, err := mongo.Connect(s.Context(), &opts)
	require.NoError(s, err)
	s.Cleanup(func() { assert.NoError(s, client.Disconnect(context.Background())) })
	return s.open(func(o *mongodb.Options) { o.Client = client }), &armed
}

// fail claims the only job that is ready, and ends it as failed.
func fail(t *testing.T, d driver.Driver, name string) {
	t.Helper()
	claimed := claimAll(t, d, request("owner", 5, "queue"))
	require.Equal(t, []string{name}, names(claimed))
	claimed[0].Status.ErrorCount = 1
	endAll(t, d, claimed...)
}

func TestAJobWhoseDependentsHadNotBeenReleasedWasNotRetried(t *testing.T) {
	for _, kind := range []driver.ActionKind{driver.Restart, driver.Delete} {
		t.Run(string(kind), func(t *testing.T) {
			inFakeTime(t, func(t *testing.T) {
				s := newStore(t)
				other := s.open()
				var done int
				d, armed := s.beforeDependents(func() { done = actOn(t, other, "pay", driver.Action{Kind: kind}).Done })
				insert(t, other, plainRecord("pay"), plainRecord("ship", dependsOn("pay")))
				armed.Store(true)
				fail(t, d, "queue.pay")
				require.False(t, armed.Load())
				assert.Equal(t, 1, done)

				ship, err := d.Get(t.Context(), "queue", "ship")
				require.NoError(t, err)
				assert.Equal(t, []string{"pay"}, ship.Dependency.Failed)
				ready := []string{"queue.ship"}
				if kind == driver.Restart {
					ready = append(ready, "queue.pay")
				}
				assert.ElementsMatch(t, ready, names(claimAll(t, d, request("owner", 5, "queue"))))
			})
		})
	}
}

// A process that is slow to release the dependents of a job that failed does so after the job and
// a dependent were retried.
func TestADependentOfARetriedJobWasReleasedForItsEarlierFailure(t *testing.T) {
	inFakeTime(t, func(t *testing.T) {
		restart := driver.Action{Kind: driver.Restart}
		s := newStore(t)
		other := s.open()
		d, armed := s.beforeDependents(func() {
			require.Equal(t, 1, actOn(t, other, "pay", restart).Done)
			claimed := claimAll(t, other, request("other", 5, "queue"))
			for _, r := range claimed {
				r.Status.ErrorCount = 1
			}
			endAll(t, other, claimed...)
			require.Equal(t, 1, actOn(t, other, "pay", restart).Done)
			require.Equal(t, 1, actOn(t, other, "ship", restart).Done)
		})
		insert(t, other, plainRecord("pay"), plainRecord("ship", dependsOn("pay")))
		armed.Store(true)
		fail(t, d, "queue.pay")
		require.False(t, armed.Load())

		ship, err := d.Get(t.Context(), "queue", "ship")
		require.NoError(t, err)
		assert.Empty(t, ship.Dependency.Failed)
		claimed := claimAll(t, d, request("owner", 5, "queue"))
		require.Equal(t, []string{"queue.pay"}, names(claimed), "the dependent waits for the run to come")
		endAll(t, d, claimed...)
		assert.Equal(t, []string{"queue.ship"}, names(claimAll(t, d, request("owner", 5, "queue"))))
	})
}
