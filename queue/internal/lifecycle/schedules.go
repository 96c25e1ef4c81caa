package lifecycle

import (
	"context"
	"fmt"
	"time"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/presence"
	"github.com/mongodb/amboy/queue/driver"
)

// StoreSchedules stores what schedules report about themselves, as notes about a queue.
func (l *Base) StoreSchedules(ctx context.Context, admin driver.Admin, queue string, now time.Time, schedules []amboy.ScheduleInfo) error {
	notes := make([]driver.Note, len(schedules))
	var err error
	if l.IsStopped() {
		err = amboy.ErrQueueClosed
	}
	for i, s := range schedules {
		if err == nil {
			notes[i], err = presence.Schedule{
				Queue: queue, Name: s.Name, Spec: s.Spec, CatchUp: s.CatchUp,
				Last: s.Last, Next: s.Next, Error: s.Error, Seen: now,
			}.Note()
		}
	}
	if err == nil && len(notes) > 0 {
		err = admin.Keep(ctx, notes...)
	}
	if err != nil {
		return fmt.Errorf("storing the schedules of queue %q: %w", l.id, err)
	}
	return nil
}

// DropSchedules removes the notes of schedules of a queue.
func (l *Base) DropSchedules(ctx context.Context, admin driver.Admin, queue string, names []string) error {
	var err error
	if l.IsStopped() {
		err = amboy.ErrQueueClosed
	}
	keys := make([]string, len(names))
	for i, name := range names {
		keys[i] = presence.ScheduleKey(queue, name)
	}
	if err == nil && len(keys) > 0 {
		err = admin.Drop(ctx, presence.ScheduleKind, keys...)
	}
	if err != nil {
		return fmt.Errorf("removing the schedules of queue %q: %w", l.id, err)
	}
	return nil
}
