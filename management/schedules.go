package management

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/mongodb/amboy/internal/presence"
)

func (i *inspector) Schedules(ctx context.Context) ([]Schedule, error) {
	if err := i.check(); err != nil {
		return nil, fmt.Errorf("listing schedules: %w", err)
	}
	allowed := i.store.Queues()
	schedules := []Schedule{}
	for note, err := range i.notes(ctx, presence.ScheduleKind, "") {
		if err != nil {
			return nil, fmt.Errorf("listing schedules: %w", err)
		}
		var report presence.Schedule
		if err := presence.Decode(note, &report); err != nil {
			logUnreadableNote(ctx, note, err)
			continue
		}
		if len(allowed) == 0 || slices.Contains(allowed, report.Queue) {
			schedules = append(schedules, Schedule(report))
		}
	}
	slices.SortFunc(schedules, func(a, b Schedule) int {
		return cmp.Or(cmp.Compare(a.Queue, b.Queue), cmp.Compare(a.Name, b.Name))
	})
	return schedules, nil
}
