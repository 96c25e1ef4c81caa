package management_test

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/internal/outsidetest"
	"github.com/mongodb/amboy/management"
	"github.com/mongodb/amboy/outside"
	"github.com/mongodb/amboy/queue"
)

// A worker whose lease was longer than the lock timeout of the queues, a minute by default, was shown as not
// responding after that, and its jobs were selected with those of stopped processes.
func TestAnOutsideWorkerWithALongLeaseWasTakenForDead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, jobType := t.Context(), t.Name()
		g := outsidetest.StartGroup(t, queue.DriverQueueOptions{Driver: outsidetest.Memory(t), CloseDriver: true}, outside.Options{})
		defer g.Close()
		inspector, err := management.NewGroupInspector(g.Queues)
		require.NoError(t, err)
		_, err = inspector.CreateJob(ctx, management.NewJob{
			Queue: "images", ID: "one", Type: jobType, JobOptions: management.JobOptions{Outside: true},
		})
		require.NoError(t, err)
		leased, err := g.Dispatcher.Lease(ctx, outside.LeaseRequest{
			Queues: []string{"images"}, Types: []string{jobType}, Lease: time.Hour, Worker: "python",
		})
		require.NoError(t, err)
		require.Len(t, leased, 1)
		q, err := g.Queues.Get(ctx, "images")
		require.NoError(t, err)

		time.Sleep(50 * time.Minute) // fake time
		assert.True(t, isAlive(t, inspector, "python"))
		stale, err := management.NewQueueManager(q).JobIDsByState(ctx, jobType, management.Stale)
		require.NoError(t, err)
		assert.Empty(t, stale)
		time.Sleep(15 * time.Minute)
		assert.False(t, isAlive(t, inspector, "python"), "its lease has run out")
	})
}

// isAlive reports whether an outside worker is among the processes, and alive.
func isAlive(t *testing.T, inspector management.Inspector, worker string) bool {
	t.Helper()
	processes, err := inspector.Processes(t.Context())
	require.NoError(t, err)
	return slices.ContainsFunc(processes, func(p management.Process) bool { return strings.HasSuffix(p.ID, "/"+worker) && p.Alive })
}
