package guard

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	"github.com/mongodb/amboy/management"
)

var _ management.ScheduleManager = (*guarded)(nil)

// schedules returns the ScheduleManager of the program.
func (g *guarded) schedules() (management.ScheduleManager, error) {
	manager, ok := g.inner.(management.ScheduleManager)
	if !ok {
		return nil, fmt.Errorf("managing stored schedules: %w", management.ErrUnsupported)
	}
	return manager, nil
}

// allowSchedule authorizes an action on an existing schedule, and returns the schedule.
func (g *guarded) allowSchedule(ctx context.Context, action Action, queue, name string) (management.ScheduleManager, management.StoredSchedule, error) {
	access := Access{Action: action, Queue: queue}
	if err := g.refuseUnauthenticated(ctx, access); err != nil {
		return nil, management.StoredSchedule{}, err
	}
	if err := g.checkOwn(queue); err != nil {
		return nil, management.StoredSchedule{}, err
	}
	manager, err := g.schedules()
	if err != nil {
		return nil, management.StoredSchedule{}, err
	}
	found, err := manager.StoredSchedule(ctx, queue, name)
	if err == nil {
		access.Type = found.Type
	}
	if refusal := g.ask(ctx, access); refusal != nil {
		var denied *DeniedError
		if errors.As(refusal, &denied) {
			denied.Access.Type = "" // it would tell that the schedule exists
		}
		return nil, management.StoredSchedule{}, refusal
	}
	return manager, found, err
}

// allowJobsOf authorizes the jobs of a schedule as jobs that the request itself puts.
func (g *guarded) allowJobsOf(ctx context.Context, queue string, spec management.ScheduleSpec) error {
	return g.allowCreate(ctx, spec.NewJob(queue, ""))
}

func (g *guarded) StoredSchedules(ctx context.Context, filter management.ScheduleFilter, page management.PageRequest) (management.StoredSchedulePage, error) {
	if err := filter.Validate(); err != nil {
		return management.StoredSchedulePage{}, err
	}
	if err := g.allow(ctx, Read, filter.Queues...); err != nil {
		return management.StoredSchedulePage{}, err
	}
	manager, err := g.schedules()
	if err != nil {
		return management.StoredSchedulePage{}, err
	}
	filter.Queues = g.visibleQueues(filter.Queues)
	found, err := manager.StoredSchedules(ctx, filter, page)
	found.Schedules = onlyOwn(g, found.Schedules, func(s management.StoredSchedule) string { return s.Queue })
	for i := range found.Schedules {
		found.Schedules[i] = g.maskSchedule(ctx, found.Schedules[i])
	}
	return found, err
}

func (g *guarded) StoredSchedule(ctx context.Context, queue, name string) (management.StoredSchedule, error) {
	if err := g.allowJob(ctx, Access{Action: Read, Queue: queue}); err != nil {
		return management.StoredSchedule{}, err
	}
	manager, err := g.schedules()
	if err != nil {
		return management.StoredSchedule{}, err
	}
	found, err := manager.StoredSchedule(ctx, queue, name)
	return g.maskSchedule(ctx, found), err
}

func (g *guarded) CreateSchedule(ctx context.Context, queue, name string, spec management.ScheduleSpec) (management.StoredSchedule, error) {
	if err := g.allowJob(ctx, Access{Action: Schedule, Queue: queue, Type: spec.Type}); err != nil {
		return management.StoredSchedule{}, err
	}
	if err := g.allowJobsOf(ctx, queue, spec); err != nil {
		return management.StoredSchedule{}, err
	}
	manager, err := g.schedules()
	if err != nil {
		return management.StoredSchedule{}, err
	}
	made, err := manager.CreateSchedule(g.withActor(ctx), queue, name, spec)
	return g.readable(ctx, made, err)
}

// ChangeSchedule needs the right to schedule jobs of the old type and of the new one.
func (g *guarded) ChangeSchedule(ctx context.Context, queue, name string, change management.ScheduleChange) (management.StoredSchedule, error) {
	manager, old, err := g.allowSchedule(ctx, Schedule, queue, name)
	if err != nil {
		return management.StoredSchedule{}, err
	}
	if change.Type != old.Type {
		err = g.ask(ctx, Access{Action: Schedule, Queue: queue, Type: change.Type})
		if err != nil {
			return management.StoredSchedule{}, err
		}
	}
	err = g.allowJobsOf(ctx, queue, change.ScheduleSpec)
	if err != nil {
		return management.StoredSchedule{}, err
	}
	if g.opts.MaskArgs != nil && change.Args != nil {
		shown, sent := decoded(g.maskSchedule(ctx, old).Args), decoded(change.Args)
		switch {
		case !keepsMask(decoded(old.Args), shown, sent):
		case change.Type == old.Type && reflect.DeepEqual(sent, shown):
			change.Args = nil // they stay
		default:
			return management.StoredSchedule{}, &DeniedError{
				Access: Access{Action: Schedule, Queue: queue, Type: change.Type}, Reason: errMasked, Cause: "the service masks some of the arguments",
			}
		}
	}
	changed, err := manager.ChangeSchedule(g.withActor(ctx), queue, name, change)
	return g.readable(ctx, changed, err)
}

// keepsMask reports whether a request sends a mask back that it has read: a value that is shown in
// place of the old one. It must not replace what it hides.
func keepsMask(old, shown, sent any) bool {
	if reflect.DeepEqual(shown, old) {
		return false
	}
	if reflect.DeepEqual(sent, shown) {
		return true
	}
	switch sent := sent.(type) {
	case map[string]any:
		oldFields, _ := old.(map[string]any)
		shownFields, _ := shown.(map[string]any)
		for name, value := range sent {
			field, isShown := shownFields[name]
			if isShown && keepsMask(oldFields[name], field, value) {
				return true
			}
		}
	case []any:
		oldItems, _ := old.([]any)
		shownItems, _ := shown.([]any)
		for n := range min(len(oldItems), len(shownItems), len(sent)) {
			if keepsMask(oldItems[n], shownItems[n], sent[n]) {
				return true
			}
		}
	}
	return false
}

// decoded returns the value of a JSON text; nil if it is not valid.
func decoded(text json.RawMessage) (value any) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	if decoder.Decode(&value) != nil {
		return nil
	}
	return value
}

func (g *guarded) PauseSchedule(ctx context.Context, queue, name string, paused bool) (management.StoredSchedule, error) {
	manager, found, err := g.allowSchedule(ctx, Schedule, queue, name)
	if err != nil {
		return management.StoredSchedule{}, err
	}
	if !paused {
		err = g.allowJobsOf(ctx, queue, found.ScheduleSpec)
		if err != nil {
			return management.StoredSchedule{}, err
		}
	}
	changed, err := manager.PauseSchedule(g.withActor(ctx), queue, name, paused)
	return g.readable(ctx, changed, err)
}

func (g *guarded) DeleteSchedule(ctx context.Context, queue, name string) error {
	manager, _, err := g.allowSchedule(ctx, Schedule, queue, name)
	if err != nil {
		return err
	}
	return manager.DeleteSchedule(g.withActor(ctx), queue, name)
}

func (g *guarded) TriggerSchedule(ctx context.Context, queue, name, idempotencyKey string) (management.Created, error) {
	manager, found, err := g.allowSchedule(ctx, Trigger, queue, name)
	if err != nil {
		return management.Created{}, err
	}
	if err := g.allowJobsOf(ctx, queue, found.ScheduleSpec); err != nil {
		return management.Created{}, err
	}
	return manager.TriggerSchedule(g.withActor(ctx), queue, name, idempotencyKey)
}

// readable returns what a request that has changed a schedule may read of it: without the right to read
// not its arguments, which it may not have set, and not its runs.
func (g *guarded) readable(ctx context.Context, s management.StoredSchedule, err error) (management.StoredSchedule, error) {
	if err != nil {
		return management.StoredSchedule{}, err
	}
	if g.ask(ctx, Access{Action: Read, Queue: s.Queue}) != nil {
		s.Args, s.Bytes, s.ArgsHidden = nil, nil, hiddenFromWriter
		s.Last, s.Error, s.Runs = nil, "", nil
	}
	return g.maskSchedule(ctx, s), nil
}

// maskSchedule redacts the arguments of a schedule.
func (g *guarded) maskSchedule(ctx context.Context, s management.StoredSchedule) management.StoredSchedule {
	if g.opts.MaskArgs == nil || s.Args == nil && s.Bytes == nil {
		return s
	}
	if s.Bytes != nil {
		s.Bytes, s.ArgsHidden = nil, hiddenByMask // they are no JSON, which the function could redact
		return s
	}
	job := management.JobSummary{JobRef: management.JobRef{Queue: s.Queue}, Type: s.Type}
	s.Args, s.ArgsHidden = g.masked(ctx, &job, s.Args)
	return s
}
