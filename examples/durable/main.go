// Command durable is the durable job of the README.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/job"
	"github.com/mongodb/amboy/queue"
	"github.com/mongodb/amboy/queue/driver/sqlite"
)

var greet = job.Define("greet", 1, func(_ context.Context, name string) error {
	_, err := fmt.Println("hello,", name)
	return err
})

func main() {
	if err := run(context.Background(), "jobs.db"); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, file string) error {
	store, err := sqlite.Open(ctx, sqlite.Options{Path: file}) // or postgres.Open, mongodb.Open
	if err != nil {
		return err
	}
	q, err := queue.NewDriverQueue(queue.DriverQueueOptions{Driver: store, CloseDriver: true, NumWorkers: 4})
	if err != nil {
		return errors.Join(err, store.Close(ctx))
	}
	defer q.Close(ctx) // also closes the store
	if err := q.Start(ctx); err != nil {
		return err
	}
	if _, err := greet.Put(ctx, q, "world"); err != nil {
		return err
	}
	if !amboy.Wait(ctx, q) {
		return errors.New("not all jobs have ended")
	}
	return nil
}
