package schedule_test

import (
	"context"
	"fmt"
	"time"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/job"
	"github.com/mongodb/amboy/queue"
	"github.com/mongodb/amboy/queue/driver/memory"
	"github.com/mongodb/amboy/schedule"
)

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
	must(all.Start(ctx))

	_, err = all.PutDue(ctx) // a service does not call this: here it waits until the tenants were listed
	must(err)
	fmt.Println(len(one.List()), len(all.List()["acme"]), len(all.List()["globex"]))
	one.Close(ctx)
	all.Close(ctx) // before the group
	must(group.Close(ctx))
	// Output: 1 1 1
}
