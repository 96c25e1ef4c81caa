package sqlite_test

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/job"
	"github.com/mongodb/amboy/queue"
	"github.com/mongodb/amboy/queue/driver/sqlite"
)

// must stands for the handling of an error.
func must(err error) {
	if err != nil {
		panic(err)
	}
}

var greet = job.Define("example.sqlite.greet", 1, func(_ context.Context, name string) error {
	_, err := fmt.Println("hello,", name)
	return err
})

// queueIn opens a queue in a file. It runs nothing before it is started.
func queueIn(ctx context.Context, path string) amboy.Queue {
	store, err := sqlite.Open(ctx, sqlite.Options{Path: path})
	must(err)
	q, err := queue.NewDriverQueue(queue.DriverQueueOptions{Driver: store, CloseDriver: true, NumWorkers: 4})
	must(err)
	return q
}

// newDir makes a temporary directory.
func newDir() (dir string, remove func()) {
	dir, err := os.MkdirTemp("", "")
	must(err)
	return dir, func() { must(os.RemoveAll(dir)) }
}

// Put a job in a file, and run it after the file was opened again, as by another process.
func ExampleOpen() {
	ctx := context.Background()
	dir, remove := newDir()
	defer remove()
	path := filepath.Join(dir, "jobs.db")

	q := queueIn(ctx, path)
	_, err := greet.Put(ctx, q, "world")
	must(err)
	q.Close(ctx)

	q = queueIn(ctx, path)
	defer q.Close(ctx)
	must(q.Start(ctx))
	amboy.Wait(ctx, q)
	// Output: hello, world
}

// Copy a file that other processes may be using. To restore, stop all processes that use the file, and put
// the copy in its place.
func ExampleBackup() {
	ctx := context.Background()
	dir, remove := newDir()
	defer remove()
	path, backup := filepath.Join(dir, "jobs.db"), filepath.Join(dir, "backup.db")
	q := queueIn(ctx, path)
	_, err := greet.Put(ctx, q, "world")
	must(err)
	q.Close(ctx) // here, because a process opens a file only once

	must(sqlite.Backup(ctx, sqlite.Options{Path: path}, backup))
	restored := queueIn(ctx, backup)
	defer restored.Close(ctx)
	fmt.Println(restored.Stats(ctx).Pending, "pending")
	// Output: 1 pending
}

// Copy the file of an open store.
func ExampleDriver_Backup() {
	ctx := context.Background()
	dir, remove := newDir()
	defer remove()
	store, err := sqlite.Open(ctx, sqlite.Options{Path: filepath.Join(dir, "jobs.db")})
	must(err)
	must(store.Backup(ctx, filepath.Join(dir, "backup.db")))
	must(store.Close(ctx))
	_, err = os.Stat(filepath.Join(dir, "backup.db"))
	fmt.Println(err)
	// Output: <nil>
}

// Put a job together with the data that it is about: either both are stored, or neither.
func ExampleWithTx() {
	ctx := context.Background()
	dir, remove := newDir()
	defer remove()
	path := filepath.Join(dir, "shop.db")
	q := queueIn(ctx, path)
	defer q.Close(ctx)
	db, err := sql.Open("sqlite", path+"?_txlock=immediate&_pragma=busy_timeout(5000)")
	must(err)
	defer func() { must(db.Close()) }()
	_, err = db.ExecContext(ctx, "CREATE TABLE orders (customer TEXT)")
	must(err)

	for _, end := range []func(*sql.Tx) error{(*sql.Tx).Rollback, (*sql.Tx).Commit} {
		tx, err := db.BeginTx(ctx, nil)
		must(err)
		_, err = tx.ExecContext(ctx, "INSERT INTO orders (customer) VALUES ('ann')")
		must(err)
		_, err = greet.Put(sqlite.WithTx(ctx, tx), q, "ann")
		must(err)
		must(end(tx))
		fmt.Println(q.Stats(ctx).Pending, "pending")
	}
	// Output:
	// 0 pending
	// 1 pending
}
