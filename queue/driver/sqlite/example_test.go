package sqlite_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"time"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/job"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/sqlite"
	"github.com/mongodb/amboy/registry"
)

// Store a job in a file, and run it after the file was opened again.
func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		log.Fatal(err)
	}
	opts := sqlite.Options{Path: filepath.Join(dir, "jobs.db")}
	err = errors.Join(
		with(ctx, opts, store),
		with(ctx, opts, run),
		os.RemoveAll(dir),
	)
	if err != nil {
		log.Fatal(err)
	}
	// Output:
	// running send-1
	// 1 completed
}

// with opens a driver, calls a function with it, and closes it.
func with(ctx context.Context, opts sqlite.Options, use func(context.Context, *sqlite.Driver) error) error {
	d, err := sqlite.Open(ctx, opts)
	if err != nil {
		return err
	}
	return errors.Join(use(ctx, d), d.Close(ctx))
}

func store(ctx context.Context, d *sqlite.Driver) error {
	j := job.NewShellJob("true", "")
	j.SetID("send-1")
	r, err := registry.MakeJobInterchange(j, amboy.BSON2)
	if err != nil {
		return err
	}
	r.Group = "mail"
	r.Name = driver.RecordName(r.Group, j.ID(), r.RetryInfo)
	errs, err := d.Insert(ctx, []*driver.Record{r})
	return errors.Join(append(errs, err)...)
}

func run(ctx context.Context, d *sqlite.Driver) error {
	claimed, err := d.Claim(ctx, driver.ClaimRequest{
		Owner:     "example",
		Queues:    []driver.Demand{{Queue: "mail", Limit: 1}},
		Limit:     1,
		Now:       time.Now(),
		LeaseTime: time.Minute,
	})
	if err != nil {
		return err
	}
	r := claimed.Records[0]
	fmt.Println("running", r.JobID())
	completion := driver.Completion{Lease: driver.LeaseOf(r), Record: r}
	r.Status.Completed = true
	errs, err := d.Complete(ctx, []driver.Completion{completion})
	err = errors.Join(append(errs, err)...)
	if err != nil {
		return err
	}
	stats, err := d.Stats(ctx, "mail")
	fmt.Println(stats.Completed, "completed")
	return err
}

// Copy the file of a running queue. To restore, stop all processes that use the file, and put the
// copy in its place.
func ExampleDriver_Backup() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		log.Fatal(err)
	}
	opts, copied := sqlite.Options{Path: filepath.Join(dir, "jobs.db")}, sqlite.Options{Path: filepath.Join(dir, "backup.db")}
	err = errors.Join(
		with(ctx, opts, func(ctx context.Context, d *sqlite.Driver) error {
			return errors.Join(store(ctx, d), d.Backup(ctx, copied.Path))
		}),
		with(ctx, copied, run),
		os.RemoveAll(dir),
	)
	if err != nil {
		log.Fatal(err)
	}
	// Output:
	// running send-1
	// 1 completed
}
