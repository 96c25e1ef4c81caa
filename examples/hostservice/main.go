// Hostservice runs jobs for many tenants: each folder of a directory has a queue, and each
// file is a job. If it is killed and started again, it continues.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/mongodb/grip"
	"github.com/mongodb/grip/level"
	"github.com/mongodb/grip/send"
	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/cwriter"
	"github.com/vbauerster/mpb/v8/decor"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue"
	"github.com/mongodb/amboy/queue/driver/memory"
	"github.com/mongodb/amboy/queue/driver/mongodb"
	"github.com/mongodb/amboy/queue/driver/postgres"
	"github.com/mongodb/amboy/queue/driver/sqlite"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	// Failures are in the table. A log on the terminal would break the progress bars.
	grip.Alert(ctx, grip.SetLevel(send.LevelInfo{Default: level.Info, Threshold: level.Critical}))
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "hostservice:", err)
		os.Exit(1)
	}
}

// flagError describes an invalid flag.
type flagError struct{ name, rule, value string }

func (e *flagError) Error() string { return e.name + " must be " + e.rule + " (is " + e.value + ")" }

// run serves a directory until ctx ends or, with -once, until its jobs have ended.
func run(ctx context.Context, args []string, out io.Writer) error {
	cache, _ := os.UserCacheDir() // without one the current folder is used
	file := filepath.Join(cache, "amboy-hostservice", "jobs.db")
	flags := flag.NewFlagSet("hostservice [flags] [directory]", flag.ContinueOnError)
	once := flags.Bool("once", false, "exit when all jobs have ended")
	workers := flags.Int("workers", 4, "the number of jobs of a tenant that run at once")
	store := flags.String("store", "sqlite", "the store of the jobs: memory, sqlite, or the URI of a database, mongodb://... or postgres://...")
	db := flags.String("db", "", "the file of -store sqlite, the database of a MongoDB, or the schema of a PostgreSQL (default "+file+", or hostservice)")
	var shown dashboard
	flags.StringVar(&shown.address, "http", "localhost:0", "the address of the dashboard; port 0 means a free port, and an empty address means no dashboard")
	flags.StringVar(&shown.tokenFile, "token-file", "", "a file for a bearer token of the API; only your user can read it")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 1 {
		return &flagError{"the directory", "one argument, after the flags", fmt.Sprint(flags.Args())}
	}
	tenants, err := findTenants(flags.Arg(0))
	if err != nil {
		return err
	}
	file, database := cmp.Or(*db, file), cmp.Or(*db, "hostservice")
	group, err := openGroup(ctx, *store, file, database, *workers)
	if err != nil {
		return err
	}
	err = runService(ctx, group, tenants, shown, *once, out)
	return errors.Join(err, group.Close(ctx)) // running jobs are handed back
}

// runService runs and shows the jobs until ctx ends or, with once, until they have ended.
func runService(ctx context.Context, group amboy.QueueGroup, tenants []*tenant, shown dashboard, once bool, out io.Writer) error {
	endDashboard, err := shown.serve(ctx, group, out)
	if err != nil {
		return err
	}
	if err = runJobs(ctx, group, tenants, out); err == nil && !once {
		_, err = fmt.Fprintf(out, "\n%d queues stay up. Press Ctrl-C to stop.\n", group.Len())
		<-ctx.Done()
	}
	return errors.Join(err, endDashboard())
}

// openGroup opens a store, and returns a group of the queues in it.
func openGroup(ctx context.Context, store, file, database string, workers int) (_ amboy.QueueGroup, err error) {
	opts := queue.DriverQueueOptions{
		CloseDriver: true, NumWorkers: workers,
		Retention: queue.Retention{Succeeded: queue.KeepForever, Failed: queue.KeepForever},
		// The jobs of a killed process wait this long, while a user watches. A process
		// that stalls for longer loses its jobs, and their files are read twice.
		LockTimeout: 3 * time.Second,
	}
	scheme, _, _ := strings.Cut(store, ":") // the rest of a URI may contain a password
	isMongoDB := scheme == "mongodb" || scheme == "mongodb+srv"
	switch {
	case workers < 1:
		err = &flagError{"-workers", "at least 1", fmt.Sprint(workers)}
	case store == "memory":
		opts.Driver, err = memory.New(memory.Options{KeepFinished: 10_000_000})
	case store == "sqlite":
		if err = os.MkdirAll(filepath.Dir(file), 0o700); err == nil {
			opts.Driver, err = sqlite.Open(ctx, sqlite.Options{Path: file, KeepFinished: 10_000_000})
		}
	case isMongoDB:
		opts.Driver, err = mongodb.Open(ctx, mongodb.Options{URI: store, DB: database, Collection: "jobs", Grouped: true})
	case scheme == "postgres" || scheme == "postgresql":
		opts.Driver, err = postgres.Open(ctx, postgres.Options{URL: store, Schema: database})
	default:
		err = &flagError{"-store", "memory, sqlite, mongodb://... or postgres://...", scheme}
	}
	if err != nil {
		return nil, err
	}
	// The store may contain tenants of other directories, which this process does not serve.
	return queue.NewDriverGroup(ctx, queue.DriverGroupOptions{DefaultQueue: opts, BackgroundCreateFrequency: queue.NoBackgroundCreate})
}

// runJobs puts the jobs that the store does not contain, and prints the results.
func runJobs(ctx context.Context, group amboy.QueueGroup, tenants []*tenant, out io.Writer) (err error) {
	bars := mpb.New(mpb.WithOutput(out)) // draws only on a terminal
	defer bars.Shutdown()
	for _, t := range tenants {
		t.bar = bars.AddBar(int64(len(t.jobs)),
			mpb.PrependDecorators(decor.Name(t.name, decor.WCSyncSpaceR)),
			mpb.AppendDecorators(decor.CountersNoUnit("%d of %d jobs", decor.WCSyncSpace)))
		if t.queue, err = group.Get(ctx, t.id); err != nil {
			return err
		}
		close(t.opened)
		t.summary.SetID(idOf(t.summary.Dependency().Edges())) // a changed set of files makes a new job
		if err = amboy.EnqueueManyUniqueJobs(ctx, t.queue, t.jobs); err != nil {
			return fmt.Errorf("putting the jobs of tenant %q: %w", t.name, err)
		}
		left := t.queue.Stats(ctx)
		t.bar.SetCurrent(int64(len(t.jobs) - left.Pending - left.Running - left.Retrying))
	}
	lines, failures := "\nTENANT\tFILES\tLINES\tBYTES\tFAILED\t\n", ""
	for _, t := range tenants {
		ended := amboy.WaitJob(ctx, t.summary, t.queue)
		stored, _ := t.queue.Get(ctx, t.summary.ID())
		sum, ok := stored.(*summaryJob)
		if !ended || !ok || sum.HasErrors() {
			return fmt.Errorf("stopped without a summary of tenant %q", t.name)
		}
		t.bar.SetCurrent(int64(len(t.jobs)))
		if !cwriter.New(out).IsTerminal() { // no bars are drawn
			_, err = fmt.Fprintf(out, "%s: %d jobs have ended\n", t.name, len(t.jobs))
		}
		lines += fmt.Sprintf("%s\t%d\t%d\t%d\t%d\t\n", t.name, sum.Files, sum.Lines, sum.Bytes, sum.Failed)
		failures += sum.Failures
	}
	bars.Shutdown()
	table := tabwriter.NewWriter(out, 0, 0, 3, ' ', tabwriter.AlignRight)
	_, writeErr := io.WriteString(table, lines+failures)
	return errors.Join(err, writeErr, table.Flush())
}
