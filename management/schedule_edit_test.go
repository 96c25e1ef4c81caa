package management_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/management"
	"github.com/mongodb/amboy/queue/driver"
)

// slowEdit is a store in which a change of a schedule takes until a runner puts the next job.
type slowEdit struct {
	driver.Driver
	// isEditing is true from the begin of the change to the first write of a hint.
	mu        sync.Mutex
	isEditing bool
	putting   chan struct{} // closed when a runner puts a job
	edited    chan struct{} // closed when the change was made
}

func (s *slowEdit) Keep(ctx context.Context, notes ...driver.Note) error {
	s.mu.Lock()
	isFirst := s.isEditing && notes[0].Kind == "stored-schedule-hint"
	s.isEditing = s.isEditing && !isFirst
	s.mu.Unlock()
	if isFirst {
		<-s.putting
	}
	return s.Driver.Keep(ctx, notes...)
}

func (s *slowEdit) Insert(ctx context.Context, records []*driver.Record) ([]error, error) {
	select {
	case <-s.putting:
	default:
		close(s.putting)
		<-s.edited
	}
	return s.Driver.Insert(ctx, records)
}

func TestAScheduleThatWasChangedWhileItWasDueWaitedForTheNextTickOfTheOldOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &slowEdit{Driver: newMemory(t), putting: make(chan struct{}), edited: make(chan struct{})}
		w := newScheduleWorld(t, store)
		w.open("acme")
		spec := everyMinute()
		spec.Cron = "1 0 * * *"
		w.create("acme", "report", spec)
		r := w.runner()
		require.NoError(t, r.Start(t.Context()))
		defer r.Close(context.Background())
		time.Sleep(30 * time.Second)
		store.mu.Lock()
		store.isEditing = true
		store.mu.Unlock()
		_, err := w.inspector.ChangeSchedule(t.Context(), "acme", "report", management.ScheduleChange{ScheduleSpec: everyMinute()})
		require.NoError(t, err)
		close(store.edited)
		time.Sleep(4*time.Minute + time.Second)
		assert.Equal(t, ticks(1, 2, 3, 4, 5), w.jobs())
	})
}
