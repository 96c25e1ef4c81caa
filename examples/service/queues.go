package main

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"go.opentelemetry.io/otel/propagation"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/middleware"
	"github.com/mongodb/amboy/middleware/otelamboy"
	"github.com/mongodb/amboy/queue"
	"github.com/mongodb/amboy/queue/driver/sqlite"
	"github.com/mongodb/amboy/schedule"
)

// queues are a queue for each tenant, and the schedules that put jobs in them.
type queues struct {
	group     amboy.QueueGroup
	schedules *schedule.Tenants
}

// openQueues opens the queues in a file and starts them. Jobs that a process left there continue.
func openQueues(ctx context.Context, file string, books *books) (*queues, error) {
	// The global providers of OpenTelemetry do nothing until a service sets them.
	traces, err := otelamboy.New(otelamboy.Options{Queue: "tenants", Propagator: propagation.TraceContext{}})
	if err != nil {
		return nil, err
	}
	store, err := sqlite.Open(ctx, sqlite.Options{Path: file}) // the only line that names the store
	if err != nil {
		return nil, err
	}
	group, err := queue.NewDriverGroup(ctx, queue.DriverGroupOptions{
		DefaultQueue: queue.DriverQueueOptions{
			Driver:      store,
			CloseDriver: true,
			NumWorkers:  4, // the most that one tenant can have
			Middleware: []amboy.Middleware{
				middleware.Log(slog.Default()),
				middleware.Context(books.attach),
			},
		},
		// Spans and metrics have the name of the tenant.
		MiddlewareFor: func(tenant string) []amboy.Middleware { return []amboy.Middleware{traces.For(tenant).Middleware()} },
		Workers:       16,               // of all tenants
		TTL:           10 * time.Minute, // a queue without work is closed after that
	})
	if err != nil {
		return nil, errors.Join(err, store.Close(ctx))
	}
	schedules, err := startSchedules(ctx, group)
	if err != nil {
		return nil, errors.Join(err, group.Close(ctx))
	}
	return &queues{group, schedules}, nil
}

// startSchedules closes the last month of every tenant on the first day of the next. If several
// processes share the store, all of them may do this: each job is put once.
func startSchedules(ctx context.Context, group amboy.QueueGroup) (*schedule.Tenants, error) {
	names := func(context.Context) ([]string, error) { return tenants, nil } // a service asks its database
	schedules, err := schedule.NewTenants(group, names, schedule.Options{})
	if err != nil {
		return nil, err
	}
	firstDay, err := schedule.Cron("0 6 1 * *", "Europe/Berlin")
	if err != nil {
		return nil, err
	}
	newJob := func(tenant string, tick time.Time) (amboy.Job, error) {
		return closeMonth.New(month{tenant, tick.AddDate(0, -1, 0).Format("2006-01")})
	}
	err = schedules.Add("close-month", firstDay, newJob, schedule.CatchUpLatest)
	if err != nil {
		return nil, err
	}
	err = schedules.Start(ctx)
	return schedules, err
}

// close waits for running jobs until ctx ends, and then cancels them. What has not ended is in the
// file, for the next process.
func (q *queues) close(ctx context.Context) error {
	q.schedules.Close(ctx)
	return q.group.Close(ctx)
}
