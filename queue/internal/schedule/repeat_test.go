package schedule_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/queue/internal/schedule"
)

func TestRepeat(t *testing.T) {
	f := newFixture(t)
	f.add(
		&entry{ID: "again", Scopes: schedule.NewScopes([]string{"at put", "at start"}, []string{"at put"}), Unique: schedule.NewUnique("key", "")},
		&entry{ID: "other", Scopes: schedule.NewScopes([]string{"at start"}, nil)},
		&entry{ID: "last"},
		dependent("dependent", "again"),
	)
	e := f.next("again")
	f.Repeat(e, time.Time{}, time.Time{}, f.now)
	f.next("other") // it holds the scope that is taken at the start
	f.next("last")
	f.noNext()
	f.finish("other", true)
	f.next("again")
	f.Repeat(e, after(10), after(20), f.now)
	assert.Equal(t, schedule.Scheduled, e.Place())
	assert.Equal(t, schedule.Waiting, f.get("dependent").Place())
	require.Error(t, f.Add(&entry{ID: "thief", Scopes: schedule.NewScopes([]string{"at put"}, []string{"at put"})}, f.now))
	require.Error(t, f.Add(&entry{ID: "twin", Unique: schedule.NewUnique("key", "")}, f.now))
	f.advance(after(10))
	f.next("again")
	f.finish("again", true)
	assert.Equal(t, schedule.Ready, f.get("dependent").Place())
}

func TestRepeatedEntriesExpire(t *testing.T) {
	f := newFixture(t)
	f.add(&entry{ID: "again"})
	f.Repeat(f.next("again"), after(30), after(20), f.now)
	assert.Equal(t, []string{"again"}, f.advance(after(21)))
}

func TestOnlyRunningEntriesAreRepeated(t *testing.T) {
	f := newFixture(t)
	f.add(&entry{ID: "ready"}, &entry{ID: "finished"})
	f.finish("finished", true)
	stats := f.Stats()
	for _, id := range []string{"ready", "finished"} {
		f.Repeat(f.get(id), after(10), time.Time{}, f.now)
	}
	assert.Equal(t, stats, f.Stats())
	f.next("ready")
}
