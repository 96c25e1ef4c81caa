package management_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/management"
	"github.com/mongodb/amboy/queue"
	"github.com/mongodb/amboy/queue/driver"
)

func TestJobsAreCountedByState(t *testing.T) {
	inspectEach(t, allViews, func(f *inspected) {
		f.failAs("a1", "alpha", "broken")
		f.failAs("a2", "alpha", "broken")
		f.put(newTask("b1", "beta"))
		f.wait("b1")
		counts, err := f.CountStates(f.ctx, management.StateCountRequest{Filter: management.JobFilter{Queues: []string{f.name}}})
		require.NoError(f, err)
		require.Len(f, counts, len(amboy.JobStates()))
		for i, state := range amboy.JobStates() {
			want := map[amboy.JobState]int{amboy.StateFailed: 2, amboy.StateSucceeded: 1}[state]
			assert.Equal(f, management.StateCount{State: state, Count: management.Count{Count: want}}, counts[i])
		}
		counts, err = f.CountStates(f.ctx, management.StateCountRequest{Filter: management.JobFilter{
			Queues: []string{f.name}, Types: []string{"alpha"}, States: []amboy.JobState{amboy.StateSucceeded, amboy.StateFailed},
		}, Most: 1})
		require.NoError(f, err)
		assert.Equal(f, []management.StateCount{
			{State: amboy.StateSucceeded}, {State: amboy.StateFailed, Count: management.Count{Count: 1, More: true}},
		}, counts)
	})
}

// slowCounts is a store that counts slowly in one state.
type slowCounts struct {
	driver.Driver
	slow amboy.JobState
}

func (s slowCounts) Count(ctx context.Context, q driver.Query, limit int) (int, error) {
	if len(q.States) == 1 && q.States[0] == s.slow {
		<-ctx.Done()
		return 7, ctx.Err()
	}
	return s.Driver.Count(ctx, q, limit)
}

func TestCountingStatesEndsInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, err := queue.NewDriverQueue(queue.DriverQueueOptions{Driver: slowCounts{newMemory(t), amboy.StateFailed}, CloseDriver: true, NumWorkers: 1})
		require.NoError(t, err)
		defer q.Close(ended())
		inspector, err := management.NewInspector(q)
		require.NoError(t, err)
		begun := time.Now()
		counts, err := inspector.CountStates(t.Context(), management.StateCountRequest{Within: 100 * time.Millisecond})
		require.NoError(t, err)
		assert.Equal(t, 100*time.Millisecond, time.Since(begun))
		for _, c := range counts {
			want := management.StateCount{State: c.State}
			if c.State == amboy.StateFailed {
				want.Count = management.Count{Count: 7, More: true}
			}
			assert.Equal(t, want, c)
		}
		canceled, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		_, err = inspector.CountStates(canceled, management.StateCountRequest{})
		require.ErrorIs(t, err, context.DeadlineExceeded, "the caller's own deadline is an error")
	})
}
