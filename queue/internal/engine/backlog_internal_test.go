package engine

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/internal/activity"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/memory"
)

// The next sample waited for the time that the clock had shown before.
func TestNoBacklogWasRecordedForHoursAfterTheClockWasSetBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, err := memory.New(memory.Options{KeepFinished: 1})
		require.NoError(t, err)
		e := New(Options{Driver: store, LeaseTime: time.Minute})
		defer e.Close(context.Background())
		var ahead atomic.Int64 // of the wall clock
		ahead.Store(int64(8 * time.Hour))
		clock := func() time.Time { return time.Now().Round(0).Add(time.Duration(ahead.Load())) }
		e.Now, e.backlog.timer.Now = clock, clock
		e.backlog.begin()
		time.Sleep(90 * time.Second)
		ahead.Store(0)
		set := clock()
		e.backlog.noteJobs()
		time.Sleep(3 * time.Minute)
		synctest.Wait()
		notes, err := store.Notes(t.Context(), driver.NoteRequest{
			Kind: activity.BacklogMinuteKind, From: activity.KeyOf(set), To: activity.KeyOf(set.Add(time.Hour)), Limit: 10,
		})
		require.NoError(t, err)
		assert.NotEmpty(t, notes)
	})
}
