package queue_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/dependency"
	"github.com/mongodb/amboy/queue"
	"github.com/mongodb/amboy/queue/driver"
)

// curious is a dependency manager that calls the queue of its job.
type curious struct {
	dependency.JobEdges
	ask func()
}

func (*curious) Type() dependency.TypeInfo { return dependency.TypeInfo{Name: "curious"} }
func (*curious) State() dependency.State   { return dependency.Ready }

func (c *curious) Edges() []string {
	c.ask()
	return c.JobEdges.Edges()
}

// The queue asked for the edges under its lock.
func TestADependencyThatAskedItsQueueWedgedItWhenItsJobWasRestarted(t *testing.T) {
	q := startLocal(t)
	store, ok := queue.StoreOf(q)
	require.True(t, ok)
	j := newJob(t, "curious", func(_ context.Context, j *funcJob) { j.AddError(errCut) })
	j.SetDependency(&curious{JobEdges: dependency.NewJobEdges(), ask: func() { q.Stats(context.Background()) }})
	put(t, q, j)
	drain(t, q)
	for _, query := range []driver.Query{{}, {Queues: store.Queues(), DependsOn: "none"}} {
		inTime(t, func() {
			_, err := store.Admin().Act(t.Context(), driver.ActRequest{Query: query, Action: driver.Action{Kind: driver.Restart}, Limit: 10})
			assert.NoError(t, err)
		})
	}
	drain(t, q)
}
