package schedule_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/internal/schedule"
)

func TestRestart(t *testing.T) {
	f := newFixture(t)
	f.add(&entry{ID: "target"})
	job := &entry{ID: "job", Scopes: schedule.NewScopes([]string{"s"}, []string{"s"}), Edges: []string{"target"}, DispatchBy: after(5)}
	f.add(job)
	f.finish("job", false)
	thief := &entry{ID: "thief", Scopes: schedule.NewScopes([]string{"s"}, []string{"s"})}
	f.add(thief)
	assert.False(t, f.Restartable(job), "another job holds its scope")
	f.finish("thief", true)
	f.add(&entry{ID: "before"})

	require.True(t, f.Restartable(job))
	f.Restart(job, nil, f.now)
	f.add(&entry{ID: "after"})
	assert.Equal(t, schedule.Ready, job.Place(), "it has no edges")
	assert.Equal(t, amboy.QueueStats{Pending: 4, Completed: 1, Total: 5}, f.Stats())
	assert.Equal(t, []string{"thief"}, ids(slices.Collect(f.Finished)))
	require.True(t, amboy.IsDuplicateJobScopeError(f.Add(&entry{ID: "other", Scopes: schedule.NewScopes([]string{"s"}, []string{"s"})}, f.now)))
	assert.Empty(t, f.advance(after(10)), "a restarted entry does not expire")
	assert.False(t, f.Restartable(job))

	assert.Equal(t, []string{"target", "before", "job", "after"}, f.drain())
	assert.Empty(t, job.Failed())
}

func TestRestartedEntryWaitsForItsTime(t *testing.T) {
	f := newFixture(t)
	f.add(&entry{ID: "job", WaitUntil: after(10)})
	f.finish("job", false)
	f.Restart(f.get("job"), nil, f.now)
	assert.Equal(t, schedule.Scheduled, f.get("job").Place())
	f.advance(after(10))
	f.next("job")
}

func TestRestartedEntryWaitsForItsEdges(t *testing.T) {
	f := newFixture(t)
	f.add(&entry{ID: "bad"}, &entry{ID: "target"}, &entry{ID: "gone"})
	job := dependent("job", "bad", "target", "gone")
	f.add(job)
	f.finish("bad", false)
	f.finish("job", false)
	gone := f.get("gone")
	f.finish("gone", false)
	f.Remove(gone)

	f.Restart(job, job.Edges, f.now)
	assert.Equal(t, schedule.Waiting, job.Place())
	assert.Equal(t, "waits for 1 of the 3 jobs that it depends on", job.Block().String())
	f.finish("job", false)
	f.Restart(job, job.Edges, f.now)
	f.finish("target", true)
	assert.Equal(t, schedule.Ready, job.Place())
	assert.Equal(t, []string{"bad"}, job.Failed())
}

// The job was canceled while it waited for a target that ends after the restart.
func TestEdgesOfTheTimeBeforeARestartDoNotCount(t *testing.T) {
	f := newFixture(t)
	f.add(&entry{ID: "target"}, &entry{ID: "other"})
	job := dependent("job", "target")
	f.add(job)
	f.finish("job", false)
	f.Restart(job, []string{"other"}, f.now)
	f.finish("target", false)
	assert.Equal(t, schedule.Waiting, job.Place())
	f.finish("other", true)
	assert.Empty(t, f.next("job").Failed())
}

func TestRestartedEntryWaitsForAMissingEdge(t *testing.T) {
	f := newFixture(t)
	f.ForwardEdges = true
	f.add(dependent("job", "missing"))
	f.finish("job", false)
	assert.Empty(t, f.Missing())
	f.Restart(f.get("job"), nil, f.now)
	assert.Empty(t, f.Missing())
	f.finish("job", false)
	f.Restart(f.get("job"), []string{"missing"}, f.now)
	assert.Equal(t, []string{"missing"}, f.Missing())
	f.add(&entry{ID: "missing"})
	f.finish("missing", true)
	f.next("job")
}

// An entry that was added while its target was finished does not wait for it, so there is no cycle.
func TestNoCycleThroughARestartedTarget(t *testing.T) {
	f := newFixture(t)
	f.ForwardEdges = true
	f.add(dependent("target", "new"))
	f.finish("target", false)
	f.add(dependent("job", "target"))
	f.Restart(f.get("target"), []string{"new"}, f.now)
	require.NoError(t, f.Add(dependent("new", "job"), f.now))
	for _, id := range []string{"job", "new", "target"} {
		f.next(id)
		f.finish(id, true)
	}
}

func TestOnlyTheLastAttemptIsRestartable(t *testing.T) {
	f := newFixture(t)
	first := &entry{ID: "job"}
	f.add(first)
	f.next("job")
	f.retry("job")
	assert.False(t, f.Restartable(first))
	f.replace(&entry{ID: "job"})
	assert.False(t, f.Restartable(first))
	f.finish("job", false)
	assert.False(t, f.Restartable(first))
	assert.True(t, f.Restartable(f.get("job")))
}
