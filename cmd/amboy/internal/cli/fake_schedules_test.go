package cli_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/management"
)

func stored(queue, name string) management.StoredSchedule {
	run := management.ScheduleRun{Tick: ago(15 * time.Hour), JobID: name + "@2026-11-20T17:00:00Z"}
	return management.StoredSchedule{
		Queue: queue, Name: name, Created: ago(100 * time.Hour), Changed: ago(20 * time.Hour), Next: start.Add(9 * time.Hour), Last: &run,
		Runs: []management.ScheduleRun{run, {Tick: ago(30 * time.Hour), Missed: true}},
		ScheduleSpec: management.ScheduleSpec{Cron: "0 18 * * *", Zone: "Europe/Berlin", CatchUp: "latest", ScheduledJob: management.ScheduledJob{
			Type: "send", Priority: 2, Args: json.RawMessage(`{"to":"ada"}`),
		}},
	}
}

func (f *fake) StoredSchedules(context.Context, management.ScheduleFilter, management.PageRequest) (management.StoredSchedulePage, error) {
	failing := stored("", "reminder")
	failing.Error, failing.Last = "queue is\ndraining", nil
	return management.StoredSchedulePage{Schedules: []management.StoredSchedule{stored("mail", "digest"), failing}}, f.err
}

func (f *fake) StoredSchedule(_ context.Context, queue, name string) (management.StoredSchedule, error) {
	if name == "nobody" {
		return management.StoredSchedule{}, fmt.Errorf("schedule %q: %w", name, management.ErrUnknownSchedule)
	}
	return stored(queue, name), f.err
}

func (f *fake) CreateSchedule(_ context.Context, queue, name string, spec management.ScheduleSpec) (management.StoredSchedule, error) {
	if name == "digest" {
		return management.StoredSchedule{}, fmt.Errorf("schedule %q: %w", name, management.ErrScheduleExists)
	}
	return management.StoredSchedule{Queue: queue, Name: name, ScheduleSpec: spec}, f.err
}

func (f *fake) ChangeSchedule(_ context.Context, queue, name string, change management.ScheduleChange) (management.StoredSchedule, error) {
	return management.StoredSchedule{Queue: queue, Name: name, ScheduleSpec: change.ScheduleSpec}, f.err
}

func (f *fake) PauseSchedule(_ context.Context, queue, name string, paused bool) (management.StoredSchedule, error) {
	s := stored(queue, name)
	s.Paused = paused
	return s, f.err
}

func (f *fake) DeleteSchedule(context.Context, string, string) error { return f.err }

func (f *fake) TriggerSchedule(_ context.Context, queue, name, key string) (management.Created, error) {
	return management.Created{JobRef: management.JobRef{Queue: queue, ID: name + "@run-1"}, Repeated: key != ""}, f.err
}

func TestCommandsOfStoredSchedules(t *testing.T) {
	atStart(t, func(t *testing.T) {
		ask := func(code int, args ...string) string {
			t.Helper()
			got := run(t, newFake(), append([]string{"schedules"}, args...)...)
			require.Equal(t, code, got.code, got.errOut)
			return got.out
		}
		list := ask(0, "list")
		assert.Contains(t, list, "0 18 * * * Europe/Berlin")
		assert.Contains(t, list, "failing: queue is; draining")
		show := ask(0, "show", "mail", "digest")
		assert.Contains(t, show, `{"to":"ada"}`)
		assert.Contains(t, show, "missed")
		ask(3, "show", "mail", "nobody")
		assert.Equal(t, "created: mail digest@run-1\n", ask(0, "trigger", "mail", "digest"))
		assert.Equal(t, "already created: mail digest@run-1\n", ask(0, "trigger", "mail", "digest", "--idempotency-key", "a"))
		assert.Equal(t, "mail digest: paused\n", ask(0, "pause", "mail", "digest"))
		assert.Equal(t, "mail digest: active\n", ask(0, "resume", "mail", "digest"))
		assert.Equal(t, "deleted: mail digest\n", ask(0, "delete", "mail", "digest"))

		var made management.StoredSchedule
		created := ask(0, "create", "mail", "new", "send", "--every", "90m", "--catch-up", "all", "--max-catch-up", "3", "--args", `{"to":"bob"}`, "--outside", "-o", "json")
		require.NoError(t, json.Unmarshal([]byte(created), &made))
		assert.Equal(t, management.ScheduleSpec{Every: management.Duration(90 * time.Minute), CatchUp: "all", MaxCatchUp: 3, ScheduledJob: management.ScheduledJob{
			Type: "send", Args: json.RawMessage(`{"to":"bob"}`), JobOptions: management.JobOptions{Outside: true},
		}}, compacted(t, made.ScheduleSpec))
		ask(2, "create", "mail", "new", "send")
		ask(2, "create", "mail", "new", "send", "--every", "1h", "--cron", "@daily")
		ask(2, "create", "mail", "new", "send", "--every", "1h", "--catch-up", "some")
		ask(4, "create", "mail", "digest", "send", "--cron", "@daily")

		// What is not given stays. The arguments do, if they are not sent.
		changed := ask(0, "change", "mail", "digest", "--cron", "@hourly", "-o", "json")
		made = management.StoredSchedule{}
		require.NoError(t, json.Unmarshal([]byte(changed), &made))
		want := stored("mail", "digest").ScheduleSpec
		want.Cron, want.Args = "@hourly", nil
		assert.Equal(t, want, made.ScheduleSpec)
	})
}

// withoutSchedules is a service whose store has no schedules.
type withoutSchedules struct{ *fake }

func (withoutSchedules) StoredSchedules(context.Context, management.ScheduleFilter, management.PageRequest) (management.StoredSchedulePage, error) {
	return management.StoredSchedulePage{}, nil
}

// The list was empty for a service whose schedules are in its program, without a word about those.
func TestAnEmptyListOfStoredSchedulesNamesTheOtherList(t *testing.T) {
	got := run(t, withoutSchedules{newFake()}, "schedules", "list")
	assert.Equal(t, 0, got.code)
	assert.Equal(t, "amboy: no stored schedules found; amboy schedules lists those in programs\n", got.errOut)
	assert.Empty(t, run(t, withoutSchedules{newFake()}, "schedules", "list", "-o", "json").errOut)
}

// compacted returns a specification whose arguments are in one line.
func compacted(t *testing.T, spec management.ScheduleSpec) management.ScheduleSpec {
	t.Helper()
	var args any
	require.NoError(t, json.Unmarshal(spec.Args, &args))
	encoded, err := json.Marshal(args)
	require.NoError(t, err)
	spec.Args = encoded
	return spec
}
