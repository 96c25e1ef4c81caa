// Hostservice is a service that runs jobs for many tenants: each folder of a
// directory is a tenant with its own queue, and each file in it is a job.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
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
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // the second signal kills
	// What fails is in the table. A log on the terminal would tear the bars.
	grip.Alert(grip.GetSender().SetLevel(send.LevelInfo{Default: level.Info, Threshold: level.Critical}))
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "hostservice:", err)
		os.Exit(1)
	}
}

// run serves a directory until ctx ends, or with -once until its jobs have.
func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("hostservice [flags] [directory]", flag.ContinueOnError)
	once := flags.Bool("once", false, "exit when all jobs have ended")
	workers := flags.Int("workers", 4, "how many jobs of a tenant run at once")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 1 {
		return fmt.Errorf("want one directory, after the flags (got %q)", flags.Args())
	}
	tenants, err := findTenants(cmp.Or(flags.Arg(0), "."))
	if err != nil {
		return err
	}
	opts := queue.LocalQueueGroupOptions{}
	opts.DefaultQueue.Constructor = func(context.Context) (amboy.Queue, error) {
		return queue.NewLocalLimitedSizeSerializable(*workers, 10_000_000) // jobs at most
	}
	group, err := queue.NewLocalQueueGroup(context.WithoutCancel(ctx), opts) // Close ends it
	if err != nil {
		return err
	}
	if err = runJobs(ctx, group, tenants, out); err == nil {
		err = printTable(out, tenants)
	}
	if err == nil && !*once {
		_, err = fmt.Fprintf(out, "\n%d queues stay up. Press Ctrl-C to stop.\n", group.Len())
		<-ctx.Done()
	}
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	return errors.Join(err, group.Close(closing)) // lets running jobs end
}

// runJobs puts the jobs of all tenants in their queues, and waits for them.
func runJobs(ctx context.Context, group amboy.QueueGroup, tenants []*tenant, out io.Writer) (err error) {
	bars := mpb.New(mpb.WithOutput(out)) // draws on a terminal only
	defer bars.Shutdown()
	for _, t := range tenants {
		t.bar = bars.AddBar(int64(len(t.jobs)),
			mpb.PrependDecorators(decor.Name(t.name, decor.WCSyncSpaceR)),
			mpb.AppendDecorators(decor.CountersNoUnit("%d of %d jobs", decor.WCSyncSpace)))
		if t.queue, err = group.Get(ctx, t.name); err != nil {
			return err
		}
		if err = t.queue.PutMany(ctx, t.jobs); err != nil {
			return fmt.Errorf("putting the jobs of tenant %q: %w", t.name, err)
		}
	}
	for _, t := range tenants {
		if !amboy.Wait(ctx, t.queue) {
			return fmt.Errorf("stopped before the jobs of tenant %q had ended", t.name)
		}
		if !cwriter.New(out).IsTerminal() { // there are no bars
			_, err = fmt.Fprintf(out, "%s: %d jobs have ended\n", t.name, len(t.jobs))
		}
	}
	return err
}

// printTable prints a line for each tenant, and then what could not be read.
func printTable(out io.Writer, tenants []*tenant) error {
	lines, failures := "\nTENANT\tFILES\tLINES\tBYTES\tFAILED\t\n", ""
	for _, t := range tenants {
		lines += fmt.Sprintf("%s\t%d\t%d\t%d\t%d\t\n", t.name, t.files, t.lines, t.bytes, len(t.failures))
		for _, failure := range t.failures {
			failures += "failed: " + failure + "\n"
		}
	}
	table := tabwriter.NewWriter(out, 0, 0, 3, ' ', tabwriter.AlignRight)
	_, err := io.WriteString(table, lines+failures)
	return errors.Join(err, table.Flush())
}

// tenant is a folder of the directory, or "." for the files beside those.
type tenant struct {
	name    string
	queue   amboy.Queue
	jobs    []amboy.Job // first the summary, then one for each file
	bar     *mpb.Bar
	folders map[string]*totals
	totals  // of all folders, once the summary has run
}

func newTenant(name string) *tenant {
	return &tenant{name: name, jobs: []amboy.Job{newSummaryJob(name)}, folders: map[string]*totals{}}
}

// findTenants makes the tenants of a directory and their jobs, without .git.
func findTenants(dir string) ([]*tenant, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("can't serve the directory: %w", err)
	}
	tenants := []*tenant{newTenant(".")}
	tenantsByName = map[string]*tenant{".": tenants[0]}
	for _, entry := range entries {
		t := tenants[0]
		if entry.IsDir() && entry.Name() != ".git" {
			t = newTenant(entry.Name())
			tenants, tenantsByName[t.name] = append(tenants, t), t
		}
		if err = filepath.WalkDir(filepath.Join(dir, entry.Name()), t.visit); err != nil {
			return nil, fmt.Errorf("making the jobs of tenant %q: %w", t.name, err)
		}
	}
	return tenants, nil
}

// visit makes the job of a file. What can't be read is reported by its job.
func (t *tenant) visit(path string, entry fs.DirEntry, err error) error {
	info, statErr := os.Stat(path)
	size := int64(0)
	switch {
	case err != nil || statErr != nil:
	case info.Mode().IsRegular():
		size = info.Size()
	case entry.IsDir() && entry.Name() == ".git":
		return fs.SkipDir
	default:
		return nil
	}
	if dir := filepath.Dir(path); t.folders[dir] == nil {
		t.folders[dir] = &totals{}
	}
	id := fmt.Sprintf("file-%d", len(t.jobs))
	t.jobs = append(t.jobs, newFileJob(id, t.name, path, size))
	return t.jobs[0].Dependency().AddEdge(id)
}
