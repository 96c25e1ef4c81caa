package sqlite_test

import (
	"context"
	"database/sql"
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

// shop is the application's database in the example.
var shop *sql.DB

var ship = job.Define("example.sqlite.ship", 1, func(ctx context.Context, order string) error {
	tx, err := shop.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, "INSERT INTO shipments (id) VALUES (?)", order)
	if err == nil {
		err = job.CompleteIn(sqlite.WithTx(ctx, tx))
	}
	if err != nil {
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit()
})

// End a job in the same transaction as its work: either both are stored, or neither.
func ExampleWithTx_completeIn() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		log.Fatal(err)
	}
	path := filepath.Join(dir, "shop.db")
	err = errors.Join(
		with(ctx, sqlite.Options{Path: path}, func(ctx context.Context, d *sqlite.Driver) error { return shipOne(ctx, d, path) }),
		os.RemoveAll(dir),
	)
	if err != nil {
		log.Fatal(err)
	}
	// Output:
	// succeeded, 1 shipments
}

func shipOne(ctx context.Context, d *sqlite.Driver, path string) (err error) {
	shop, err = sql.Open("sqlite", path+"?_txlock=immediate&_pragma=busy_timeout(5000)")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, shop.Close()) }()
	_, err = shop.ExecContext(ctx, "CREATE TABLE shipments (id TEXT)")
	if err != nil {
		return err
	}
	q, err := queue.NewDriverQueue(queue.DriverQueueOptions{Driver: d, NumWorkers: 1})
	if err != nil {
		return err
	}
	defer q.Close(ctx)
	j, err := ship.New("order-1")
	if err == nil {
		err = q.Put(ctx, j)
	}
	if err == nil {
		err = q.Start(ctx)
	}
	if err != nil {
		return err
	}
	amboy.WaitJob(ctx, j, q)
	var n int
	err = shop.QueryRowContext(ctx, "SELECT count(*) FROM shipments").Scan(&n)
	if stored, found := q.Get(ctx, j.ID()); found {
		fmt.Printf("%s, %d shipments\n", amboy.NewJobInfo(stored).State, n)
	}
	return err
}
