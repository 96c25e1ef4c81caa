package schedule_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/internal/schedule"
)

// keyed returns an entry with the unique key "key".
func keyed(id string, until amboy.UniqueUntil) *entry {
	return &entry{ID: id, Unique: schedule.NewUnique("key", until)}
}

// hasKey requires that an entry holds the unique key "key", or that no entry does if the ID
// is empty.
func (f *fixture) hasKey(id string) {
	f.t.Helper()
	err := f.Duplicate(keyed("probe", ""))
	if id == "" {
		require.NoError(f.t, err)
		return
	}
	require.True(f.t, amboy.IsDuplicateJobError(err), "no entry holds the key")
	require.EqualError(f.t, err, fmt.Sprintf(`unique key "key" of job "probe" is held by job %q`, id))
}

func TestUniqueKeyIsHeldUntil(t *testing.T) {
	for _, test := range []struct {
		until     amboy.UniqueUntil
		succeeded bool
		running   string // the holder of the key then
		finished  string
	}{
		{until: "", succeeded: true, running: "job"},
		{until: amboy.UniqueUntilEnded, running: "job"},
		{until: amboy.UniqueUntilEnded, succeeded: true, running: "job"},
		{until: amboy.UniqueUntilStarted},
		{until: amboy.UniqueUntilFailed, running: "job"},
		{until: amboy.UniqueUntilFailed, succeeded: true, running: "job", finished: "job"},
		{until: amboy.UniqueUntilForgotten, running: "job", finished: "job"},
		{until: amboy.UniqueUntilForgotten, succeeded: true, running: "job", finished: "job"},
	} {
		t.Run(fmt.Sprintf("%q, succeeded %t", test.until, test.succeeded), func(t *testing.T) {
			f := newFixture(t)
			f.add(keyed("job", test.until))
			f.hasKey("job")
			f.next("job")
			f.hasKey(test.running)
			f.retry("job")
			f.hasKey(test.running)
			f.replace(&entry{ID: "job", Unique: schedule.NewUnique("not asked again", "")})
			f.hasKey(test.running)
			f.next("job")
			f.finish("job", test.succeeded)
			f.hasKey(test.finished)
			f.Remove(f.get("job"))
			f.hasKey("")
		})
	}
}

func TestARefusedEntryTakesNoKey(t *testing.T) {
	f := newFixture(t)
	f.add(&entry{ID: "job", Scopes: schedule.NewScopes([]string{"s"}, []string{"s"})})
	same, edge, circle, scoped := keyed("job", ""), keyed("edge", ""), keyed("circle", ""), keyed("scoped", "")
	edge.Edges, circle.Edges, scoped.Scopes = []string{"nobody"}, []string{"circle"}, schedule.NewScopes([]string{"s"}, []string{"s"})
	for _, e := range []*entry{same, edge, circle, scoped} {
		require.Error(t, f.Add(e, f.now), e.ID)
		f.hasKey("")
	}
	f.add(keyed("holder", ""))
	rival := keyed("rival", "")
	rival.Scopes = schedule.NewScopes([]string{"t"}, []string{"t"})
	require.True(t, amboy.IsDuplicateJobError(f.Add(rival, f.now)))
	f.add(&entry{ID: "other", Scopes: schedule.NewScopes([]string{"t"}, []string{"t"})})
	f.hasKey("holder")
}

// The test hands back or retries an entry that released its key when it started.
func TestAKeyReleasedAtStartIsNotTakenAgain(t *testing.T) {
	f := newFixture(t)
	f.add(keyed("job", amboy.UniqueUntilStarted))
	f.Release(f.next("job"), f.now, f.now)
	f.hasKey("")
	f.Park(f.get("job"))
	f.Unpark(f.get("job"), f.now)
	f.hasKey("")
	f.add(keyed("rival", ""))
	f.next("job")
	f.retry("job")
	f.replace(keyed("job", ""))
	f.hasKey("rival")
	f.finish("job", true)
	f.Remove(f.get("job"))
	f.hasKey("rival")
}

func TestExpiredEntryGivesUpItsKey(t *testing.T) {
	f := newFixture(t)
	e := keyed("job", amboy.UniqueUntilStarted)
	e.DispatchBy = after(1)
	f.add(e)
	require.Equal(t, []string{"job"}, f.advance(after(2)))
	f.hasKey("")
}

func TestRestartTakesTheKeyAgain(t *testing.T) {
	f := newFixture(t)
	f.add(keyed("job", amboy.UniqueUntilStarted))
	f.next("job")
	f.finish("job", false)
	job := f.get("job")
	f.add(keyed("rival", ""))
	assert.False(t, f.Restartable(job), "another job holds its key")
	f.finish("rival", true)
	require.True(t, f.Restartable(job))
	f.Restart(job, nil, f.now)
	f.hasKey("job")
	f.next("job")
	f.hasKey("")
}
