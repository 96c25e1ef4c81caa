package management_test

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/mongodb/amboy/job"
	"github.com/mongodb/amboy/management"
	"github.com/mongodb/amboy/queue"
	"github.com/mongodb/amboy/queue/driver/memory"
	"github.com/mongodb/amboy/schedule"
)

var remind = job.Define("remind", 1, func(_ context.Context, whom string) error {
	fmt.Println("reminding", whom)
	return nil
})

// A tenant stores a schedule while the service runs, and runs it once by hand.
func ExampleScheduleManager() {
	ctx := management.WithActor(context.Background(), "ann")
	store, err := memory.New(memory.Options{KeepFinished: 100})
	must(err)
	group, err := queue.NewDriverGroup(ctx, queue.DriverGroupOptions{
		DefaultQueue: queue.DriverQueueOptions{Driver: store, CloseDriver: true, NumWorkers: 1},
	})
	must(err)
	defer func() { must(group.Close(ctx)) }()
	q, err := group.Get(ctx, "acme")
	must(err)

	inspector, err := management.NewGroupInspector(group)
	must(err)
	runner, err := management.NewScheduleRunner(inspector)
	must(err)
	must(runner.Start(ctx))
	defer runner.Close(ctx) // before the group

	schedules := inspector.(management.ScheduleManager)
	s, err := schedules.CreateSchedule(ctx, "acme", "monday-reminder", management.ScheduleSpec{
		Cron:    "30 8 * * MON",
		Zone:    "Europe/Berlin",
		CatchUp: schedule.CatchUpNone, // drop missed ticks
		ScheduledJob: management.ScheduledJob{
			Type: remind.Type().Name,
			Args: json.RawMessage(`"Grace"`),
		},
	})
	must(err)
	fmt.Println(s.Next.Weekday(), s.Next.Format(time.TimeOnly))

	run, err := schedules.TriggerSchedule(ctx, "acme", "monday-reminder", "")
	must(err)
	must(remind.Wait(ctx, q, run.ID))
	s, err = schedules.PauseSchedule(ctx, "acme", "monday-reminder", true)
	must(err)
	fmt.Println(s.Last.JobID == run.ID, s.Paused)
	// Output:
	// Monday 08:30:00
	// reminding Grace
	// true true
}
