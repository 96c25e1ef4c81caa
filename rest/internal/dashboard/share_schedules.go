package dashboard

import (
	"context"
	"fmt"

	"github.com/mongodb/amboy/management"
)

var _ management.ScheduleManager = (*shared)(nil)

// schedules returns the ScheduleManager that s wraps.
func (s *shared) schedules() (management.ScheduleManager, error) {
	manager, ok := s.Inspector.(management.ScheduleManager)
	if !ok {
		return nil, fmt.Errorf("managing stored schedules: %w", management.ErrUnsupported)
	}
	return manager, nil
}

func (s *shared) StoredSchedules(ctx context.Context, filter management.ScheduleFilter, page management.PageRequest) (management.StoredSchedulePage, error) {
	manager, err := s.schedules()
	if err != nil {
		return management.StoredSchedulePage{}, err
	}
	return manager.StoredSchedules(ctx, filter, page)
}

func (s *shared) StoredSchedule(ctx context.Context, queue, name string) (management.StoredSchedule, error) {
	manager, err := s.schedules()
	if err != nil {
		return management.StoredSchedule{}, err
	}
	return manager.StoredSchedule(ctx, queue, name)
}

func (s *shared) CreateSchedule(ctx context.Context, queue, name string, spec management.ScheduleSpec) (management.StoredSchedule, error) {
	manager, err := s.schedules()
	if err != nil {
		return management.StoredSchedule{}, err
	}
	defer s.forget()
	return manager.CreateSchedule(ctx, queue, name, spec)
}

func (s *shared) ChangeSchedule(ctx context.Context, queue, name string, change management.ScheduleChange) (management.StoredSchedule, error) {
	manager, err := s.schedules()
	if err != nil {
		return management.StoredSchedule{}, err
	}
	return manager.ChangeSchedule(ctx, queue, name, change)
}

func (s *shared) PauseSchedule(ctx context.Context, queue, name string, paused bool) (management.StoredSchedule, error) {
	manager, err := s.schedules()
	if err != nil {
		return management.StoredSchedule{}, err
	}
	return manager.PauseSchedule(ctx, queue, name, paused)
}

func (s *shared) DeleteSchedule(ctx context.Context, queue, name string) error {
	manager, err := s.schedules()
	if err != nil {
		return err
	}
	return manager.DeleteSchedule(ctx, queue, name)
}

func (s *shared) TriggerSchedule(ctx context.Context, queue, name, idempotencyKey string) (management.Created, error) {
	manager, err := s.schedules()
	if err != nil {
		return management.Created{}, err
	}
	defer s.forget()
	return manager.TriggerSchedule(ctx, queue, name, idempotencyKey)
}
