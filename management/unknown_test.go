package management_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/presence"
	"github.com/mongodb/amboy/management"
	"github.com/mongodb/amboy/queue"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/memory"
	"github.com/mongodb/amboy/registry"
)

// An operator must see why jobs wait that no process can run.
func TestTypeThatNoLiveProcessKnowsIsShown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		store, err := memory.New(memory.Options{KeepFinished: 100})
		require.NoError(t, err)
		opts := queue.DriverQueueOptions{Driver: store, Name: "q", NumWorkers: 1, LockTimeout: time.Minute}
		old, err := queue.NewDriverQueue(opts)
		require.NoError(t, err)
		defer old.Close(ended())
		require.NoError(t, old.Start(ctx))
		newType := "management: a type of the future, " + rand.Text() // the registry keeps what a run of the test adds
		for _, id := range []string{"one", "two"} {
			putUnknown(t, store, id, newType)
		}
		wait := func(d time.Duration) {
			time.Sleep(d)
			synctest.Wait()
		}
		inspector, err := management.NewInspector(old)
		require.NoError(t, err)
		unknown := func() []management.UnknownJobs {
			t.Helper()
			return unknownIn(t, inspector)
		}
		wait(2 * time.Second)
		kind := management.JobKind{Type: newType, Version: 4}
		assert.Equal(t, []management.UnknownJobs{{JobKind: kind, Jobs: management.Count{Count: 2}}}, unknown())
		assert.Equal(t, fmt.Sprintf("job type %q version 4", newType), unknown()[0].String())
		processes, err := inspector.Processes(ctx)
		require.NoError(t, err)
		require.Len(t, processes, 1)
		assert.Equal(t, []management.JobKind{kind}, processes[0].Unknown)

		// Another process knows the type, and is busy with other jobs, or paused.
		here := presence.Process{ID: "new", Started: time.Now(), Seen: time.Now(), Types: []presence.Type{{Name: newType, From: 3, To: 4}}}
		note, err := here.Note()
		require.NoError(t, err)
		require.NoError(t, store.Keep(ctx, note))
		assert.Empty(t, unknown(), "a live process knows it")
		wait(5 * time.Minute)
		assert.NotEmpty(t, unknown(), "the process that knew it has stopped")
		here.Seen, here.Types = time.Now(), nil
		note, err = here.Note()
		require.NoError(t, err)
		require.NoError(t, store.Keep(ctx, note))
		assert.Empty(t, unknown(), "a process with an older version of the library does not report its types")
		require.NoError(t, store.Drop(ctx, presence.ProcessKind, "new"))

		registry.AddJobType(newType, func() amboy.Job {
			j := newTask("", "alpha")
			j.SetType(amboy.JobType{Name: newType, Version: 4})
			return j
		})
		wait(2 * time.Second)
		assert.Empty(t, unknown())
		processes, err = inspector.Processes(ctx)
		require.NoError(t, err)
		assert.Empty(t, processes[0].Unknown)
		q, err := inspector.Queue(ctx, "q")
		require.NoError(t, err)
		assert.Equal(t, 2, q.Counts.Completed)
	})
}

// putUnknown puts a job with version 4 of a type in queue q, as a newer process would.
func putUnknown(t *testing.T, store driver.Driver, id, jobType string) {
	t.Helper()
	r, err := registry.MakeJobInterchange(newTask(id, "alpha"), amboy.BSON)
	require.NoError(t, err)
	r.Type, r.Version = jobType, 4
	r.Group, r.Name = "q", "q."+id
	errs, err := store.Insert(t.Context(), []*driver.Record{r})
	require.NoError(t, err)
	require.NoError(t, errs[0])
}

// unknownIn returns the unknown kinds of queue q, after checking that both methods agree.
func unknownIn(t *testing.T, inspector management.Inspector) []management.UnknownJobs {
	t.Helper()
	queues, err := inspector.Queues(t.Context())
	require.NoError(t, err)
	require.Len(t, queues, 1)
	one, err := inspector.Queue(t.Context(), "q")
	require.NoError(t, err)
	assert.Equal(t, queues[0].Unknown, one.Unknown)
	return one.Unknown
}
