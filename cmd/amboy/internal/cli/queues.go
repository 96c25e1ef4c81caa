package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/management"
)

func (p *program) queues() *cobra.Command {
	on, off := true, false
	return p.group("queues", "Show, pause, drain and limit queues",
		p.listQueues(),
		p.showQueue(),
		p.changeQueue("pause", "Stop starting the jobs of a queue", management.ControlChange{Paused: &on}),
		p.changeQueue("drain", "Refuse new jobs in a queue, and run the existing ones", management.ControlChange{Draining: &on}),
		p.changeQueue("resume", "Undo pause and drain", management.ControlChange{Paused: &off, Draining: &off}),
		p.setQueue(),
		p.watchQueues(),
	)
}

func (p *program) listQueues() *cobra.Command {
	var filter management.QueueFilter
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the queues",
		Args:  exactly(0),
	}
	cmd.Flags().StringVar(&filter.Name, "name", "", "only queues whose name contains this text")
	paging := addPageFlags(cmd)
	cmd.RunE = p.withInspector(func(ctx context.Context, inspector management.Inspector, _ []string) error {
		queues, next, err := collect(paging, false, func(page management.PageRequest) ([]management.Queue, string, error) {
			found, askErr := inspector.FindQueues(ctx, filter, page)
			return found.Queues, found.Next, askErr
		})
		if err != nil {
			return fmt.Errorf("listing queues: %w", err)
		}
		err = p.print(management.QueuePage{Queues: queues, Next: next}, func(out *page) { queueTable(out, queues) })
		p.hintNext(cmd, next)
		return err
	})
	return cmd
}

func queueTable(out *page, queues []management.Queue) {
	out.columns(nil, []string{"COMPLETED", "RETRYING", "BLOCKED"})
	out.row("QUEUE", "PENDING", "BLOCKED", "RUNNING", "RETRYING", "COMPLETED", "OLDEST", "SET")
	for _, q := range queues {
		c := q.Counts
		out.row(nameOf(q.Name), strconv.Itoa(c.Pending), strconv.Itoa(c.Blocked), strconv.Itoa(c.Running),
			strconv.Itoa(c.Retrying), strconv.Itoa(c.Completed), age(q.OldestPending), controlText(q.Control))
	}
	for _, q := range queues {
		unknownJobs(out, q)
	}
}

// unknownJobs writes a line for each kind of waiting jobs that no process can run.
func unknownJobs(out *page, q management.Queue) {
	for _, unknown := range q.Unknown {
		jobs, are := "jobs", "are"
		if unknown.Jobs.Count == 1 {
			jobs, are = "job", "is"
		}
		out.line(fmt.Sprintf("no process can run %s: %s %s of queue %s %s waiting", unknown, countText(unknown.Jobs), jobs, nameOf(q.Name), are))
	}
}

// nothingSet stands for controls without effect in tables.
const nothingSet = "-"

// controlText describes the controls of a queue.
func controlText(c management.Control) string {
	var set []string
	if c.Paused {
		set = append(set, "paused")
	}
	if c.Draining {
		set = append(set, "draining")
	}
	if c.MaxRunning > 0 {
		set = append(set, fmt.Sprintf("max-running %d", c.MaxRunning))
	}
	if c.Rate != nil {
		set = append(set, "rate "+c.Rate.String())
	}
	for _, jobType := range slices.Sorted(maps.Keys(c.Types)) {
		set = append(set, fmt.Sprintf("type %s: %s", jobType, limitText(c.Types[jobType])))
	}
	if c.Workers > 0 {
		set = append(set, fmt.Sprintf("workers %d", c.Workers))
	}
	if len(set) == 0 {
		return nothingSet
	}
	return strings.Join(set, ", ")
}

// limitText describes the limit of a job type.
func limitText(l amboy.TypeLimit) string {
	var set []string
	if l.MaxRunning > 0 {
		set = append(set, fmt.Sprintf("max-running %d", l.MaxRunning))
	}
	if l.Rate != nil {
		set = append(set, "rate "+l.Rate.String())
	}
	return strings.Join(set, " and ")
}

func (p *program) showQueue() *cobra.Command {
	return &cobra.Command{
		Use:               "show QUEUE",
		Short:             "Show a queue",
		Args:              exactly(1),
		ValidArgsFunction: p.completeQueue,
		RunE: p.withInspector(func(ctx context.Context, inspector management.Inspector, args []string) error {
			q, err := inspector.Queue(ctx, args[0])
			if err != nil {
				return fmt.Errorf("showing queue %q: %w", args[0], err)
			}
			return p.print(q, func(out *page) {
				out.row("queue", nameOf(q.Name))
				out.row("set", controlText(q.Control))
				out.row("pending", strconv.Itoa(q.Counts.Pending))
				out.row("blocked", strconv.Itoa(q.Counts.Blocked))
				out.row("running", strconv.Itoa(q.Counts.Running))
				out.row("retrying", strconv.Itoa(q.Counts.Retrying))
				out.row("completed", strconv.Itoa(q.Counts.Completed))
				out.row("total", strconv.Itoa(q.Counts.Total))
				out.row("oldest pending", moment(q.OldestPending))
				unknownJobs(out, q)
			})
		}),
	}
}

// changeQueue returns a command that makes one change to a queue.
func (p *program) changeQueue(name, short string, change management.ControlChange) *cobra.Command {
	return &cobra.Command{
		Use:               name + " QUEUE",
		Short:             short,
		Args:              exactly(1),
		ValidArgsFunction: p.completeQueue,
		RunE: p.withInspector(func(ctx context.Context, inspector management.Inspector, args []string) error {
			return p.control(ctx, inspector, args[0], change)
		}),
	}
}

func (p *program) setQueue() *cobra.Command {
	var maxRunning, workers, burst int
	var rate, jobType string
	var create bool
	cmd := &cobra.Command{
		Use:   "set QUEUE",
		Short: "Set the running limit, the rate and the number of workers of a queue",
		Long: "Set the running limit, the rate and the number of workers of a queue, for all processes.\n" +
			"0 removes the running limit, or restores the configured number of workers; a rate of 0\n" +
			"starts no job, and \"none\" removes the rate. With --type, the running limit and the rate are\n" +
			"those of the jobs of that type. Other processes apply a number of workers within a minute.",
		Args:              exactly(1),
		ValidArgsFunction: p.completeQueue,
	}
	cmd.Flags().IntVar(&maxRunning, "max-running", 0, "the maximum number of running jobs, over all processes; 0 for no limit")
	cmd.Flags().StringVar(&rate, "rate", "", "the number of jobs that start per second, over all processes, such as 0.1; none for no limit")
	cmd.Flags().IntVar(&burst, "burst", 0, "with --rate: the number of jobs that may start at once; 0 for a tenth of a second's, at least one")
	cmd.Flags().IntVar(&workers, "workers", 0, "the number of workers in each process; 0 for the configured number")
	cmd.Flags().StringVar(&jobType, "type", "", "limit only the jobs of this type, with --max-running and --rate")
	cmd.Flags().BoolVar(&create, "create", false, "also set a queue that does not exist yet, for its first job to come")
	cmd.MarkFlagsOneRequired("max-running", "rate", "workers")
	cmd.MarkFlagsMutuallyExclusive("type", "workers")
	cmd.RunE = p.withInspector(func(ctx context.Context, inspector management.Inspector, args []string) error {
		var change management.ControlChange
		if cmd.Flags().Changed("max-running") {
			change.MaxRunning = &maxRunning
		}
		if cmd.Flags().Changed("workers") {
			change.Workers = &workers
		}
		if err := setRate(&change, rate, burst); err != nil {
			return err
		}
		if cmd.Flags().Changed("type") {
			q, err := inspector.Queue(ctx, args[0])
			if err != nil && (!create || !errors.Is(err, management.ErrUnknownQueue)) {
				return hintCreate(fmt.Errorf("reading the limits of queue %q: %w", args[0], err))
			}
			change = limitOfType(jobType, q.Control.Types[jobType], change)
		}
		change.Create = create
		return hintCreate(p.control(ctx, inspector, args[0], change))
	})
	return cmd
}

// hintCreate adds to the refusal of an unknown queue how to set it all the same.
func hintCreate(err error) error {
	if errors.Is(err, management.ErrUnknownQueue) {
		return fmt.Errorf("%w; add --create to set it before its first job", err)
	}
	return err
}

// limitOfType returns the change of the limit of a type from the change of the limits of a queue.
func limitOfType(jobType string, limit amboy.TypeLimit, change management.ControlChange) management.ControlChange {
	if change.MaxRunning != nil {
		limit.MaxRunning = *change.MaxRunning
	}
	if change.Rate != nil || change.NoRate {
		limit.Rate = change.Rate
	}
	return management.ControlChange{TypeLimit: &management.TypeLimitChange{Type: jobType, TypeLimit: limit}}
}

// setRate adds the change of a rate, unless the text is empty.
func setRate(change *management.ControlChange, text string, burst int) error {
	switch text {
	case "":
		if burst != 0 {
			return usage("--burst needs --rate")
		}
		return nil
	case "none":
		if burst != 0 {
			return usage("--burst needs a number as --rate (is %q)", text)
		}
		change.NoRate = true
		return nil
	}
	perSecond, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return usage("--rate must be a number, or none (is %q)", text)
	}
	change.Rate = &amboy.Rate{PerSecond: perSecond, Burst: burst}
	return nil
}

func (p *program) control(ctx context.Context, inspector management.Inspector, queue string, change management.ControlChange) error {
	control, err := inspector.SetControl(ctx, queue, change)
	if err != nil {
		return fmt.Errorf("changing queue %q: %w", queue, err)
	}
	text := controlText(control)
	if text == nothingSet {
		text = "not paused, no limits"
	}
	return p.print(control, func(out *page) { out.line(nameOf(queue) + ": " + text) })
}
