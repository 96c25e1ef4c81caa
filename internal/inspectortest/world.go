package inspectortest

import (
	"context"
	"errors"
	"net/http/httptest"
	"strings"
	"sync"
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

// Queues are the names of the queues of a world: a plain one, and ones hard to encode in a path.
var Queues = []string{"orders", "_tenant", "a/b ü"}

// NewWorld returns an inspector of a group of queues in memory, each with jobs in all states
// that it supports.
func NewWorld(t testing.TB) management.Inspector {
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
	for _, name := range Queues {
		populate(t, group, inspector, name)
	}
	return inspector
}

func populate(t testing.TB, group amboy.QueueGroup, inspector management.Inspector, name string) {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(cancel)
	q, err := group.Get(ctx, name)
	require.NoError(t, err)
	path := t.Name() + "/" + name
	failed, panicked := NewResize("failed", path+"/failed"), NewResize("panicked", path+"/panicked")
	Runs.Store(failed.Path, func(_ context.Context, j *Resize) { j.AddError(errors.New("it failed")) })
	Runs.Store(panicked.Path, func(context.Context, *Resize) { panic("it panicked") })
	require.NoError(t, q.PutMany(ctx, []amboy.Job{NewResize("succeeded", ""), failed, panicked}))
	for _, id := range []string{"succeeded", "failed", "panicked"} {
		require.True(t, amboy.WaitJob(ctx, NewResize(id, ""), q))
	}
	began := make(chan struct{})
	begin := sync.OnceFunc(func() { close(began) })
	running := NewResize("running", path+"/running")
	Runs.Store(running.Path, func(ctx context.Context, _ *Resize) {
		begin()
		<-ctx.Done()
	})
	running.SetScopes([]string{"ledger"})
	require.NoError(t, q.Put(ctx, running))
	<-began

	scheduled, blocked, dependent := NewResize("scheduled", ""), NewResize("blocked", ""), NewResize("dependent", "")
	scheduled.SetTimeInfo(amboy.JobTimeInfo{WaitUntil: time.Now().Add(time.Hour)})
	blocked.SetScopes([]string{"ledger"})
	waits := dependency.NewAlways()
	require.NoError(t, waits.AddEdge("scheduled"))
	dependent.SetDependency(waits)
	require.NoError(t, q.PutMany(ctx, []amboy.Job{NewResize("pending", ""), NewResize("parked", ""), NewResize("canceled", ""), scheduled, blocked, dependent}))
	for id, kind := range map[string]management.ActionKind{"parked": management.Park, "canceled": management.Cancel} {
		acted, err := inspector.ActOn(ctx, name, id, management.Action{Kind: kind})
		require.NoError(t, err)
		require.Equal(t, 1, acted.Done)
	}
	for _, id := range OddIDs {
		require.NoError(t, q.Put(ctx, NewResize(id, "")))
	}
}

// OddIDs are IDs that are hard to encode in a path.
var OddIDs = []string{
	"a.b", "a/b", "/a", "a/", "//", "a b", "a+b", "ü", "日本", ".", "..", "...", "%2F", "%", "a?b#c", "{}", "{name}", "a\nb", "\x00", "a;b,c", "create", "status", "wait", `"`, "<script>",
	strings.Repeat("é", amboy.MaxIDLength/2),
}

// Endless records the first part of an answer that does not end, and calls End after it.
type Endless struct {
	*httptest.ResponseRecorder
	End func()
}

// Flush implements http.Flusher.
func (e *Endless) Flush() {
	e.ResponseRecorder.Flush()
	if e.Body.Len() > 0 {
		e.End()
	}
}
