package sqlite_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/job"
	"github.com/mongodb/amboy/queue"
	"github.com/mongodb/amboy/queue/driver/sqlite"
)

var greet = job.Define("example.sqlite.greet", 1, func(_ context.Context, name string) error {
	_, err := fmt.Println("hello,", name)
	return err
})

// with opens a file, calls a function with it, and closes it.
func with(ctx context.Context, opts sqlite.Options, use func(context.Context, *sqlite.Driver) error) error {
	d, err := sqlite.Open(ctx, opts)
	if err != nil {
		return err
	}
	return errors.Join(use(ctx, d), d.Close(ctx))
}

// putJob puts a job, which does not run before a queue is started.
func putJob(ctx context.Context, d *sqlite.Driver) error {
	q, err := queue.NewDriverQueue(queue.DriverQueueOptions{Driver: d, NumWorkers: 4})
	if err != nil {
		return err
	}
	defer q.Close(ctx)
	_, err = greet.Put(ctx, q, "world")
	return err
}

// runUntilDone runs the jobs of a file until all have ended.
func runUntilDone(ctx context.Context, d *sqlite.Driver) error {
	q, err := queue.NewDriverQueue(queue.DriverQueueOptions{Driver: d, NumWorkers: 4})
	if err != nil {
		return err
	}
	defer q.Close(ctx)
	if err := q.Start(ctx); err != nil {
		return err
	}
	if !amboy.Wait(ctx, q) {
		return errors.New("not all jobs have ended")
	}
	return nil
}

// Put a job in a file, and run it after the file was opened again, as by another process.
func ExampleOpen() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		log.Fatal(err)
	}
	opts := sqlite.Options{Path: filepath.Join(dir, "jobs.db")}
	err = errors.Join(
		with(ctx, opts, putJob),
		with(ctx, opts, runUntilDone),
		os.RemoveAll(dir),
	)
	if err != nil {
		log.Fatal(err)
	}
	// Output: hello, world
}

// Copy a file that is in use. To restore, stop all processes that use the file, and put the copy in
// its place.
func ExampleDriver_Backup() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		log.Fatal(err)
	}
	opts, copied := sqlite.Options{Path: filepath.Join(dir, "jobs.db")}, sqlite.Options{Path: filepath.Join(dir, "backup.db")}
	err = errors.Join(
		with(ctx, opts, func(ctx context.Context, d *sqlite.Driver) error {
			return errors.Join(putJob(ctx, d), d.Backup(ctx, copied.Path))
		}),
		with(ctx, copied, runUntilDone),
		os.RemoveAll(dir),
	)
	if err != nil {
		log.Fatal(err)
	}
	// Output: hello, world
}
