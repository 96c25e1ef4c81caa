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
	f.Restart(job, f.now)
	f.add(&entry{ID: "after"})
	assert.Equal(t, schedule.Ready, job.Place(), "it does not wait for its edges")
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
	f.Restart(f.get("job"), f.now)
	assert.Equal(t, schedule.Scheduled, f.get("job").Place())
	f.advance(after(10))
	f.next("job")
}

// The test ends a job that an entry depended on before it was restarted.
func TestEdgesOfARestartedEntryEnd(t *testing.T) {
	f := newFixture(t)
	f.ForwardEdges = true
	f.add(dependent("job", "target", "missing"))
	f.finish("job", false)
	f.Restart(f.get("job"), f.now)
	assert.Empty(t, f.Missing())
	f.Park(f.get("job"))
	f.add(&entry{ID: "target"}, &entry{ID: "missing"})
	f.next("target")
	f.finish("target", false)
	f.finish("missing", false)
	assert.Equal(t, schedule.Parked, f.get("job").Place())
	f.Unpark(f.get("job"), f.now)
	assert.Empty(t, f.next("job").Failed())
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
