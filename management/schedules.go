package management

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/mongodb/amboy/internal/presence"
)

// Schedule is a schedule that a process runs.
type Schedule struct {
	Queue string `json:"queue"`
	Name  string `json:"name"`
	// Spec is the specification of its ticks.
	Spec string `json:"spec"`
	// CatchUp is which of the missed ticks get a job: none, latest or all.
	CatchUp string `json:"catch_up"`
	// Last is the last tick whose job was enqueued, and Next the next tick.
	Last time.Time `json:"last,omitzero"`
	Next time.Time `json:"next,omitzero"`
	// Error is why the last tick's job could not be enqueued; empty if it was.
	Error string `json:"error,omitempty"`
	// Seen is when a process last reported that it runs the schedule.
	Seen time.Time `json:"seen"`
}

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
