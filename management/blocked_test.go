package management_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/outsidetest"
	"github.com/mongodb/amboy/management"
	"github.com/mongodb/amboy/outside"
	"github.com/mongodb/amboy/queue"
)

// The page of a job that waited for another said that it waited for a limited scope too, and named a job to blame, although
// the scope had room.
func TestAJobWasSaidToWaitForALimitedScopeThatHadRoom(t *testing.T) {
	ctx := t.Context()
	g := outsidetest.StartGroup(t, queue.DriverQueueOptions{Driver: outsidetest.Memory(t), CloseDriver: true}, outside.Options{})
	inspector, err := management.NewGroupInspector(g.Queues)
	require.NoError(t, err)
	create := func(id string, options management.JobOptions) {
		options.Outside = true
		_, err := inspector.CreateJob(ctx, management.NewJob{Queue: "q", ID: id, Type: t.Name(), JobOptions: options})
		require.NoError(t, err)
	}
	lease := func() {
		leased, err := g.Dispatcher.Lease(ctx, outside.LeaseRequest{Queues: []string{"q"}, Types: []string{t.Name()}})
		require.NoError(t, err)
		require.Len(t, leased, 1)
	}
	blockers := func() (names []string) {
		j, err := inspector.Job(ctx, "q", "waiting")
		require.NoError(t, err)
		require.NotNil(t, j.Blocked, j.State)
		for _, by := range j.Blocked.By {
			names = append(names, by.Scope+" "+by.Job.ID)
		}
		return names
	}
	scope := amboy.LimitScope("db", 2)
	limited := management.JobOptions{Scopes: []string{scope}}
	create("running", limited)
	lease()
	create("first", management.JobOptions{})
	create("waiting", management.JobOptions{Scopes: []string{scope}, After: []string{"first"}})
	assert.Equal(t, []string{" first"}, blockers())
	create("running too", limited)
	lease() // first, which came before
	lease()
	assert.Equal(t, []string{" first", scope + " running"}, blockers(), "the scope has no room")
}
