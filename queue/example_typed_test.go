package queue_test

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/job"
	"github.com/mongodb/amboy/pool"
	"github.com/mongodb/amboy/queue"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/memory"
	"github.com/mongodb/amboy/queue/driver/mongodb"
	"github.com/mongodb/amboy/queue/driver/postgres"
	"github.com/mongodb/amboy/queue/driver/sqlite"
)

// note is a job that fails if it has nothing to print.
var note = job.Define("example.note", 1, func(_ context.Context, text string) error {
	if text == "" {
		return errors.New("nothing to print")
	}
	_, err := fmt.Println(text)
	return err
})

// openStore opens the store that a flag names, such as "memory" or "sqlite:jobs.db".
func openStore(ctx context.Context, where string) (driver.Driver, error) {
	kind, file, _ := strings.Cut(where, ":")
	switch kind {
	case "memory":
		return memory.New(memory.Options{KeepFinished: 1000})
	case "sqlite":
		return sqlite.Open(ctx, sqlite.Options{Path: file})
	case "postgres", "postgresql":
		return postgres.Open(ctx, postgres.Options{URL: where})
	case "mongodb", "mongodb+srv":
		return mongodb.Open(ctx, mongodb.Options{URI: where, DB: "shop", Collection: "jobs"})
	default:
		return nil, fmt.Errorf("unknown store %q", where)
	}
}

// A flag chooses the store; the rest of the program is the same.
func Example_chooseStore() {
	ctx := context.Background()
	store, err := openStore(ctx, "memory") // the value of the flag
	must(err)
	q, err := queue.NewDriverQueue(queue.DriverQueueOptions{Driver: store, CloseDriver: true, NumWorkers: 4})
	must(err)
	defer q.Close(ctx)
	must(q.Start(ctx))

	_, err = note.Put(ctx, q, "hello")
	must(err)
	fmt.Println(amboy.Wait(ctx, q))
	_, err = openStore(ctx, "paper")
	fmt.Println(err)
	// Output:
	// hello
	// true
	// unknown store "paper"
}

// runNothing makes the runner of a process that only puts jobs.
func runNothing(amboy.Queue) (amboy.Runner, error) { return pool.NewNoop(), nil }

// remind is declared in a package that every process imports. Only the workers bind it.
var remind = job.Declare[string]("example.remind", 1)

// One process puts jobs and runs none; another one runs them.
func Example_onlyPut() {
	ctx := context.Background()
	store, err := memory.New(memory.Options{KeepFinished: 1000})
	must(err)
	front, err := queue.NewDriverQueue(queue.DriverQueueOptions{Driver: store, NewRunner: runNothing})
	must(err)
	defer front.Close(ctx)
	must(front.Start(ctx))
	id, err := remind.Put(ctx, front, "call ann")
	must(err)
	j, _ := front.Get(ctx, id)
	fmt.Println(amboy.NewJobInfo(j).State)

	must(remind.Bind(func(_ context.Context, text string) error {
		_, printErr := fmt.Println(text)
		return printErr
	}))
	back, err := queue.NewDriverQueue(queue.DriverQueueOptions{Driver: store, NumWorkers: 4})
	must(err)
	defer back.Close(ctx)
	must(back.Start(ctx))
	fmt.Println(amboy.Wait(ctx, back))
	// Output:
	// pending
	// call ann
	// true
}

// A group that only puts jobs: it opens a queue when it is asked for it, and runs nothing.
func Example_onlyPutInGroup() {
	ctx := context.Background()
	store, err := memory.New(memory.Options{KeepFinished: 1000})
	must(err)
	group, err := queue.NewDriverGroup(ctx, queue.DriverGroupOptions{
		DefaultQueue:              queue.DriverQueueOptions{Driver: store, NewRunner: runNothing},
		BackgroundCreateFrequency: queue.NoBackgroundCreate,
	})
	must(err)
	q, err := group.Get(ctx, "acme")
	must(err)
	_, err = note.Put(ctx, q, "welcome")
	must(err)
	fmt.Println(q.Stats(ctx).Pending, "pending")
	must(group.Close(ctx))
	// Output: 1 pending
}

// The IDs of the jobs make PutMany repeatable.
func Example_putMany() {
	ctx := context.Background()
	q := queue.NewLocalPriority(1, 1000) // accepts jobs before Start
	_, err := note.Put(ctx, q, "one", job.ID("a"))
	must(err)

	a, err := note.New("one", job.ID("a"))
	must(err)
	b, err := note.New("two", job.ID("b"))
	must(err)
	err = q.PutMany(ctx, []amboy.Job{a, b})
	fmt.Println(err)
	fmt.Println(amboy.IsDuplicateJobError(err), q.Stats(ctx).Pending)
	// Output:
	// putting job "a": job "a" is in the queue already
	// true 2
}

// An abortable pool cancels jobs that run in this process.
func Example_abort() {
	ctx := context.Background()
	q := queue.NewLocalLimitedSize(4, 1000)
	runner := pool.NewAbortablePool(4, q)
	must(q.SetRunner(runner))
	must(q.Start(ctx))
	defer q.Close(ctx)

	id, err := watchFolder.Put(ctx, q, "inbox", job.ID("watch"))
	must(err)
	<-watching
	fmt.Println(runner.RunningJobs())
	must(runner.Abort(ctx, id))
	j, _ := q.Get(ctx, id)
	fmt.Println(amboy.NewJobInfo(j).State)
	fmt.Println(amboy.IsJobNotFoundError(runner.Abort(ctx, id)))
	// Output:
	// [watch]
	// canceled
	// true
}

var watching = make(chan struct{})

// watchFolder runs until its context ends.
var watchFolder = job.Define("example.watch-folder", 1, func(ctx context.Context, _ string) error {
	watching <- struct{}{}
	<-ctx.Done()
	return context.Cause(ctx)
})
