package memory_test

import (
	"context"
	"fmt"

	"github.com/mongodb/amboy/job"
	"github.com/mongodb/amboy/queue"
	"github.com/mongodb/amboy/queue/driver/memory"
)

var greet = job.Define("example.memory.greet", 1, func(_ context.Context, name string) error {
	_, err := fmt.Println("hello,", name)
	return err
})

// Store jobs in memory. The queue works as one on a database, so it is good for tests.
func ExampleNew() {
	ctx := context.Background()
	store, err := memory.New(memory.Options{KeepFinished: 1000})
	if err != nil {
		panic(err)
	}
	q, err := queue.NewDriverQueue(queue.DriverQueueOptions{Driver: store, CloseDriver: true, NumWorkers: 4})
	if err != nil {
		panic(err)
	}
	defer q.Close(ctx)
	if err = q.Start(ctx); err != nil {
		panic(err)
	}
	fmt.Println(greet.PutAndWait(ctx, q, "world"))
	// Output:
	// hello, world
	// <nil>
}
