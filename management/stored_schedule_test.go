package management_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/management"
	"github.com/mongodb/amboy/queue"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/registry"
	"github.com/mongodb/amboy/schedule"
)

// hourly is a specification with a type that all tests have.
func hourly() management.ScheduleSpec {
	return management.ScheduleSpec{Cron: "0 * * * *", Zone: "Europe/Berlin", ScheduledJob: management.ScheduledJob{Type: "alpha"}}
}

func managerOf(t testing.TB, i management.Inspector) management.ScheduleManager {
	t.Helper()
	m, ok := i.(management.ScheduleManager)
	require.True(t, ok)
	return m
}

func TestLifeOfAStoredSchedule(t *testing.T) {
	inspectEach(t, []view{ofQueue, ofGroup, ofClient}, func(f *inspected) {
		s := managerOf(f, f.Inspector)
		spec := hourly()
		spec.Args = json.RawMessage(`{"key":"secret"}`)
		before := time.Now().Add(-time.Second)

		made, err := s.CreateSchedule(f.ctx, f.name, "report", spec)
		require.NoError(f, err)
		assert.Equal(f, schedule.CatchUpLatest, made.CatchUp)
		assert.WithinRange(f, made.Created, before, time.Now().Add(time.Second))
		assert.WithinRange(f, made.Next, time.Now().Add(-time.Second), time.Now().Add(time.Hour+time.Second))
		again, err := s.CreateSchedule(f.ctx, f.name, "report", spec)
		require.NoError(f, err, "a repetition changes nothing")
		assert.Equal(f, made.Created, again.Created)
		other := spec
		other.Priority = 3
		_, err = s.CreateSchedule(f.ctx, f.name, "report", other)
		require.ErrorIs(f, err, management.ErrScheduleExists)

		_, err = s.ChangeSchedule(f.ctx, f.name, "nobody", management.ScheduleChange{ScheduleSpec: spec})
		require.ErrorIs(f, err, management.ErrUnknownSchedule)
		changed, err := s.ChangeSchedule(f.ctx, f.name, "report", management.ScheduleChange{ScheduleSpec: other})
		require.NoError(f, err)
		assert.Equal(f, 3, changed.Priority)
		assert.Equal(f, made.Created, changed.Created)
		paused, err := s.PauseSchedule(f.ctx, f.name, "report", true)
		require.NoError(f, err)
		assert.True(f, paused.Paused)
		assert.Zero(f, paused.Next)

		run, err := s.TriggerSchedule(f.ctx, f.name, "report", "key")
		require.NoError(f, err)
		assert.False(f, run.Repeated)
		repeated, err := s.TriggerSchedule(f.ctx, f.name, "report", "key")
		require.NoError(f, err)
		assert.Equal(f, management.Created{JobRef: run.JobRef, Repeated: true}, repeated)
		f.wait(run.ID)
		job := f.job(run.ID)
		assert.Equal(f, "alpha", job.Type)
		assert.Equal(f, 3, job.Priority)
		assert.Contains(f, string(job.Args), `"secret"`)

		resumed, err := s.PauseSchedule(f.ctx, f.name, "report", false)
		require.NoError(f, err)
		assert.False(f, resumed.Next.IsZero())
		require.Len(f, resumed.Runs, 1)
		assert.Equal(f, run.ID, resumed.Runs[0].JobID)
		assert.True(f, resumed.Runs[0].Triggered)
		got, err := s.StoredSchedule(f.ctx, f.name, "report")
		require.NoError(f, err)
		assert.Equal(f, resumed, got)
		page, err := s.StoredSchedules(f.ctx, management.ScheduleFilter{Queues: []string{f.name}, Name: "REP"}, management.PageRequest{})
		require.NoError(f, err)
		require.Len(f, page.Schedules, 1)
		assert.Equal(f, run.ID, page.Schedules[0].Last.JobID)
		assert.Empty(f, page.Schedules[0].Runs)

		require.NoError(f, s.DeleteSchedule(f.ctx, f.name, "report"))
		require.ErrorIs(f, s.DeleteSchedule(f.ctx, f.name, "report"), management.ErrUnknownSchedule)
		_, err = s.StoredSchedule(f.ctx, f.name, "report")
		require.ErrorIs(f, err, management.ErrUnknownSchedule)
		page, err = s.StoredSchedules(f.ctx, management.ScheduleFilter{}, management.PageRequest{})
		require.NoError(f, err)
		assert.Empty(f, page.Schedules)
		made, err = s.CreateSchedule(f.ctx, f.name, "report", spec)
		require.NoError(f, err)
		assert.Empty(f, made.Runs, "the history of an earlier schedule is not shown")

		audit, err := f.Audit(f.ctx, management.AuditFilter{}, management.PageRequest{})
		require.NoError(f, err)
		var what []string
		for _, entry := range slices.Backward(audit.Entries) {
			if entry.Refused == 0 && entry.Skipped == 0 {
				what = append(what, entry.What)
				assert.Equal(f, f.name, entry.Queue)
				assert.Contains(f, entry.Detail, "report")
				assert.NotContains(f, entry.Detail, "secret", "arguments may be secret")
			}
		}
		assert.Equal(f, []string{"schedule.create", "schedule.change", "schedule.pause", "schedule.trigger", "schedule.resume", "schedule.delete", "schedule.create"}, what)
	})
}

func TestInvalidStoredSchedules(t *testing.T) {
	f := &fixture{T: t, ctx: t.Context(), queue: openSQLite(t)}
	i := newInspected(f, ofQueue)
	for name, c := range map[string]struct {
		field  string
		change func(*management.ScheduleSpec)
	}{
		"no ticks":                   {"cron", func(s *management.ScheduleSpec) { *s = management.ScheduleSpec{ScheduledJob: s.ScheduledJob} }},
		"two kinds of ticks":         {"cron", func(s *management.ScheduleSpec) { s.Every = management.Duration(time.Hour) }},
		"a zone for an interval":     {"zone", func(s *management.ScheduleSpec) { s.Cron, s.Every = "", management.Duration(time.Hour) }},
		"an unknown zone":            {"zone", func(s *management.ScheduleSpec) { s.Zone = "Mars/Olympus" }},
		"a zone that is a path":      {"zone", func(s *management.ScheduleSpec) { s.Zone = "../../../etc/passwd" }},
		"a long zone":                {"zone", func(s *management.ScheduleSpec) { s.Zone = strings.Repeat("A", 1<<20) }},
		"a range without end":        {"cron", func(s *management.ScheduleSpec) { s.Cron = "1--100000000 * * * *" }},
		"a million terms":            {"cron", func(s *management.ScheduleSpec) { s.Cron = strings.Repeat("1,", 1_000_000) + "1 * * * *" }},
		"a short interval":           {"every", func(s *management.ScheduleSpec) { s.Cron, s.Zone, s.Every = "", "", 1 }},
		"an unknown type":            {"type", func(s *management.ScheduleSpec) { s.Type = "nobody" }},
		"arguments of another type":  {"args", func(s *management.ScheduleSpec) { s.Args = json.RawMessage(`{"unknown":1}`) }},
		"arguments that are no JSON": {"args", func(s *management.ScheduleSpec) { s.Args = json.RawMessage(`{`) }},
		"long arguments": {"args", func(s *management.ScheduleSpec) {
			s.Args = json.RawMessage(`{"key":"` + strings.Repeat("x", management.MaxScheduleBytes) + `"}`)
		}},
		"an unknown policy": {"catch_up", func(s *management.ScheduleSpec) { s.CatchUp = "some" }},
		"a large bound":     {"max_catch_up", func(s *management.ScheduleSpec) { s.MaxCatchUp = management.MaxCatchUp + 1 }},
	} {
		t.Run(name, func(t *testing.T) {
			spec := hourly()
			c.change(&spec)
			_, err := managerOf(t, i.Inspector).CreateSchedule(t.Context(), i.name, "report", spec)
			var invalid *management.InvalidArgumentError
			require.ErrorAs(t, err, &invalid)
			assert.Equal(t, c.field, invalid.Field)
			assert.Less(t, len(err.Error()), 2000)
		})
	}
	for _, name := range []string{"", "a b", "a?", "a\x00", strings.Repeat("a", 129), "<b>"} {
		_, err := managerOf(t, i.Inspector).CreateSchedule(t.Context(), i.name, name, hourly())
		var invalid *management.InvalidArgumentError
		require.ErrorAs(t, err, &invalid, name)
	}
	_, err := managerOf(t, i.Inspector).CreateSchedule(t.Context(), "another", "report", hourly())
	require.ErrorIs(t, err, management.ErrUnknownQueue)
	page, err := managerOf(t, i.Inspector).StoredSchedules(t.Context(), management.ScheduleFilter{}, management.PageRequest{})
	require.NoError(t, err)
	assert.Empty(t, page.Schedules)
}

// Schedules of a thousand tenants are listed by queue and name, a page at a time.
func TestPagesOfStoredSchedules(t *testing.T) {
	w := newScheduleWorld(t, newMemory(t))
	i := w.inspector
	for q := range 4 {
		for n := range 5 {
			spec := hourly()
			spec.Outside = true
			spec.Type = "outside"
			_, err := i.CreateSchedule(t.Context(), fmt.Sprint("tenant ", q), fmt.Sprint("s", n), spec)
			require.NoError(t, err)
		}
	}
	list := func(filter management.ScheduleFilter, limit int) (names []string) {
		page := management.PageRequest{Limit: limit}
		for {
			found, err := i.StoredSchedules(t.Context(), filter, page)
			require.NoError(t, err)
			for _, s := range found.Schedules {
				names = append(names, s.Queue+"/"+s.Name)
			}
			if page.Cursor = found.Next; page.Cursor == "" {
				return names
			}
			require.LessOrEqual(t, len(found.Schedules), limit)
		}
	}
	var all []string
	for q := range 4 {
		for n := range 5 {
			all = append(all, fmt.Sprintf("tenant %d/s%d", q, n))
		}
	}
	assert.Equal(t, all, list(management.ScheduleFilter{}, 3))
	assert.Equal(t, all, list(management.ScheduleFilter{}, 20))
	assert.Equal(t, all[5:10], list(management.ScheduleFilter{Queues: []string{"tenant 1"}}, 2))
	assert.Equal(t, slices.Concat(all[:5], all[15:]), list(management.ScheduleFilter{Queues: []string{"tenant 3", "tenant 0"}}, 3))
	assert.Equal(t, []string{all[2], all[7], all[12], all[17]}, list(management.ScheduleFilter{Name: "S2"}, 3))
}

// scheduleWorld is a store with a group of queues.
type scheduleWorld struct {
	t         *testing.T
	group     amboy.QueueGroup
	inspector interface {
		management.Inspector
		management.ScheduleManager
	}
}

func newScheduleWorld(t *testing.T, store driver.Driver, amend ...func(*queue.DriverGroupOptions)) *scheduleWorld {
	t.Helper()
	opts := queue.DriverGroupOptions{DefaultQueue: queue.DriverQueueOptions{Driver: store, NumWorkers: workers, Format: amboy.JSON}}
	for _, change := range amend {
		change(&opts)
	}
	group, err := queue.NewDriverGroup(t.Context(), opts)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, group.Close(context.Background())) })
	return inspectGroup(t, group)
}

func inspectGroup(t *testing.T, group amboy.QueueGroup) *scheduleWorld {
	t.Helper()
	i, err := management.NewGroupInspector(group)
	require.NoError(t, err)
	w := &scheduleWorld{t: t, group: group}
	w.inspector = i.(interface {
		management.Inspector
		management.ScheduleManager
	})
	return w
}

// open opens the queue of a tenant.
func (w *scheduleWorld) open(tenant string) amboy.Queue {
	w.t.Helper()
	q, err := w.group.Get(w.t.Context(), tenant)
	require.NoError(w.t, err)
	return q
}

func (w *scheduleWorld) create(tenant, name string, spec management.ScheduleSpec) {
	w.t.Helper()
	_, err := w.inspector.CreateSchedule(w.t.Context(), tenant, name, spec)
	require.NoError(w.t, err)
}

func (w *scheduleWorld) runner() *management.ScheduleRunner {
	w.t.Helper()
	r, err := management.NewScheduleRunner(w.inspector)
	require.NoError(w.t, err)
	return r
}

// get returns the schedule that most tests have.
func (w *scheduleWorld) get() management.StoredSchedule {
	w.t.Helper()
	s, err := w.inspector.StoredSchedule(w.t.Context(), "acme", "report")
	require.NoError(w.t, err)
	return s
}

// jobs returns the IDs of all jobs of the tenant acme, sorted.
func (w *scheduleWorld) jobs() []string {
	w.t.Helper()
	found, err := w.inspector.FindJobs(w.t.Context(), management.JobFilter{Queues: []string{"acme"}}, management.PageRequest{Limit: 1000})
	require.NoError(w.t, err)
	ids := []string{}
	for _, j := range found.Jobs {
		ids = append(ids, j.ID)
	}
	slices.Sort(ids)
	return ids
}

// ticks returns the IDs of the jobs of the schedule report at minutes of the first day of synctest.
func ticks(minutes ...int) []string {
	ids := []string{}
	for _, m := range minutes {
		ids = append(ids, schedule.TickID("report", time.Date(2000, 1, 1, 0, m, 0, 0, time.UTC)))
	}
	slices.Sort(ids)
	return ids
}

func everyMinute() management.ScheduleSpec {
	spec := hourly()
	spec.Cron, spec.Zone = "* * * * *", ""
	return spec
}

// A runner puts the job of each tick in time, shows the runs, and stops while the schedule is
// paused.
func TestStoredScheduleRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newScheduleWorld(t, newMemory(t))
		w.open("acme")
		r := w.runner()
		require.NoError(t, r.Start(t.Context()))
		defer r.Close(context.Background())
		require.ErrorIs(t, r.Start(t.Context()), amboy.ErrAlreadyStarted)
		w.create("acme", "report", everyMinute())
		time.Sleep(3*time.Minute + time.Second)
		assert.Equal(t, ticks(1, 2, 3), w.jobs())
		s := w.get()
		require.Len(t, s.Runs, 3)
		assert.Equal(t, ticks(3)[0], s.Last.JobID)
		assert.Empty(t, s.Error)
		assert.WithinDuration(t, time.Now().Add(59*time.Second), s.Next, time.Second)

		_, err := w.inspector.PauseSchedule(t.Context(), "acme", "report", true)
		require.NoError(t, err)
		time.Sleep(3 * time.Minute)
		assert.Len(t, w.jobs(), 3)
		_, err = w.inspector.PauseSchedule(t.Context(), "acme", "report", false)
		require.NoError(t, err)
		time.Sleep(2 * time.Minute)
		assert.Equal(t, ticks(1, 2, 3, 7, 8), w.jobs(), "ticks of the pause are not caught up with")

		spec := everyMinute()
		spec.Cron = "*/10 * * * *"
		_, err = w.inspector.ChangeSchedule(t.Context(), "acme", "report", management.ScheduleChange{ScheduleSpec: spec})
		require.NoError(t, err)
		time.Sleep(13 * time.Minute)
		assert.Equal(t, ticks(1, 2, 3, 7, 8, 10, 20), w.jobs())
		require.NoError(t, w.inspector.DeleteSchedule(t.Context(), "acme", "report"))
		time.Sleep(20 * time.Minute)
		assert.Len(t, w.jobs(), 7)
		assert.Zero(t, notesOf(t, w.group, "stored-schedule", "stored-schedule-hint", "stored-schedule-state"), "nothing is left behind")
	})
}

// notesOf counts the notes of some kinds.
func notesOf(t *testing.T, group amboy.QueueGroup, kinds ...string) (n int) {
	t.Helper()
	store, ok := queue.StoreOfGroup(group)
	require.True(t, ok)
	for _, kind := range kinds {
		notes, err := store.Admin().Notes(t.Context(), driver.NoteRequest{Kind: kind, Limit: 1000})
		require.NoError(t, err)
		n += len(notes)
	}
	return n
}

// While no process runs, ticks are missed. A change of the priority does not change the ticks.
func TestMissedTicksOfAStoredSchedule(t *testing.T) {
	for catchUp, want := range map[schedule.CatchUp][]int{
		schedule.CatchUpNone:   {10, 70},
		schedule.CatchUpLatest: {10, 60, 70},
		schedule.CatchUpAll:    {10, 40, 50, 60, 70},
	} {
		t.Run(string(catchUp), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newScheduleWorld(t, newMemory(t))
				w.open("acme")
				spec := everyMinute()
				spec.Cron, spec.CatchUp, spec.MaxCatchUp = "*/10 * * * *", catchUp, 3
				w.create("acme", "report", spec)
				r := w.runner()
				require.NoError(t, r.Start(t.Context()))
				time.Sleep(10*time.Minute + time.Second)
				r.Close(context.Background())
				time.Sleep(55 * time.Minute)
				spec.Priority = 1
				_, err := w.inspector.ChangeSchedule(t.Context(), "acme", "report", management.ScheduleChange{ScheduleSpec: spec})
				require.NoError(t, err)
				late := w.runner()
				_, err = late.PutDue(t.Context())
				require.NoError(t, err)
				assert.Equal(t, catchUp == schedule.CatchUpNone, w.get().Last.Missed)
				time.Sleep(5 * time.Minute)
				_, err = late.PutDue(t.Context())
				require.NoError(t, err)
				assert.Equal(t, ticks(want...), w.jobs())
			})
		})
	}
}

// A schedule whose job can't be put shows the reason, is tried again, and loses no tick.
func TestStoredScheduleOfADrainingQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newScheduleWorld(t, newMemory(t))
		q := w.open("acme")
		spec := everyMinute()
		spec.CatchUp = schedule.CatchUpAll
		w.create("acme", "report", spec)
		r := w.runner()
		require.NoError(t, r.Start(t.Context()))
		defer r.Close(context.Background())
		require.NoError(t, amboy.Drain(t.Context(), q))
		time.Sleep(5*time.Minute + 30*time.Second)
		assert.Empty(t, w.jobs())
		assert.Contains(t, w.get().Error, "draining")
		require.NoError(t, amboy.Resume(t.Context(), q))
		time.Sleep(time.Minute)
		assert.Equal(t, ticks(1, 2, 3, 4, 5, 6), w.jobs())
		assert.Empty(t, w.get().Error)
	})
}

// Queues are pruned between ticks, also those of a group that forgets their marks with them.
func TestStoredScheduleOfAPrunedQueue(t *testing.T) {
	pruned := func(t *testing.T, group amboy.QueueGroup) {
		w := inspectGroup(t, group)
		store, ok := queue.StoreOfGroup(group)
		require.True(t, ok)
		w.open("acme")
		ran := map[string]int{}
		var mu sync.Mutex
		key := t.Name()
		runs.Store(key, func(_ context.Context, j *task) {
			mu.Lock()
			defer mu.Unlock()
			ran[j.ID()]++
		})
		defer runs.Delete(key)
		spec := everyMinute()
		spec.Cron = "*/10 * * * *"
		spec.Args = json.RawMessage(fmt.Sprintf(`{"key":%q}`, key))
		w.create("acme", "report", spec)
		r := w.runner()
		require.NoError(t, r.Start(t.Context()))
		defer r.Close(context.Background())
		for range 4 {
			time.Sleep(10*time.Minute - time.Second)
			require.NoError(t, group.Prune(t.Context()))
			_, isOpen := store.Queue("acme")
			assert.False(t, isOpen)
		}
		time.Sleep(time.Minute)
		mu.Lock()
		defer mu.Unlock()
		wanted := map[string]int{}
		for _, id := range ticks(10, 20, 30, 40) {
			wanted[id] = 1
		}
		assert.Equal(t, wanted, ran)
	}
	t.Run("driver", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := newScheduleWorld(t, newMemory(t), func(o *queue.DriverGroupOptions) { o.TTL = time.Minute })
			pruned(t, w.group)
		})
	})
	t.Run("local", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			group, err := queue.NewLocalQueueGroup(t.Context(), queue.LocalQueueGroupOptions{
				TTL: time.Minute,
				DefaultQueue: queue.LocalQueueOptions{Constructor: func(context.Context) (amboy.Queue, error) {
					return queue.NewLocal(queue.LocalOptions{NumWorkers: workers})
				}},
			})
			require.NoError(t, err)
			defer func() { assert.NoError(t, group.Close(context.Background())) }()
			pruned(t, group)
		})
	})
}

// During a deploy, processes of the old version do not know the type of a new schedule.
func TestStoredScheduleOfATypeThatOnlyANewProcessKnows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newScheduleWorld(t, newMemory(t))
		w.open("acme")
		w.create("acme", "report", everyMinute())
		newType := "known to the new process " + rand.Text() // types are registered for good
		store, ok := queue.StoreOfGroup(w.group)
		require.True(t, ok)
		notes, err := store.Admin().Notes(t.Context(), driver.NoteRequest{Kind: "stored-schedule", Limit: 1})
		require.NoError(t, err)
		notes[0].Value = bytes.ReplaceAll(notes[0].Value, []byte(`"alpha"`), []byte(`"`+newType+`"`))
		require.NoError(t, store.Admin().Keep(t.Context(), notes...))
		r := w.runner()
		_, err = r.PutDue(t.Context())
		require.NoError(t, err)
		time.Sleep(61 * time.Second)
		_, err = r.PutDue(t.Context())
		require.NoError(t, err)
		assert.Empty(t, w.get().Error, "another process may know it")
		time.Sleep(30 * time.Second)
		_, err = r.PutDue(t.Context())
		require.NoError(t, err)
		assert.Contains(t, w.get().Error, newType)
		registry.AddJobType(newType, func() amboy.Job { return newTask("", newType) })
		time.Sleep(2 * time.Second)
		_, err = r.PutDue(t.Context())
		require.NoError(t, err)
		assert.Equal(t, ticks(1), w.jobs())
		assert.Empty(t, w.get().Error)
	})
}

// A definition that this version can't read must not keep others from running.
func TestAnUnreadableScheduleDoesNotStopOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newScheduleWorld(t, newMemory(t))
		w.open("acme")
		const all = 300 // more than are read at once
		for n := range all {
			w.create("acme", fmt.Sprint("s", n), everyMinute())
		}
		store, ok := queue.StoreOfGroup(w.group)
		require.True(t, ok)
		notes, err := store.Admin().Notes(t.Context(), driver.NoteRequest{Kind: "stored-schedule", Limit: 1})
		require.NoError(t, err)
		notes[0].Value = []byte("{")
		require.NoError(t, store.Admin().Keep(t.Context(), notes...))
		time.Sleep(time.Minute)
		_, err = w.runner().PutDue(t.Context())
		require.NoError(t, err)
		assert.Len(t, w.jobs(), all-1)
	})
}

func TestNewScheduleRunnerNeedsAnInspectorWithQueues(t *testing.T) {
	_, err := management.NewScheduleRunner(nil)
	require.ErrorIs(t, err, management.ErrUnsupported)
}

// A process whose clock is a day ahead has put the jobs of the next day.
func TestAScheduleThatWaitsForAWrongClockLookedActive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newScheduleWorld(t, newMemory(t))
		w.open("acme")
		w.create("acme", "report", everyMinute())
		wrong := w.runner()
		wrong.SetClock(func() time.Time { return time.Now().Add(24 * time.Hour) })
		_, err := wrong.PutDue(t.Context())
		require.NoError(t, err)
		r := w.runner()
		require.NoError(t, r.Start(t.Context()))
		defer r.Close(context.Background())
		time.Sleep(10 * time.Minute)
		require.Len(t, w.jobs(), 1)
		s := w.get()
		assert.Contains(t, s.Error, "in the future")
		assert.Equal(t, s.Last.Tick.Add(time.Minute), s.Next)
		page, err := w.inspector.StoredSchedules(t.Context(), management.ScheduleFilter{}, management.PageRequest{})
		require.NoError(t, err)
		assert.Equal(t, s.Error, page.Schedules[0].Error)
		time.Sleep(24 * time.Hour)
		assert.Empty(t, w.get().Error)
	})
}

// The job of the first tick keeps the key, because the queue is paused.
func TestATickWhoseUniqueKeyWasTakenShowedAJobThatWasNotPut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newScheduleWorld(t, newMemory(t))
		paused := true
		w.open("acme")
		_, err := w.inspector.SetControl(t.Context(), "acme", management.ControlChange{Paused: &paused})
		require.NoError(t, err)
		spec := everyMinute()
		spec.Type, spec.Outside, spec.UniqueKey = "for others", true, "key"
		w.create("acme", "report", spec)
		r := w.runner()
		require.NoError(t, r.Start(t.Context()))
		defer r.Close(context.Background())
		time.Sleep(3*time.Minute + time.Second)
		require.Equal(t, ticks(1), w.jobs())
		var shown []string
		for _, run := range w.get().Runs {
			if run.JobID != "" {
				shown = append(shown, run.JobID)
			} else {
				assert.True(t, run.Missed)
			}
		}
		assert.Equal(t, ticks(1), shown)
		assert.Len(t, w.get().Runs, 3)
	})
}

// stateReads counts the notes with states and histories of schedules that are read.
type stateReads struct {
	driver.Driver
	read int
}

func (s *stateReads) Notes(ctx context.Context, req driver.NoteRequest) ([]driver.Note, error) {
	found, err := s.Driver.Notes(ctx, req)
	if strings.HasPrefix(req.Kind, "stored-schedule-") && req.Kind != "stored-schedule-hint" {
		s.read += len(found)
	}
	return found, err
}

// A list of two queues took as long as one of all queues between them.
func TestAListOfSchedulesOfTwoQueuesReadTheHistoriesOfAllBetween(t *testing.T) {
	store := &stateReads{Driver: newMemory(t)}
	w := newScheduleWorld(t, store)
	spec := everyMinute()
	spec.Outside, spec.Type = true, "outside"
	for _, tenant := range []string{"a", "b", "c", "d", "e"} {
		w.create(tenant, "report", spec)
		_, err := w.inspector.TriggerSchedule(t.Context(), tenant, "report", "")
		require.NoError(t, err)
	}
	store.read = 0
	found, err := w.inspector.StoredSchedules(t.Context(), management.ScheduleFilter{Queues: []string{"e", "a"}}, management.PageRequest{})
	require.NoError(t, err)
	require.Len(t, found.Schedules, 2)
	assert.NotNil(t, found.Schedules[0].Last)
	assert.NotNil(t, found.Schedules[1].Last)
	assert.Equal(t, 2, store.read)
}
