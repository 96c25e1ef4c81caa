package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mongodb/amboy/internal/printable"
	"github.com/mongodb/amboy/management"
)

// actPage is how many jobs one request acts on, so that none takes long.
const actPage = 1000

// actionText is what is said of a kind of actions.
type actionText struct {
	kind  management.ActionKind
	short string
	done  string
}

func actions() []actionText {
	return []actionText{
		{management.Retry, "Run jobs now: those that wait, and those that failed, were canceled or expired", "retried"},
		{management.Cancel, "End jobs that have not ended; one that runs is asked to end", "canceled"},
		{management.Park, "Set jobs aside that have not started", "parked"},
		{management.Release, "Let parked jobs go on", "released"},
		{management.Reschedule, "Give jobs that have not started another time at which they may start", "rescheduled"},
		{management.Prioritize, "Give jobs that have not ended another priority", "prioritized"},
		{management.Complete, "Mark jobs complete that have not ended", "completed"},
		{management.Abandon, "Take running jobs from workers that are stuck, so that they run again", "abandoned"},
		{management.Delete, "Remove jobs that have ended", "deleted"},
	}
}

// acting is one command that acts on jobs.
type acting struct {
	*program
	inspector management.Inspector
	actionText
	action   management.Action
	selected *filterFlags
	priority int
	limit    int

	all, dryRun, yes, strict bool
}

func (p *program) actOnJobs(text actionText) *cobra.Command {
	a := &acting{program: p, actionText: text, action: management.Action{Kind: text.kind}}
	cmd := &cobra.Command{
		Use:   string(text.kind) + " {QUEUE ID... | FILTER}",
		Short: text.short,
		Long: text.short + ".\n\nThe jobs are named by their queue and their IDs, or selected by flags. What is\n" +
			"selected is counted first, and has to be confirmed. Jobs that were selected, and\n" +
			"whose state does not allow it, are skipped.",
		ValidArgsFunction: p.completeQueue,
	}
	a.selected = p.addFilterFlags(cmd)
	flags := cmd.Flags()
	flags.BoolVar(&a.all, "all", false, "all jobs, where no other flag selects some")
	flags.BoolVar(&a.dryRun, "dry-run", false, "change nothing, and tell what would be done")
	flags.BoolVarP(&a.yes, "yes", "y", false, "do not ask for confirmation")
	flags.IntVar(&a.limit, "limit", 0, "how many of the selected jobs to look at, the oldest first (default all)")
	flags.BoolVar(&a.strict, "strict", false, "exit with 3 where no job was selected, and with 4 where one was skipped")
	switch text.kind {
	case management.Cancel, management.Park:
		flags.StringVar(&a.action.Reason, "reason", "", "why; the job shows it")
	case management.Reschedule:
		flags.Var(when{&a.action.At}, "at", "when they may start (required)")
	case management.Prioritize:
		flags.IntVar(&a.priority, "priority", 0, "the priority; the highest run first (required)")
	}
	cmd.RunE = p.run(func(ctx context.Context, args []string) error {
		if flags.Changed("priority") {
			a.action.Priority = &a.priority
		}
		if flags.Changed("limit") && a.limit < 1 {
			return usage("--limit must be at least 1, and is %d", a.limit)
		}
		return a.run(ctx, args)
	})
	return cmd
}

func (a *acting) run(ctx context.Context, args []string) error {
	filter, err := a.selected.read()
	if err != nil {
		return err
	}
	err = a.action.Validate()
	if err != nil {
		return err
	}
	switch {
	case len(args) > 0 && (a.selected.given() || a.all || a.limit > 0):
		return usage("name jobs by their queue and IDs, or select them by flags, but not both")
	case len(args) == 1:
		return usage("after the queue %q, name the jobs by their IDs", args[0])
	case len(args) == 0 && a.all && a.selected.given():
		return usage("--all is for all jobs: leave it out, or the flags that select some")
	case len(args) == 0 && !a.all && filter.SelectsAll():
		return usage("name jobs by their queue and IDs, or select them by flags; --all is for all jobs")
	case len(args) == 0 && !a.yes && !a.dryRun && !a.Interactive:
		return &exitError{code: exitUnconfirmed, err: fmt.Errorf("nobody can be asked here: add --yes, or --dry-run")}
	}
	if a.inspector, err = a.connect(); err != nil {
		return err
	}
	if len(args) > 0 {
		return a.named(ctx, args[0], args[1:])
	}
	return a.filtered(ctx, filter)
}

// named acts on jobs by their IDs. Where one has no such job, or its state forbids the
// action, the others are done nevertheless.
func (a *acting) named(ctx context.Context, queue string, ids []string) error {
	var sum management.Acted
	var first error
	for _, id := range ids {
		acted, err := a.one(ctx, queue, id)
		sum.Done += acted.Done
		sum.Skipped += acted.Skipped
		if err == nil {
			continue
		}
		err = fmt.Errorf("%s job %q of queue %q: %w", a.kind, id, queue, err)
		a.report(err)
		if first == nil {
			first = &exitError{code: exitCode(err)}
		}
		if code := exitCode(err); code != exitNotFound && code != exitRefused {
			break
		}
	}
	if first != nil && sum == (management.Acted{}) {
		return first
	}
	if err := a.tell(sum); err != nil {
		return err
	}
	if first != nil {
		return first
	}
	return a.judge(sum)
}

func (a *acting) one(ctx context.Context, queue, id string) (management.Acted, error) {
	if !a.dryRun {
		return a.inspector.ActOn(ctx, queue, id, a.action)
	}
	acted, err := a.sweep(ctx, management.JobFilter{Queues: []string{queue}, IDs: []string{id}}, true, math.MaxInt)
	if err == nil && acted == (management.Acted{}) {
		// The answer of a dry run does not tell that there is no such job.
		_, err = a.inspector.Job(ctx, queue, id)
	}
	return acted, err
}

// filtered acts on the jobs that a filter selects, after it has counted them: on not more
// than these, as a job that fails again at once would be selected again and again.
func (a *acting) filtered(ctx context.Context, filter management.JobFilter) error {
	most := math.MaxInt
	if a.limit > 0 {
		most = a.limit
	}
	preview, err := a.sweep(ctx, filter, true, most)
	if err != nil {
		return err
	}
	if a.dryRun || preview.Done == 0 {
		return a.end(preview)
	}
	if !a.yes {
		err = a.confirm(ctx, preview)
		if err != nil {
			return err
		}
	}
	acted, err := a.sweep(ctx, filter, false, preview.Done+preview.Skipped)
	if err != nil {
		return err
	}
	return a.end(acted)
}

// sweep acts on the jobs that a filter selects, page by page, up to a number of them.
func (a *acting) sweep(ctx context.Context, filter management.JobFilter, dryRun bool, most int) (management.Acted, error) {
	var sum management.Acted
	cursor := ""
	for {
		acted, err := a.inspector.Act(ctx, management.ActRequest{
			Action: a.action, Filter: filter, All: a.all, Cursor: cursor, DryRun: dryRun,
			Limit: min(most-sum.Done-sum.Skipped, actPage),
		})
		switch {
		case err != nil && !dryRun:
			return sum, fmt.Errorf("%s jobs, after %d of them: %w", a.kind, sum.Done, err)
		case err != nil:
			return sum, fmt.Errorf("looking for the jobs to %s: %w", a.kind, err)
		}
		sum.Done += acted.Done
		sum.Skipped += acted.Skipped
		cursor = acted.Next
		if cursor == "" || sum.Done+sum.Skipped >= most {
			return sum, nil
		}
	}
}

// confirm asks whether to go on.
func (a *acting) confirm(ctx context.Context, preview management.Acted) error {
	question := fmt.Sprintf("%s (skipped: %d). Go on? [y/N] ", printable.Text(a.would(preview)), preview.Skipped)
	if _, err := io.WriteString(a.Stderr, question); err != nil {
		return fmt.Errorf("asking for confirmation: %w", err)
	}
	answer := make(chan string, 1)
	go func() { // ends with the process at the latest: a read of a terminal can't be stopped
		line, err := bufio.NewReader(a.Stdin).ReadString('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			line = "" // no answer is a no
		}
		answer <- strings.ToLower(strings.TrimSpace(line))
	}()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case said := <-answer:
		if said == "y" || said == "yes" {
			return nil
		}
		return &exitError{code: exitUnconfirmed, err: fmt.Errorf("nothing was done")}
	}
}

func (a *acting) end(acted management.Acted) error {
	if err := a.tell(acted); err != nil {
		return err
	}
	return a.judge(acted)
}

func (a *acting) tell(acted management.Acted) error {
	return a.print(acted, func(out *page) {
		text := fmt.Sprintf("%s: %d", a.done, acted.Done)
		if a.dryRun {
			text = a.would(acted)
		}
		out.line(fmt.Sprintf("%s, skipped: %d", text, acted.Skipped))
	})
}

func (a *acting) would(acted management.Acted) string {
	return fmt.Sprintf("would be %s: %d", a.done, acted.Done)
}

// judge is the exit code that --strict asks for.
func (a *acting) judge(acted management.Acted) error {
	switch {
	case !a.strict:
		return nil
	case acted.Skipped > 0:
		return &exitError{code: exitRefused}
	default:
		return foundAny(a.strict, acted.Done)
	}
}
