package schedule_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/queue/internal/schedule"
)

func TestReschedule(t *testing.T) {
	f := newFixture(t)
	f.add(
		&entry{ID: "postponed", Scopes: schedule.NewScopes([]string{"s"}, nil), Priority: 1},
		&entry{ID: "ready"},
		&entry{ID: "later", WaitUntil: after(5)},
		&entry{ID: "sooner", WaitUntil: after(100)},
		&entry{ID: "blocked", Scopes: schedule.NewScopes([]string{"s"}, nil)},
		&entry{ID: "expiring", DispatchBy: after(15)},
		dependent("waiting", "ready"),
	)
	f.Release(f.next("postponed"), after(50), f.now)
	for id, test := range map[string]struct {
		until time.Time
		place schedule.Place
	}{
		"postponed": {time.Time{}, schedule.Ready},
		"ready":     {after(10), schedule.Scheduled},
		"later":     {after(10), schedule.Scheduled},
		"sooner":    {f.now, schedule.Ready},
		"blocked":   {after(10), schedule.Scheduled},
		"expiring":  {after(20), schedule.Scheduled},
		"waiting":   {after(20), schedule.Waiting},
	} {
		f.Reschedule(f.get(id), test.until, f.now)
		assert.Equal(t, test.place, f.get(id).Place(), id)
		assert.Equal(t, test.until, f.get(id).WaitUntil, id)
	}
	assert.Equal(t, []string{"postponed", "sooner"}, f.drain())
	f.advance(after(9))
	f.noNext()
	f.advance(after(10))
	assert.Equal(t, []string{"ready", "later", "blocked"}, f.drain())
	assert.Equal(t, schedule.Scheduled, f.get("waiting").Place())
	assert.Equal(t, []string{"expiring"}, f.advance(after(20)))
	assert.Equal(t, []string{"waiting"}, f.drain())
}

func TestRescheduleIgnoresStartedEntries(t *testing.T) {
	f := newFixture(t)
	f.add(&entry{ID: "running"}, &entry{ID: "retrying"}, &entry{ID: "finished"})
	f.next("running")
	f.Retry(f.next("retrying"))
	f.finish("finished", true)
	stats := f.Stats()
	for _, id := range []string{"running", "retrying", "finished"} {
		f.Reschedule(f.get(id), after(10), f.now)
		assert.Zero(t, f.get(id).WaitUntil, id)
	}
	assert.Equal(t, stats, f.Stats())
	_, waits := f.NextTime()
	assert.False(t, waits)
}

func TestAParkedEntryWaitsForItsNewTimeWhenItIsUnparked(t *testing.T) {
	f := newFixture(t)
	f.add(&entry{ID: "parked"})
	f.Park(f.get("parked"))
	f.Reschedule(f.get("parked"), after(10), f.now)
	assert.Equal(t, schedule.Parked, f.get("parked").Place())
	_, waits := f.NextTime()
	assert.False(t, waits)
	f.Unpark(f.get("parked"), f.now)
	assert.Equal(t, schedule.Scheduled, f.get("parked").Place())
	assert.Empty(t, f.drain())
	f.advance(after(10))
	assert.Equal(t, []string{"parked"}, f.drain())
}

func TestPrioritize(t *testing.T) {
	f := newFixture(t)
	f.add(
		&entry{ID: "holder", Priority: 9, Scopes: schedule.NewScopes([]string{"s"}, nil)},
		&entry{ID: "a", DispatchBy: after(10)}, &entry{ID: "b"}, &entry{ID: "c"},
		&entry{ID: "scheduled", WaitUntil: after(1)},
		&entry{ID: "first", Scopes: schedule.NewScopes([]string{"s"}, nil), Priority: -1}, &entry{ID: "second", Scopes: schedule.NewScopes([]string{"s"}, nil), Priority: -1},
	)
	f.next("holder")
	f.Prioritize(f.get("a"), -2)
	f.Prioritize(f.get("c"), 2)
	f.Prioritize(f.get("scheduled"), 1)
	f.Prioritize(f.get("second"), 3)
	f.next("c")
	f.advance(after(1))
	f.next("scheduled")
	f.finish("holder", true)
	f.next("second")
	f.next("b")
	f.finish("second", true)
	f.next("first")
	require.Equal(t, []string{"a"}, f.advance(after(11)), "the deadline does not change")
}

// A free scope is promised to the entry that runs first.
func TestPriorityMovesAPromise(t *testing.T) {
	f := newFixture(t)
	f.add(&entry{ID: "a", Scopes: schedule.NewScopes([]string{"s"}, nil)}, &entry{ID: "b", Scopes: schedule.NewScopes([]string{"s"}, nil)})
	f.Prioritize(f.get("b"), 1)
	assert.Equal(t, schedule.Ready, f.get("b").Place())
	assert.Equal(t, schedule.ScopeBlocked, f.get("a").Place())
	f.Prioritize(f.get("b"), -1)
	assert.Equal(t, schedule.Ready, f.get("a").Place())
	assert.Equal(t, schedule.ScopeBlocked, f.get("b").Place())
	assert.Equal(t, []string{"a", "b"}, f.drain())
}
