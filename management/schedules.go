package management

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/mongodb/amboy/internal/presence"
)

func (i *inspector) Schedules(ctx context.Context) ([]Schedule, error) {
	if err := i.valid(); err != nil {
		return nil, fmt.Errorf("listing schedules: %w", err)
	}
	meant := i.store.Queues()
	schedules := []Schedule{}
	for note, err := range i.notes(ctx, presence.ScheduleKind, "") {
		if err != nil {
			return nil, fmt.Errorf("listing schedules: %w", err)
		}
		var said presence.Schedule
		if err := presence.Decode(note, &said); err != nil {
			leaveOut(ctx, note, err)
			continue
		}
		if len(meant) == 0 || slices.Contains(meant, said.Queue) {
			schedules = append(schedules, Schedule(said))
		}
	}
	slices.SortFunc(schedules, func(a, b Schedule) int {
		return cmp.Or(cmp.Compare(a.Queue, b.Queue), cmp.Compare(a.Name, b.Name))
	})
	return schedules, nil
}
