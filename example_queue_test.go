package amboy_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/job"
	"github.com/mongodb/amboy/queue"
	"github.com/mongodb/amboy/queue/driver/memory"
)

// step is a job of the examples.
var step = job.Define("amboy-example.step", 1, func(_ context.Context, name string) error {
	fmt.Println("running", name)
	return nil
})

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func putStep(ctx context.Context, q amboy.Queue, name string, opts ...job.Option) error {
	_, err := step.Put(ctx, q, name, opts...)
	return err
}

func ExamplePause() {
	ctx := context.Background()
	store, err := memory.New(memory.Options{KeepFinished: 1000})
	must(err)
	front, err := queue.NewDriverQueue(queue.DriverQueueOptions{Driver: store, NumWorkers: 1})
	must(err)
	back, err := queue.NewDriverQueue(queue.DriverQueueOptions{Driver: store, NumWorkers: 4})
	must(err)
	must(back.Start(ctx))
	defer back.Close(ctx)
	defer front.Close(ctx)

	must(amboy.Pause(ctx, front)) // and every queue of that name on the store
	must(putStep(ctx, front, "waits"))
	control, err := amboy.ControlOf(ctx, back)
	must(err)
	fmt.Printf("%+v\n", control)
	fmt.Println(back.Stats(ctx).Pending)
	must(amboy.Resume(ctx, front))
	amboy.Wait(ctx, back)
	// Output:
	// {Paused:true Draining:false MaxRunning:0 Rate:<nil> Types:map[]}
	// 1
	// running waits
}

// A queue that is drained runs the jobs that it has, and refuses new ones.
func ExampleDrain() {
	ctx := context.Background()
	q, err := queue.NewLocalLimitedSizeSerializable(4, 1000)
	must(err)
	must(q.Start(ctx))
	defer q.Close(ctx)

	must(putStep(ctx, q, "early"))
	must(amboy.Drain(ctx, q))
	err = putStep(ctx, q, "late")
	amboy.Wait(ctx, q)
	fmt.Println(errors.Is(err, amboy.ErrQueueDraining), q.Stats(ctx).IsIdle())
	must(amboy.Resume(ctx, q))
	must(putStep(ctx, q, "late"))
	amboy.Wait(ctx, q)
	// Output:
	// running early
	// true true
	// running late
}

// The limit applies to all processes that share a store.
func ExampleSetMaxRunning() {
	ctx := context.Background()
	q, err := queue.NewLocalLimitedSizeSerializable(4, 1000)
	must(err)
	must(q.Start(ctx))
	defer q.Close(ctx)

	must(amboy.SetMaxRunning(ctx, q, 1)) // of the four workers
	control, err := amboy.ControlOf(ctx, q)
	must(err)
	fmt.Println(control.MaxRunning)
	fmt.Println(amboy.SetMaxRunning(ctx, q, -1) != nil)
	must(amboy.SetMaxRunning(ctx, q, 0)) // takes it back
	// Output:
	// 1
	// true
}

// The rate applies to all processes that share a store.
func ExampleSetRate() {
	ctx := context.Background()
	q, err := queue.NewLocalLimitedSizeSerializable(4, 1000)
	must(err)
	must(q.Start(ctx))
	defer q.Close(ctx)

	must(amboy.SetRate(ctx, q, &amboy.Rate{PerSecond: 0.001})) // a job in 1,000 seconds
	must(putStep(ctx, q, "first"))
	must(putStep(ctx, q, "second"))
	control, err := amboy.ControlOf(ctx, q)
	must(err)
	fmt.Println(control.Rate)
	must(amboy.SetRate(ctx, q, nil)) // takes it back
	amboy.Wait(ctx, q)
	// Unordered output:
	// running first
	// 0.001/s, bursts of 1
	// running second
}

// One of two jobs of a type runs at a time, and jobs of other types do not wait for them.
func ExampleLimitType() {
	ctx := context.Background()
	q, err := queue.NewLocalLimitedSizeSerializable(4, 1000)
	must(err)
	must(amboy.LimitType(ctx, q, step.Type().Name, amboy.TypeLimit{MaxRunning: 1}))
	control, err := amboy.ControlOf(ctx, q)
	must(err)
	fmt.Println(control.Types[step.Type().Name].MaxRunning)

	must(putStep(ctx, q, "first"))
	must(putStep(ctx, q, "second"))
	must(q.Start(ctx))
	defer q.Close(ctx)
	amboy.Wait(ctx, q)
	// Output:
	// 1
	// running first
	// running second
}

// Jobs are found by their tags, states and types.
func ExampleFindJobs() {
	ctx := context.Background()
	q := queue.NewLocalPriority(1, 100)
	defer q.Close(ctx)
	must(putStep(ctx, q, "one", job.ID("invoice-1"), job.Tags("customer:7")))
	must(putStep(ctx, q, "two", job.ID("invoice-2"), job.Tags("customer:7")))
	must(putStep(ctx, q, "report"))

	ofCustomer := amboy.JobQuery{Tag: "customer:7", States: []amboy.JobState{amboy.StatePending}}
	for info, err := range amboy.FindJobs(ctx, q, ofCustomer) {
		must(err)
		fmt.Println(info.ID, info.Tags)
	}
	n, err := amboy.CountJobs(ctx, q, amboy.JobQuery{})
	must(err)
	fmt.Println(n, "in all")
	// Output:
	// invoice-1 [customer:7]
	// invoice-2 [customer:7]
	// 3 in all
}

// New workers start at once. Surplus workers end after their current job.
func ExampleSetWorkers() {
	ctx := context.Background()
	q := queue.NewLocalLimitedSize(4, 100)
	must(q.Start(ctx))
	defer q.Close(ctx)

	must(amboy.SetWorkers(q, 2))
	fmt.Println(amboy.Workers(q))
	fmt.Println(amboy.SetWorkers(q, 0) != nil)
	// Output:
	// 2
	// true
}
