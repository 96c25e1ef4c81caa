package dashboard_test

import (
	"context"
	"encoding/json"
	"time"

	"github.com/mongodb/amboy/management"
)

func (f *fake) stored(queue, name string) management.StoredSchedule {
	run := management.ScheduleRun{Tick: f.ago(time.Hour), JobID: f.or(name + "@1")}
	return management.StoredSchedule{
		Queue: queue, Name: f.or(name), Created: f.ago(100 * time.Hour), Changed: f.ago(20 * time.Hour), Revision: "4711", Next: f.now.Add(time.Hour), Last: &run,
		Error: f.or("queue is draining"),
		Runs:  []management.ScheduleRun{run, {Tick: f.ago(2 * time.Hour), JobID: "a", Triggered: true}, {Tick: f.ago(3 * time.Hour), Missed: true}},
		ScheduleSpec: management.ScheduleSpec{Cron: f.or("30 8 * * MON-FRI"), Zone: f.or("Europe/Berlin"), CatchUp: "all", MaxCatchUp: 3, ScheduledJob: management.ScheduledJob{
			Type: f.or("remind"), Priority: 2, Args: json.RawMessage(`{"whom":"Grace"}`),
		}},
	}
}

func (f *fake) StoredSchedules(context.Context, management.ScheduleFilter, management.PageRequest) (management.StoredSchedulePage, error) {
	if f.err != nil || f.empty {
		return management.StoredSchedulePage{}, f.err
	}
	paused := f.stored("reports", "paused")
	paused.Paused, paused.Next, paused.Last, paused.Error = true, time.Time{}, nil, ""
	return management.StoredSchedulePage{Schedules: []management.StoredSchedule{f.stored("mail", "reminder"), paused}, Next: "c2"}, nil
}

func (f *fake) StoredSchedule(_ context.Context, queue, name string) (management.StoredSchedule, error) {
	if f.err != nil {
		return management.StoredSchedule{}, f.err
	}
	return f.stored(queue, name), nil
}

func (f *fake) CreateSchedule(_ context.Context, queue, name string, spec management.ScheduleSpec) (management.StoredSchedule, error) {
	f.spec = spec
	return management.StoredSchedule{Queue: queue, Name: name, ScheduleSpec: spec}, f.err
}

func (f *fake) ChangeSchedule(_ context.Context, queue, name string, change management.ScheduleChange) (management.StoredSchedule, error) {
	f.spec, f.revision = change.ScheduleSpec, change.Revision
	return f.stored(queue, name), f.err
}

func (f *fake) PauseSchedule(_ context.Context, queue, name string, _ bool) (management.StoredSchedule, error) {
	return f.stored(queue, name), f.err
}

func (f *fake) DeleteSchedule(context.Context, string, string) error { return f.err }

func (f *fake) TriggerSchedule(_ context.Context, queue, name, key string) (management.Created, error) {
	repeated := key != "" && key == f.triggered
	f.triggered = key
	return management.Created{JobRef: management.JobRef{Queue: queue, ID: name + "@run"}, Repeated: repeated}, f.err
}
