package management_test

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/management"
	"github.com/mongodb/amboy/queue/driver"
)

// afterRead is a store in which something happens right after a schedule, or notes of another kind,
// was read, once.
type afterRead struct {
	driver.Driver
	event atomic.Pointer[readEvent]
}

// readEvent is what happens after notes of a kind were read.
type readEvent struct {
	kind   string
	happen func()
}

// meanwhile sets what happens after a schedule was read.
func (m *afterRead) meanwhile(f func()) { m.event.Store(&readEvent{"stored-schedule", f}) }

func (m *afterRead) Notes(ctx context.Context, req driver.NoteRequest) ([]driver.Note, error) {
	found, err := m.Driver.Notes(ctx, req)
	if e := m.event.Load(); e != nil && e.kind == req.Kind && m.event.CompareAndSwap(e, nil) {
		e.happen()
	}
	return found, err
}

// newMeanwhile returns a store with the schedule report, and its inspector.
func newMeanwhile(t *testing.T) (*afterRead, *scheduleWorld) {
	t.Helper()
	store := &afterRead{Driver: newMemory(t)}
	w := newScheduleWorld(t, store)
	w.open("acme")
	w.create("acme", "report", everyMinute())
	return store, w
}

// prioritized returns the change of a schedule to a priority, as a caller makes it that has read the
// schedule.
func prioritized(s management.StoredSchedule, priority int) management.ScheduleChange {
	s.Priority = priority
	return management.ScheduleChange{ScheduleSpec: s.ScheduleSpec, Revision: s.Revision}
}

func TestAChangeOfAScheduleUndidAPauseThatCameMeanwhile(t *testing.T) {
	store, w := newMeanwhile(t)
	change := prioritized(w.get(), 3)
	change.Revision = ""
	store.meanwhile(func() {
		_, err := w.inspector.PauseSchedule(t.Context(), "acme", "report", true)
		require.NoError(t, err)
	})
	_, err := w.inspector.ChangeSchedule(t.Context(), "acme", "report", change)
	require.NoError(t, err)
	assert.True(t, w.get().Paused)
	assert.Equal(t, 3, w.get().Priority)
}

func TestAPauseOfAScheduleUndidAChangeThatCameMeanwhile(t *testing.T) {
	store, w := newMeanwhile(t)
	store.meanwhile(func() {
		_, err := w.inspector.ChangeSchedule(t.Context(), "acme", "report", prioritized(w.get(), 3))
		require.NoError(t, err)
	})
	_, err := w.inspector.PauseSchedule(t.Context(), "acme", "report", true)
	require.NoError(t, err)
	assert.True(t, w.get().Paused)
	assert.Equal(t, 3, w.get().Priority)
}

func TestAChangeDuringADeleteRestoredTheSchedule(t *testing.T) {
	store, w := newMeanwhile(t)
	change := prioritized(w.get(), 3)
	store.meanwhile(func() { require.NoError(t, w.inspector.DeleteSchedule(t.Context(), "acme", "report")) })
	_, err := w.inspector.ChangeSchedule(t.Context(), "acme", "report", change)
	require.ErrorIs(t, err, management.ErrUnknownSchedule)
	_, err = w.inspector.StoredSchedule(t.Context(), "acme", "report")
	require.ErrorIs(t, err, management.ErrUnknownSchedule)
}

// A program stores its specification at each deploy. That resumed a schedule that an operator had
// paused.
func TestAChangeToAnOldSpecificationUndidAPause(t *testing.T) {
	inspectEach(t, []view{ofQueue, ofClient}, func(f *inspected) {
		s := managerOf(f, f.Inspector)
		spec := hourly()
		_, err := s.CreateSchedule(f.ctx, f.name, "report", spec)
		require.NoError(f, err)
		_, err = s.PauseSchedule(f.ctx, f.name, "report", true)
		require.NoError(f, err)
		spec.Priority = 3
		changed, err := s.ChangeSchedule(f.ctx, f.name, "report", management.ScheduleChange{ScheduleSpec: spec})
		require.NoError(f, err)
		assert.True(f, changed.Paused)
		assert.Equal(f, 3, changed.Priority)
		resumed, err := s.PauseSchedule(f.ctx, f.name, "report", false)
		require.NoError(f, err)
		assert.False(f, resumed.Paused)
	})
}

// Two operators change a schedule that both have read.
func TestTheSecondOfTwoChangesOfAScheduleUndidTheFirst(t *testing.T) {
	inspectEach(t, []view{ofQueue, ofClient}, func(f *inspected) {
		s := managerOf(f, f.Inspector)
		read, err := s.CreateSchedule(f.ctx, f.name, "report", hourly())
		require.NoError(f, err)
		first := prioritized(read, 3)
		first.CatchUp = "none"
		changed, err := s.ChangeSchedule(f.ctx, f.name, "report", first)
		require.NoError(f, err)
		assert.NotEqual(f, read.Revision, changed.Revision)
		again, err := s.ChangeSchedule(f.ctx, f.name, "report", first)
		require.NoError(f, err, "a repetition changes nothing")
		assert.Equal(f, changed.Revision, again.Revision)

		_, err = s.ChangeSchedule(f.ctx, f.name, "report", prioritized(read, 4))
		require.ErrorIs(f, err, management.ErrScheduleChanged)
		found, err := s.StoredSchedule(f.ctx, f.name, "report")
		require.NoError(f, err)
		assert.Equal(f, changed, found)
		_, err = s.ChangeSchedule(f.ctx, f.name, "report", prioritized(found, 4))
		require.NoError(f, err)

		paused, err := s.PauseSchedule(f.ctx, f.name, "report", true)
		require.NoError(f, err)
		require.NoError(f, s.DeleteSchedule(f.ctx, f.name, "report"))
		_, err = s.CreateSchedule(f.ctx, f.name, "report", hourly())
		require.NoError(f, err)
		_, err = s.ChangeSchedule(f.ctx, f.name, "report", prioritized(paused, 5))
		require.ErrorIs(f, err, management.ErrScheduleChanged, "another schedule of the name")

		var invalid *management.InvalidArgumentError
		_, err = s.ChangeSchedule(f.ctx, f.name, "report", management.ScheduleChange{ScheduleSpec: hourly(), Revision: "x"})
		require.ErrorAs(f, err, &invalid)
		assert.Equal(f, "revision", invalid.Field)
	})
}

func TestTheHistoryLostARunByHandThatCameMeanwhile(t *testing.T) {
	for _, earlier := range []int{0, 1} {
		store, w := newMeanwhile(t)
		trigger := func() {
			_, err := w.inspector.TriggerSchedule(t.Context(), "acme", "report", "")
			require.NoError(t, err)
		}
		for range earlier {
			trigger()
		}
		store.event.Store(&readEvent{"stored-schedule-triggers", trigger})
		trigger()
		assert.Len(t, w.get().Runs, earlier+2)
	}
}
