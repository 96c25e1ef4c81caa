package middleware_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/job"
	"github.com/mongodb/amboy/middleware"
	"github.com/mongodb/amboy/queue"
	"github.com/mongodb/amboy/queue/driver/memory"
)

var deliver = job.Define("middleware-example.deliver", 1, func(_ context.Context, address string) error {
	if address == "" {
		return errors.New("nowhere to go")
	}
	return nil
})

// withoutTimes makes the output of an example deterministic.
func withoutTimes(_ []string, a slog.Attr) slog.Attr {
	if a.Key == slog.TimeKey || a.Key == "duration" {
		return slog.Attr{}
	}
	return a
}

// ExampleLog logs how each attempt of a job ended.
func ExampleLog() {
	logger := slog.New(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{ReplaceAttr: withoutTimes}))
	ctx := context.Background()
	store, err := memory.New(memory.Options{KeepFinished: 10})
	if err != nil {
		fmt.Println(err)
		return
	}
	q, err := queue.NewDriverQueue(queue.DriverQueueOptions{
		Driver:      store,
		CloseDriver: true,
		Name:        "mail",
		NumWorkers:  1,
		Middleware:  []amboy.Middleware{middleware.Log(logger)},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer q.Close(ctx)
	if err = q.Start(ctx); err != nil {
		fmt.Println(err)
		return
	}
	for id, address := range map[string]string{"a": "", "b": "Main St"} {
		if _, err = deliver.Put(ctx, q, address, job.ID(id)); err != nil {
			fmt.Println(err)
		}
		amboy.Wait(ctx, q)
	}
	// Unordered output:
	// level=ERROR msg="job ended" queue=mail job_id=a job_type=middleware-example.deliver attempt=1 outcome=failed error="nowhere to go"
	// level=INFO msg="job ended" queue=mail job_id=b job_type=middleware-example.deliver attempt=1 outcome=succeeded
}

type mailerKey struct{}

// mailer stands for what a job can't be stored with.
type mailer func(to string)

var welcome = job.Define("middleware-example.welcome", 1, func(ctx context.Context, address string) error {
	ctx.Value(mailerKey{}).(mailer)(address)
	return nil
})

// ExampleContext gives jobs the mailer of the service.
func ExampleContext() {
	var send mailer = func(to string) { fmt.Println("welcome,", to) }
	q, err := queue.NewLocal(queue.LocalOptions{
		NumWorkers: 1,
		Middleware: []amboy.Middleware{middleware.Context(func(ctx context.Context) context.Context {
			return context.WithValue(ctx, mailerKey{}, send)
		})},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	if err = q.Start(ctx); err != nil {
		fmt.Println(err)
		return
	}
	defer q.Close(ctx)
	if err = welcome.PutAndWait(ctx, q, "ann"); err != nil {
		fmt.Println(err)
	}
	// Output: welcome, ann
}

// ExampleRecover reports panics to a service of its own.
func ExampleRecover() {
	report := func(_ context.Context, j amboy.Job, panicked *amboy.PanicError) {
		fmt.Println("reporting", j.ID(), panicked.Value)
	}
	q, err := queue.NewLocal(queue.LocalOptions{NumWorkers: 1, Middleware: []amboy.Middleware{middleware.Recover(report)}})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	if err = q.Start(ctx); err != nil {
		fmt.Println(err)
		return
	}
	defer q.Close(ctx)
	broken := job.Define("middleware-example.broken", 1, func(context.Context, string) error { panic("out of paper") })
	_, err = broken.Put(ctx, q, "", job.ID("print"))
	fmt.Println(err, amboy.Wait(ctx, q))
	// Unordered output:
	// reporting print out of paper
	// <nil> true
}

// counting is middleware that prints how each attempt ended.
var counting = amboy.Middleware{Run: func(next amboy.RunFunc) amboy.RunFunc {
	return func(ctx context.Context, j amboy.Job) error {
		err := next(ctx, j)
		fmt.Println(j.ID(), middleware.OutcomeOf(ctx, j, err))
		return err
	}
}}

// ExampleOutcomeOf tells a failure that is retried from one that is not.
func ExampleOutcomeOf() {
	ctx := context.Background()
	q, err := queue.NewLocal(queue.LocalOptions{NumWorkers: 1, Middleware: []amboy.Middleware{counting}})
	if err != nil {
		fmt.Println(err)
		return
	}
	if err = q.Start(ctx); err != nil {
		fmt.Println(err)
		return
	}
	defer q.Close(ctx)
	_, err = deliver.Put(ctx, q, "Main St", job.ID("good"))
	fmt.Println(err, amboy.Wait(ctx, q))
	_, err = deliver.Put(ctx, q, "", job.ID("bad"), job.MaxAttempts(2))
	fmt.Println(err, amboy.Wait(ctx, q))
	// Output:
	// good succeeded
	// <nil> true
	// bad retrying
	// bad failed
	// <nil> true
}
