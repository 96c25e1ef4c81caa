package pool_test

import (
	"context"
	"fmt"
	"time"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/job"
	"github.com/mongodb/amboy/pool"
	"github.com/mongodb/amboy/queue"
)

// must stands for the handling of an error.
func must(err error) {
	if err != nil {
		panic(err)
	}
}

// greet is a job that prints a name.
var greet = job.Define("pool-example.greet", 1, func(_ context.Context, name string) error {
	_, err := fmt.Println("hello,", name)
	return err
})

// Choose the runner of a queue before it is started.
func ExampleNewLocalWorkers() {
	ctx := context.Background()
	q := queue.NewLocalLimitedSize(1, 100)
	must(q.SetRunner(pool.NewLocalWorkers(4, q)))
	must(q.Start(ctx)) // also starts the runner
	defer q.Close(ctx)

	fmt.Println(greet.PutAndWait(ctx, q, "world"), amboy.Workers(q))
	// Output:
	// hello, world
	// <nil> 4
}

// Cancel a running job, which ends as canceled.
func ExampleNewAbortablePool() {
	ctx := context.Background()
	running := make(chan struct{})
	endless := job.Define("pool-example.endless", 1, func(ctx context.Context, _ string) error {
		close(running)
		<-ctx.Done()
		return context.Cause(ctx)
	})
	q := queue.NewLocalLimitedSize(1, 100)
	workers := pool.NewAbortablePool(4, q)
	must(q.SetRunner(workers))
	must(q.Start(ctx))
	defer q.Close(ctx)

	_, err := endless.Put(ctx, q, "", job.ID("endless"))
	must(err)
	<-running
	fmt.Println(workers.RunningJobs())
	must(workers.Abort(ctx, "endless"))
	j, _ := q.Get(ctx, "endless")
	fmt.Println(amboy.NewJobInfo(j).State)
	fmt.Println(workers.Abort(ctx, "endless"))
	// Output:
	// [endless]
	// canceled
	// aborting job "endless": it is not running here
}

// Ten jobs a second. After idle time three may start at once: burst+1.
func ExampleNewRateLimitedWorkers() {
	ctx := context.Background()
	q := queue.NewLocalLimitedSize(1, 100)
	workers, err := pool.NewRateLimitedWorkers(4, 10, time.Second, 2, q)
	must(err)
	must(q.SetRunner(workers))
	must(q.Start(ctx))
	defer q.Close(ctx)

	begin := time.Now()
	for range 5 {
		_, err = greet.Put(ctx, q, "world")
		must(err)
	}
	amboy.Wait(ctx, q)
	fmt.Println("took at least 200ms:", time.Since(begin) >= 200*time.Millisecond)
	// Output:
	// hello, world
	// hello, world
	// hello, world
	// hello, world
	// hello, world
	// took at least 200ms: true
}

// Six hundred jobs a minute, on average.
func ExampleNewMovingAverageRateLimitedWorkers() {
	ctx := context.Background()
	q := queue.NewLocalLimitedSize(1, 100)
	workers, err := pool.NewMovingAverageRateLimitedWorkers(4, 600, time.Minute, q)
	must(err)
	must(q.SetRunner(workers))
	must(q.Start(ctx))
	defer q.Close(ctx)

	begin := time.Now()
	for range 3 {
		_, err = greet.Put(ctx, q, "world")
		must(err)
	}
	amboy.Wait(ctx, q)
	fmt.Println("took at least 190ms:", time.Since(begin) >= 190*time.Millisecond)
	// Output:
	// hello, world
	// hello, world
	// hello, world
	// took at least 190ms: true
}

// A process that only puts jobs leaves them to others.
func ExampleNewNoop() {
	ctx := context.Background()
	q := queue.NewLocalLimitedSize(1, 100)
	must(q.SetRunner(pool.NewNoop()))
	must(q.Start(ctx))
	defer q.Close(ctx)
	_, err := greet.Put(ctx, q, "world")
	must(err)
	fmt.Println(q.Stats(ctx).Pending, "job waits for another process")
	// Output: 1 job waits for another process
}
