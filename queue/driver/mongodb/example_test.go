package mongodb_test

import (
	"context"
	"fmt"

	"github.com/mongodb/amboy/internal/mongotest"
	"github.com/mongodb/amboy/job"
	"github.com/mongodb/amboy/queue"
	"github.com/mongodb/amboy/queue/driver/mongodb"
)

var greet = job.Define("example.mongodb.greet", 1, func(_ context.Context, name string) error {
	_, err := fmt.Println("hello,", name)
	return err
})

// Store jobs in MongoDB.
func ExampleOpen() {
	ctx := context.Background()
	server, err := mongotest.New(mongotest.Options{}) // a stand-in of MongoDB in this process
	if err != nil {
		panic(err)
	}
	defer server.Close()
	store, err := mongodb.Open(ctx, mongodb.Options{
		URI:        server.URI(), // such as mongodb://localhost:27017/?replicaSet=rs0
		DB:         "shop",
		Collection: "mail",
	})
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
