package management_test

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/management"
	"github.com/mongodb/amboy/queue"
)

// wider maps a queue to a function that makes an inspector of its group or its database.
var wider sync.Map

// view is one way to inspect a queue.
type view struct {
	name string
	// of reports whether the view exists for a kind of queue.
	of   func(kind) bool
	make func(t *testing.T, q amboy.Queue) management.Inspector
}

var (
	ofQueue = view{"queue", byDefault, func(t *testing.T, q amboy.Queue) management.Inspector {
		i, err := management.NewInspector(q)
		require.NoError(t, err)
		return i
	}}
	ofManager = view{"manager", byDefault, func(t *testing.T, q amboy.Queue) management.Inspector {
		i, ok := management.NewQueueManager(q).(management.Inspector)
		require.True(t, ok)
		return i
	}}
	ofGroup = view{"group", func(k kind) bool { return k.wider && byDefault(k) }, func(t *testing.T, q amboy.Queue) management.Inspector {
		open, ok := wider.Load(q)
		require.True(t, ok)
		return open.(func(*testing.T) management.Inspector)(t)
	}}
)

// allViews are all ways to inspect a queue.
var allViews = []view{ofQueue, ofManager, ofGroup, ofDatabase, ofClient}

// inspected is a fixture with an inspector.
type inspected struct {
	*fixture
	management.Inspector
	// name is the name of the queue in the inspector.
	name string
}

// inspectEach runs a test with each of the views, on each kind of queue that the view
// supports.
func inspectEach(t *testing.T, views []view, test func(*inspected)) {
	t.Helper()
	for _, v := range views {
		t.Run(v.name, func(t *testing.T) {
			onSelected(t, v.of, func(f *fixture) {
				if _, ok := queue.StoreOf(f.queue); !ok {
					f.Skip("a queue of another package has no inspector")
				}
				test(newInspected(f, v))
			})
		})
	}
}

func newInspected(f *fixture, v view) *inspected {
	store, ok := queue.StoreOf(f.queue)
	require.True(f, ok)
	name := store.Queues()[0]
	if v.name == ofGroup.name {
		name = "tenant.one" // the ID of a queue by reference is another
	}
	return &inspected{fixture: f, Inspector: v.make(f.T, f.queue), name: name}
}

// job returns the description of a job.
func (f *inspected) job(id string) management.Job {
	f.Helper()
	job, err := f.Job(f.ctx, f.name, id)
	require.NoError(f, err)
	return job
}

// states returns the states of all jobs.
func (f *inspected) states() map[string]amboy.JobState {
	f.Helper()
	states := map[string]amboy.JobState{}
	page := management.PageRequest{Limit: 3}
	for {
		found, err := f.FindJobs(f.ctx, management.JobFilter{Queues: []string{f.name}}, page)
		require.NoError(f, err)
		for _, j := range found.Jobs {
			require.Equal(f, f.name, j.Queue)
			require.NotContains(f, states, j.ID)
			states[j.ID] = j.State
		}
		if found.Next == "" {
			return states
		}
		page.Cursor = found.Next
	}
}

func inAnHour() time.Time { return time.Now().Add(time.Hour) }
