package schedule_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/job"
	"github.com/mongodb/amboy/queue"
	"github.com/mongodb/amboy/queue/driver/memory"
	"github.com/mongodb/amboy/schedule"
)

// must stands for the handling of an error.
func must(err error) {
	if err != nil {
		panic(err)
	}
}

// period is the period of a report.
type period struct{ Day string }

var reported = make(chan struct{})

var report = job.Define("example-report", 1, func(context.Context, period) error {
	fmt.Println("reporting")
	close(reported)
	return nil
})

func Example() {
	ctx := context.Background()
	q, err := queue.NewLocal(queue.LocalOptions{NumWorkers: 2})
	must(err)
	must(q.Start(ctx))
	defer q.Close(ctx)

	s, err := schedule.New(q, schedule.Options{})
	must(err)
	weekdays, err := schedule.Cron("30 8 * * MON-FRI", "Europe/Berlin")
	must(err)
	dayBefore := schedule.JobOf(report, func(tick time.Time) period {
		return period{Day: tick.AddDate(0, 0, -1).Format(time.DateOnly)}
	})
	must(s.Add("daily-report", weekdays, dayBefore, schedule.CatchUpLatest))

	soon, err := schedule.At(time.Now().Add(50 * time.Millisecond))
	must(err)
	must(s.Add("first-report", soon, dayBefore, schedule.CatchUpNone))

	must(s.Start(ctx))
	defer s.Close(ctx) // before the queue
	<-reported
	// Output: reporting
}

func ExampleCron() {
	// On the last Sunday of March the clocks are put forward from 2:00 to 3:00.
	nightly, err := schedule.Cron("30 2 * * *", "Europe/Berlin")
	must(err)
	saturday := time.Date(2030, 3, 30, 12, 0, 0, 0, time.UTC)
	for _, tick := range schedule.Upcoming(nightly, saturday, 2) {
		fmt.Println(tick.Format("Mon 15:04 MST"))
	}

	// On the last Sunday of October they are put back from 3:00 to 2:00.
	saturday = time.Date(2030, 10, 26, 12, 0, 0, 0, time.UTC)
	for _, tick := range schedule.Upcoming(nightly, saturday, 2) {
		fmt.Println(tick.Format("Mon 15:04 MST"))
	}

	_, err = schedule.Cron("0 0 31 4 *", "Europe/Berlin")
	fmt.Println(err)
	_, err = schedule.Cron("0 0 * * *", "Berlin")
	var invalid *schedule.InvalidError
	fmt.Println(errors.As(err, &invalid), invalid.Field, invalid.Value)
	// Output:
	// Sun 03:00 CEST
	// Mon 02:30 CEST
	// Sun 02:30 CEST
	// Mon 02:30 CET
	// invalid schedule: cron expression must match a day that exists (is "0 0 31 4 *")
	// true time zone Berlin
}

func ExampleEvery() {
	anchor := time.Date(2030, 1, 1, 0, 20, 0, 0, time.UTC)
	shifts, err := schedule.Every(8*time.Hour, anchor)
	must(err)
	for _, tick := range schedule.Upcoming(shifts, time.Date(2030, 6, 1, 12, 0, 0, 0, time.UTC), 3) {
		fmt.Println(tick.Format(time.DateTime))
	}
	// Output:
	// 2030-06-01 16:20:00
	// 2030-06-02 00:20:00
	// 2030-06-02 08:20:00
}

func ExampleScheduler_List() {
	q, err := queue.NewLocal(queue.LocalOptions{NumWorkers: 2})
	must(err)
	s, err := schedule.New(q, schedule.Options{})
	must(err)
	newReport := schedule.JobOf(report, func(time.Time) period { return period{} })
	quarterly, err := schedule.Cron("0 6 L jan/3 *", "America/New_York")
	must(err)
	once, err := schedule.At(time.Date(2130, 1, 1, 9, 0, 0, 0, time.UTC))
	must(err)
	must(s.Add("quarterly", quarterly, newReport, schedule.CatchUpAll))
	must(s.Add("centenary", once, newReport, schedule.CatchUpLatest))
	for _, info := range s.List() {
		fmt.Printf("%s: %s, catch up %s, next in the future: %t\n", info.Name, info.Schedule, info.CatchUp, info.Next.After(time.Now()))
	}
	// Output:
	// centenary: at 2130-01-01T09:00:00Z, catch up latest, next in the future: true
	// quarterly: cron 0 6 L jan/3 *, America/New_York, catch up all, next in the future: true
}

// A schedule that was turned off for a while does not catch up with what it missed.
func ExampleSkip() {
	ctx := context.Background()
	q, err := queue.NewLocal(queue.LocalOptions{NumWorkers: 1})
	must(err)
	s, err := schedule.New(q, schedule.Options{})
	must(err)
	anHourAgo, err := schedule.At(time.Now().Add(-time.Hour))
	must(err)
	must(schedule.Skip(ctx, q, "cleaning", time.Now().Add(-2*time.Hour))) // since then it was off
	must(schedule.Skip(ctx, q, "cleaning", time.Now()))                   // now it is on again
	must(s.Add("cleaning", anHourAgo, schedule.JobOf(report, func(time.Time) period { return period{} }), schedule.CatchUpAll))
	_, err = s.PutDue(ctx)
	must(err)
	fmt.Println(q.Stats(ctx).Total, "jobs")
	// Output: 0 jobs
}

var cleanUp = job.Define("example-clean-up", 1, func(context.Context, string) error { return nil })

// listTenants stands for a query of the service's own data.
func listTenants(context.Context) ([]string, error) { return []string{"acme", "globex"}, nil }

func ExampleNewTenants() {
	ctx := context.Background()
	store, err := memory.New(memory.Options{KeepFinished: 100})
	must(err)
	group, err := queue.NewDriverGroup(ctx, queue.DriverGroupOptions{
		DefaultQueue: queue.DriverQueueOptions{Driver: store, CloseDriver: true, NumWorkers: 1},
		TTL:          time.Minute,
	})
	must(err)
	nightly, err := schedule.Cron("0 3 * * *", "Europe/Berlin")
	must(err)

	one, err := schedule.NewInGroup(group, "acme", schedule.Options{})
	must(err)
	must(one.Add("clean-acme", nightly, schedule.JobOf(cleanUp, func(time.Time) string { return "acme" }), schedule.CatchUpLatest))
	must(one.Start(ctx))

	all, err := schedule.NewTenants(group, listTenants, schedule.Options{})
	must(err)
	must(all.Add("clean-up", nightly, func(tenant string, _ time.Time) (amboy.Job, error) {
		return cleanUp.New(tenant)
	}, schedule.CatchUpLatest))
	_, err = all.PutDue(ctx) // a service does not call this: here it lists the tenants before the line below prints them
	must(err)
	must(all.Start(ctx))

	fmt.Println(len(one.List()), len(all.List()["acme"]), len(all.List()["globex"]))
	one.Close(ctx)
	all.Close(ctx) // before the group
	must(group.Close(ctx))
	// Output: 1 1 1
}

// A process that is not always running catches up with the latest tick that it missed.
func ExampleNew() {
	ctx := context.Background()
	q := queue.NewLocalLimitedSize(1, 100)
	must(q.Start(ctx))
	defer q.Close(ctx)
	s, err := schedule.New(q, schedule.Options{})
	must(err)
	hourly, err := schedule.Cron("0 * * * *", "UTC")
	must(err)
	must(s.Add("clean-up", hourly, schedule.JobOf(cleanUp, func(tick time.Time) string {
		return tick.Format("15:04")
	}), schedule.CatchUpLatest))
	must(s.Start(ctx))
	s.Close(ctx) // before the queue
	fmt.Println(len(s.List()))
	// Output: 1
}

// For one queue of a group, which may be closed while it is idle.
func ExampleNewInGroup() {
	ctx := context.Background()
	store, err := memory.New(memory.Options{KeepFinished: 100})
	must(err)
	group, err := queue.NewDriverGroup(ctx, queue.DriverGroupOptions{
		DefaultQueue: queue.DriverQueueOptions{Driver: store, CloseDriver: true, NumWorkers: 1},
		TTL:          time.Minute,
	})
	must(err)
	s, err := schedule.NewInGroup(group, "acme", schedule.Options{})
	must(err)
	nightly, err := schedule.Cron("0 3 * * *", "Europe/Berlin")
	must(err)
	must(s.Add("clean-acme", nightly, schedule.JobOf(cleanUp, func(time.Time) string { return "acme" }), schedule.CatchUpLatest))
	must(s.Start(ctx))
	s.Close(ctx) // before the group
	must(group.Close(ctx))
	fmt.Println(s.List()[0].Name)
	// Output: clean-acme
}

// Put a job at some times, once each.
func ExampleAt() {
	soon := time.Date(2030, 1, 1, 9, 0, 0, 0, time.UTC)
	ticks, err := schedule.At(soon.AddDate(0, 0, 7), soon)
	must(err)
	for _, tick := range schedule.Upcoming(ticks, soon.Add(-time.Hour), 5) {
		fmt.Println(tick.Format(time.DateTime))
	}
	// Output:
	// 2030-01-01 09:00:00
	// 2030-01-08 09:00:00
}

// The job of a tick gets its arguments from the tick.
func ExampleJobOf() {
	newJob := schedule.JobOf(report, func(tick time.Time) period {
		return period{Day: tick.AddDate(0, 0, -1).Format(time.DateOnly)}
	}, job.Priority(-1))
	j, err := newJob(time.Date(2030, 1, 1, 7, 30, 0, 0, time.UTC))
	must(err)
	args, err := report.Args(j)
	must(err)
	fmt.Println(args.Day, amboy.PriorityOf(j))
	// Output: 2029-12-31 -1
}

// Check a schedule before it is used.
func ExampleUpcoming() {
	workdays, err := schedule.Cron("0 9 * * MON-FRI", "America/New_York")
	must(err)
	friday := time.Date(2030, 2, 1, 12, 0, 0, 0, time.UTC)
	for _, tick := range schedule.Upcoming(workdays, friday, 2) {
		fmt.Println(tick.Format("Mon 15:04 MST"))
	}
	// Output:
	// Fri 09:00 EST
	// Mon 09:00 EST
}
