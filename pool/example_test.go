package pool_test

import (
	"context"
	"fmt"
	"time"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/pool"
)

func ExampleNewLocalWorkers() {
	ctx := context.Background()
	q := newFakeQueue() // any amboy.Queue, such as those of package queue
	workers := pool.NewLocalWorkers(4, q)
	if err := workers.Start(ctx); err != nil {
		fmt.Println(err)
		return
	}
	q.jobs <- newJob("greet", func(context.Context, *funcJob) { fmt.Println("hello") })
	fmt.Println((<-q.ended).state)

	// Running jobs have a minute to end before they are canceled.
	patience, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	workers.Close(patience)
	// Output:
	// hello
	// succeeded
}

func ExampleNewLocalWorkers_resize() {
	workers := pool.NewLocalWorkers(4, newFakeQueue())
	resizable, ok := workers.(amboy.ResizableRunner)
	if !ok {
		return
	}
	fmt.Println(resizable.Workers())
	if err := resizable.SetWorkers(8); err != nil {
		fmt.Println(err)
	}
	fmt.Println(resizable.Workers())
	fmt.Println(resizable.SetWorkers(0))
	// Output:
	// 4
	// 8
	// resizing runner: number of workers must be at least 1 (is 0)
}

func ExampleNewAbortablePool() {
	ctx := context.Background()
	q := newFakeQueue()
	workers := pool.NewAbortablePool(4, q)
	if err := workers.Start(ctx); err != nil {
		fmt.Println(err)
		return
	}
	defer workers.Close(ctx)

	running := make(chan struct{})
	q.jobs <- newJob("endless", func(ctx context.Context, _ *funcJob) {
		close(running)
		<-ctx.Done()
	})
	<-running
	fmt.Println(workers.RunningJobs())
	if err := workers.Abort(ctx, "endless"); err != nil {
		fmt.Println(err)
	}
	fmt.Println((<-q.ended).state)

	err := workers.Abort(ctx, "endless")
	fmt.Println(amboy.IsJobNotFoundError(err), err)
	// Output:
	// [endless]
	// canceled
	// true aborting job "endless": it is not running here
}

func ExampleNewRateLimitedWorkers() {
	ctx := context.Background()
	q := newFakeQueue()
	// Ten jobs a second. After idle time three may start at once: burst+1.
	workers, err := pool.NewRateLimitedWorkers(4, 10, time.Second, 2, q)
	if err != nil {
		fmt.Println(err)
		return
	}
	if err = workers.Start(ctx); err != nil {
		fmt.Println(err)
		return
	}
	defer workers.Close(ctx)

	begin := time.Now()
	q.put(5, doNothing)
	for range 5 {
		<-q.ended
	}
	fmt.Println("took at least 200ms:", time.Since(begin) >= 200*time.Millisecond)
	// Output: took at least 200ms: true
}

func ExampleNewMovingAverageRateLimitedWorkers() {
	ctx := context.Background()
	q := newFakeQueue()
	// Six hundred jobs a minute.
	workers, err := pool.NewMovingAverageRateLimitedWorkers(4, 600, time.Minute, q)
	if err != nil {
		fmt.Println(err)
		return
	}
	if err = workers.Start(ctx); err != nil {
		fmt.Println(err)
		return
	}
	defer workers.Close(ctx)

	begin := time.Now()
	q.put(3, doNothing)
	for range 3 {
		<-q.ended
	}
	fmt.Println("took at least 190ms:", time.Since(begin) >= 190*time.Millisecond)
	// Output: took at least 190ms: true
}

func ExampleNewNoop() {
	ctx := context.Background()
	q := newFakeQueue()
	runner := pool.NewNoop()
	if err := runner.SetQueue(q); err != nil {
		fmt.Println(err)
		return
	}
	if err := runner.Start(ctx); err != nil {
		fmt.Println(err)
		return
	}
	q.put(1, doNothing)
	runner.Close(ctx)
	fmt.Println(len(q.jobs), "job waits for another process")
	// Output: 1 job waits for another process
}
