package rest_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/dependency"
	"github.com/mongodb/amboy/management"
	"github.com/mongodb/amboy/queue"
	"github.com/mongodb/amboy/queue/driver/memory"
)

// queues are the names of the queues of a world: a plain one, and ones hard to encode in a path.
var queues = []string{"orders", "_tenant", "a/b ü"}

// newWorld returns an inspector of a group of queues in memory, each with jobs in all states
// that it supports.
func newWorld(t testing.TB) management.Inspector {
	store, err := memory.New(memory.Options{KeepFinished: 100_000})
	require.NoError(t, err)
	group, err := queue.NewDriverGroup(context.Background(), queue.DriverGroupOptions{
		DefaultQueue: queue.DriverQueueOptions{Driver: store, CloseDriver: true, NumWorkers: 1},
	})
	require.NoError(t, err)
	t.Cleanup(func() {
		ended, cancel := context.WithCancel(context.Background())
		cancel()
		assert.NoError(t, group.Close(ended))
	})
	inspector, err := management.NewGroupInspector(group)
	require.NoError(t, err)
	for _, name := range queues {
		populate(t, group, inspector, name)
	}
	return inspector
}

func populate(t testing.TB, group amboy.QueueGroup, inspector management.Inspector, name string) {
	ctx := within(t)
	q, err := group.Get(ctx, name)
	require.NoError(t, err)
	path := t.Name() + "/" + name
	failed, panicked := newResize("failed", path+"/failed"), newResize("panicked", path+"/panicked")
	runs.Store(failed.Path, func(_ context.Context, j *resize) { j.AddError(errors.New("it failed")) })
	runs.Store(panicked.Path, func(context.Context, *resize) { panic("it panicked") })
	require.NoError(t, q.PutMany(ctx, []amboy.Job{newResize("succeeded", ""), failed, panicked}))
	for _, id := range []string{"succeeded", "failed", "panicked"} {
		require.True(t, amboy.WaitJob(ctx, newResize(id, ""), q))
	}
	began := make(chan struct{})
	running := newResize("running", path+"/running")
	runs.Store(running.Path, func(ctx context.Context, _ *resize) {
		close(began)
		<-ctx.Done()
	})
	running.SetScopes([]string{"ledger"})
	require.NoError(t, q.Put(ctx, running))
	<-began

	scheduled, blocked, dependent := newResize("scheduled", ""), newResize("blocked", ""), newResize("dependent", "")
	scheduled.SetTimeInfo(amboy.JobTimeInfo{WaitUntil: time.Now().Add(time.Hour)})
	blocked.SetScopes([]string{"ledger"})
	waits := dependency.NewAlways()
	require.NoError(t, waits.AddEdge("scheduled"))
	dependent.SetDependency(waits)
	require.NoError(t, q.PutMany(ctx, []amboy.Job{newResize("pending", ""), newResize("parked", ""), newResize("canceled", ""), scheduled, blocked, dependent}))
	for id, kind := range map[string]management.ActionKind{"parked": management.Park, "canceled": management.Cancel} {
		acted, err := inspector.ActOn(ctx, name, id, management.Action{Kind: kind})
		require.NoError(t, err)
		require.Equal(t, 1, acted.Done)
	}
	for _, id := range odd {
		require.NoError(t, q.Put(ctx, newResize(id, "")))
	}
}
