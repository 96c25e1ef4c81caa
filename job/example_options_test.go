package job_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/job"
	"github.com/mongodb/amboy/queue"
)

// say is a job that fails if it has nothing to say.
var say = job.Define("say", 1, func(_ context.Context, text string) error {
	if text == "" {
		return errors.New("nothing to say")
	}
	_, err := fmt.Println(text)
	return err
})

// inline returns a queue whose jobs run, one after the other, when the example says so.
func inline() *queue.Inline {
	q, err := queue.NewInline(queue.InlineOptions{Time: time.Date(2030, 1, 1, 9, 0, 0, 0, time.UTC)})
	must(err)
	return q
}

// The job with the larger priority runs first.
func ExamplePriority() {
	ctx := context.Background()
	q := inline()
	defer q.Close(ctx)

	_, err := say.Put(ctx, q, "newsletter", job.Priority(-1))
	must(err)
	_, err = say.Put(ctx, q, "receipt")
	must(err)
	_, err = say.Put(ctx, q, "password reset", job.Priority(10))
	must(err)
	q.RunAll(ctx)
	// Output:
	// password reset
	// receipt
	// newsletter
}

// A job that waits for its time occupies no worker.
func ExampleIn() {
	ctx := context.Background()
	q := inline()
	defer q.Close(ctx)

	_, err := say.Put(ctx, q, "reminder", job.In(time.Hour))
	must(err)
	_, err = say.Put(ctx, q, "welcome")
	must(err)
	fmt.Println(q.RunAll(ctx), "ran")
	q.AdvanceTo(q.Now().Add(time.Hour))
	fmt.Println(q.RunAll(ctx), "ran")
	// Output:
	// welcome
	// 1 ran
	// reminder
	// 1 ran
}

// A job that has not started by its dispatch-by time expires.
func ExampleDispatchBy() {
	ctx := context.Background()
	q := inline()
	defer q.Close(ctx)

	id, err := say.Put(ctx, q, "price of today", job.DispatchBy(q.Now().Add(time.Hour)))
	must(err)
	q.AdvanceTo(q.Now().Add(2 * time.Hour))
	q.RunAll(ctx)
	j, _ := q.Get(ctx, id)
	fmt.Println(amboy.NewJobInfo(j).State)
	// Output: expired
}

// A job that depends on a job which fails does not run.
func ExampleAfter() {
	ctx := context.Background()
	q := inline()
	defer q.Close(ctx)

	load, err := say.Put(ctx, q, "load")
	must(err)
	report, err := say.Put(ctx, q, "", job.After(load))
	must(err)
	mail, err := say.Put(ctx, q, "mail", job.After(report))
	must(err)
	q.RunAll(ctx)
	fmt.Println(say.Wait(ctx, q, mail) != nil)
	// Output:
	// load
	// true
}

// A job that cleans up runs whatever happened before.
func ExampleRunOnFailure() {
	ctx := context.Background()
	q := inline()
	defer q.Close(ctx)

	load, err := say.Put(ctx, q, "") // will fail
	must(err)
	_, err = say.Put(ctx, q, "clean up", job.After(load), job.RunOnFailure())
	must(err)
	q.RunAll(ctx)
	// Output: clean up
}

// sendMail is declared in a package that every process imports.
var sendMail = job.Declare[string]("example.send-mail", 1, job.Defaults[string]{MaxAttempts: 5})

// Only the process that runs the jobs has their function, and what that needs.
func ExampleDefinition_Bind() {
	ctx := context.Background()
	server := func(to string) error {
		_, err := fmt.Println("mail to", to)
		return err
	}
	must(sendMail.Bind(func(_ context.Context, to string) error { return server(to) }))

	q := inline()
	defer q.Close(ctx)
	_, err := sendMail.Put(ctx, q, "ann")
	must(err)
	q.RunAll(ctx)
	// Output: mail to ann
}

// A scope is a lock. With EnqueueScopes, Put takes it, and refuses other jobs that would.
func ExampleEnqueueScopes() {
	ctx := context.Background()
	q := inline()
	defer q.Close(ctx)

	_, err := say.Put(ctx, q, "first", job.Scopes("account 7"), job.EnqueueScopes(true))
	must(err)
	_, err = say.Put(ctx, q, "second", job.Scopes("account 7"), job.EnqueueScopes(true))
	fmt.Println(amboy.IsDuplicateJobScopeError(err))
	q.RunAll(ctx)
	// Output:
	// true
	// first
}

var inAccount = job.Define("in-account", 1, func(ctx context.Context, _ string) error {
	for info := range amboy.QueueFromContext(ctx).JobInfo(ctx) {
		if info.State == amboy.StateBlocked {
			fmt.Println(info.Status.Reason)
		}
	}
	return nil
}, job.Defaults[string]{
	Scopes: func(account string) []string { return []string{"account " + account} },
})

// The second job waits for the scope of the first.
func ExampleScopes() {
	ctx := context.Background()
	q := inline()
	defer q.Close(ctx)

	_, err := inAccount.Put(ctx, q, "7") // takes its scope from the defaults
	must(err)
	_, err = say.Put(ctx, q, "next", job.Scopes("account 7"))
	must(err)
	q.RunAll(ctx)
	// Output:
	// waits for scope "account 7"
	// next
}

// At most two of the jobs that name the limit "stripe" run at a time, in all processes.
func ExampleLimit() {
	ctx := context.Background()
	q, err := queue.NewLocal(queue.LocalOptions{NumWorkers: 4, PutBeforeStart: true})
	must(err)
	begun, finish := make(chan struct{}, 3), make(chan struct{})
	charge := job.Define("example.charge", 1, func(context.Context, string) error {
		begun <- struct{}{}
		<-finish
		return nil
	})
	for _, card := range []string{"1881", "4242", "5556"} {
		_, err = charge.Put(ctx, q, card, job.Limit("stripe", 2))
		must(err)
	}
	must(q.Start(ctx))
	<-begun
	<-begun
	stats := q.Stats(ctx)
	fmt.Println(stats.Running, "running,", stats.Blocked, "blocked")
	close(finish)
	amboy.Wait(ctx, q)
	q.Close(ctx)
	// Output: 2 running, 1 blocked
}

// What is logged under the context of a job is also in the log of the job.
func ExampleNewLogHandler() {
	logger := slog.New(job.NewLogHandler(slog.NewJSONHandler(io.Discard, nil)))
	resize := job.Define("example.resize", 1, func(ctx context.Context, path string) error {
		logger.InfoContext(ctx, "resizing", "path", path)
		return nil
	})

	ctx := context.Background()
	q := inline()
	defer q.Close(ctx)
	id, err := resize.Put(ctx, q, "cat.png")
	must(err)
	q.RunAll(ctx)
	j, _ := q.Get(ctx, id)
	fmt.Println(amboy.ProgressOf(j).Log[0].Text)
	// Output: level=INFO msg=resizing path=cat.png
}
