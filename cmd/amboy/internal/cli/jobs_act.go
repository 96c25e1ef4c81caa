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

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/printable"
	"github.com/mongodb/amboy/management"
)

// actPage is the number of jobs per request, so that no request takes long.
const actPage = 1000

// actionText contains the texts for a kind of action.
type actionText struct {
	kind  management.ActionKind
	short string
	done  string
}

func actions() []actionText {
	return []actionText{
		{management.Retry, "Run scheduled, failed, canceled and expired jobs now", "retried"},
		{management.Cancel, "Cancel jobs that have not ended; running jobs are asked to end", "canceled"},
		{management.Park, "Set aside jobs that have not started", "parked"},
		{management.Release, "Let parked jobs run", "released"},
		{management.Reschedule, "Change the start time of jobs that have not started", "rescheduled"},
		{management.Prioritize, "Change the priority of jobs that have not ended", "prioritized"},
		{management.Complete, "Mark jobs that have not ended as complete", "completed"},
		{management.Abandon, "Take running jobs away from stuck workers, so that the jobs run again", "abandoned"},
		{management.Delete, "Remove jobs that have ended", "deleted"},
	}
}

// actCommand is a command that acts on jobs.
type actCommand struct {
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
	a := &actCommand{program: p, actionText: text, action: management.Action{Kind: text.kind}}
	cmd := &cobra.Command{
		Use:   string(text.kind) + " {QUEUE ID... | FILTER}",
		Short: text.short,
		Long: text.short + ".\n\nJobs are named by their queue and IDs, or selected by flags. Selected jobs are\n" +
			"counted first, and must be confirmed. Selected jobs whose state does not allow the\n" +
			"action are skipped.",
		ValidArgsFunction: p.completeQueue,
	}
	a.selected = p.addFilterFlags(cmd)
	flags := cmd.Flags()
	flags.BoolVar(&a.all, "all", false, "select all jobs, if no other flag selects some")
	flags.BoolVar(&a.dryRun, "dry-run", false, "change nothing, and show what would be done")
	flags.BoolVarP(&a.yes, "yes", "y", false, "do not ask for confirmation")
	flags.IntVar(&a.limit, "limit", 0, "the maximum number of selected jobs, the newest first (default all)")
	flags.BoolVar(&a.strict, "strict", false, "exit with 3 if no job was selected, and with 4 if one was skipped")
	switch text.kind {
	case management.Retry:
		flags.BoolVar(&a.action.IgnoreDependencies, "ignore-dependencies", false,
			"run jobs that ended again whatever became of the jobs that they depend on")
	case management.Cancel, management.Park:
		flags.StringVar(&a.action.Reason, "reason", "", "the reason, shown with the job")
	case management.Reschedule:
		flags.Var(&timeFlag{at: &a.action.At, isAhead: true}, "at", "the new start time (required)")
	case management.Prioritize:
		flags.IntVar(&a.priority, "priority", 0, "the new priority; the highest runs first (required)")
	}
	cmd.RunE = p.run(func(ctx context.Context, args []string) error {
		if flags.Changed("priority") {
			a.action.Priority = &a.priority
		}
		if flags.Changed("limit") && a.limit < 1 {
			return usage("--limit must be at least 1 (is %d)", a.limit)
		}
		return a.run(ctx, args)
	})
	return cmd
}

func (a *actCommand) run(ctx context.Context, args []string) error {
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
		return usage("use either a queue and IDs, or flags that select jobs, but not both")
	case len(args) == 1:
		return usage("the IDs of the jobs are missing after the queue %q", args[0])
	case len(args) == 0 && a.all && a.selected.given():
		return usage("--all selects all jobs and can't be combined with other flags that select jobs")
	case len(args) == 0 && !a.all && filter.SelectsAll():
		return usage("use a queue and IDs, or flags that select jobs; --all selects all jobs")
	case len(args) == 0 && !a.yes && !a.dryRun && !a.Interactive:
		return &exitError{code: exitUnconfirmed, err: fmt.Errorf("can't ask for confirmation without a terminal: add --yes or --dry-run")}
	}
	if a.inspector, err = a.connect(); err != nil {
		return err
	}
	if len(args) > 0 {
		return a.actOnNamed(ctx, args[0], args[1:])
	}
	return a.actOnSelected(ctx, filter)
}

// actOnNamed acts on jobs by their IDs. If a job does not exist, or its state forbids the
// action, it continues with the others.
func (a *actCommand) actOnNamed(ctx context.Context, queue string, ids []string) error {
	var sum management.Acted
	var first error
	for _, id := range ids {
		acted, err := a.one(ctx, queue, id)
		add(&sum, acted)
		if err == nil {
			continue
		}
		err = fmt.Errorf("%s job %q of queue %q: %w", a.kind, id, queue, err)
		a.report(err)
		if first == nil {
			first = &exitError{code: exitCode(err)}
		}
		if code := exitCode(err); code != exitNotFound && code != exitRefused {
			first = &exitError{code: code} // the command did not come to all jobs
			break
		}
	}
	if first != nil && sum == (management.Acted{}) {
		return first
	}
	if err := a.printResult(sum); err != nil {
		return err
	}
	if first != nil {
		return first
	}
	return a.strictResult(sum)
}

func (a *actCommand) one(ctx context.Context, queue, id string) (management.Acted, error) {
	if !a.dryRun {
		return a.inspector.ActOn(ctx, queue, id, a.action)
	}
	acted, _, err := a.sweep(ctx, management.JobFilter{Queues: []string{queue}, IDs: []string{id}}, true, math.MaxInt, "")
	if err == nil && acted == (management.Acted{}) {
		// A dry run does not report that a job does not exist.
		_, err = a.inspector.Job(ctx, queue, id)
	}
	return acted, err
}

// actOnSelected counts the jobs that a filter selects, and then acts on at most that number.
// Otherwise jobs that fail again at once would be selected again and again.
func (a *actCommand) actOnSelected(ctx context.Context, filter management.JobFilter) error {
	most := math.MaxInt
	if a.limit > 0 {
		most = a.limit
	}
	preview, _, err := a.sweep(ctx, filter, true, most, "")
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
	acted, next, err := a.sweep(ctx, filter, false, preview.Done+preview.Skipped, "")
	if err != nil {
		return err
	}
	var left error
	if next != "" && a.limit == 0 {
		left = a.noteLeft(ctx, filter, next)
	}
	err = a.end(acted) // the action was done, whatever became of the count
	if left != nil {
		return left
	}
	return err
}

// noteLeft says how many jobs are left after a cursor: because the newest are acted on first, jobs
// that have come since the count push out older ones.
func (a *actCommand) noteLeft(ctx context.Context, filter management.JobFilter, cursor string) error {
	left, _, err := a.sweep(ctx, filter, true, math.MaxInt, cursor)
	if err == nil && left.Done > 0 {
		a.note("%d older jobs that match were left, because others have come since the count: repeat the command", left.Done)
	}
	return err
}

// sweep acts on up to most of the jobs that a filter selects, page by page, from a cursor on. It
// returns where it stopped.
func (a *actCommand) sweep(ctx context.Context, filter management.JobFilter, dryRun bool, most int, cursor string) (sum management.Acted, next string, err error) {
	for {
		acted, err := a.inspector.Act(ctx, management.ActRequest{
			Action: a.action, Filter: filter, All: a.all, Cursor: cursor, DryRun: dryRun,
			Limit: min(most-sum.Done-sum.Skipped, actPage),
		})
		switch {
		case err != nil && !dryRun:
			return sum, "", fmt.Errorf("%s jobs, after %d of them: %w", a.kind, sum.Done, err)
		case err != nil:
			return sum, "", fmt.Errorf("counting the jobs to %s: %w", a.kind, err)
		}
		add(&sum, acted)
		cursor = acted.Next
		if cursor == "" || sum.Done+sum.Skipped >= most {
			return sum, cursor, nil
		}
	}
}

// add adds the numbers of a part of an action.
func add(sum *management.Acted, part management.Acted) {
	sum.Done += part.Done
	sum.Skipped += part.Skipped
	sum.States.Add(part.States)
}

// confirm asks the user for confirmation.
func (a *actCommand) confirm(ctx context.Context, preview management.Acted) error {
	question := fmt.Sprintf("%s; skipped: %d. Continue? [y/N] ", printable.Text(a.would(preview)), preview.Skipped)
	if _, err := io.WriteString(a.Stderr, question); err != nil {
		return fmt.Errorf("asking for confirmation: %w", err)
	}
	answer := make(chan string, 1)
	go func() { // ends with the process at the latest, because a terminal read can't be canceled
		line, err := bufio.NewReader(a.Stdin).ReadString('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			line = "" // no answer means no
		}
		answer <- strings.ToLower(strings.TrimSpace(line))
	}()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case text := <-answer:
		if text == "y" || text == "yes" {
			return nil
		}
		return &exitError{code: exitUnconfirmed, err: fmt.Errorf("nothing was done")}
	}
}

func (a *actCommand) end(acted management.Acted) error {
	if err := a.printResult(acted); err != nil {
		return err
	}
	return a.strictResult(acted)
}

func (a *actCommand) printResult(acted management.Acted) error {
	return a.print(acted, func(out *page) {
		if a.dryRun {
			out.line(fmt.Sprintf("%s; skipped: %d", a.would(acted), acted.Skipped))
			return
		}
		out.line(fmt.Sprintf("%s: %d, skipped: %d", a.done, acted.Done, acted.Skipped))
	})
}

// would returns what a preview found: how many jobs in which states would change, and whether
// scheduled jobs would start before their time.
func (a *actCommand) would(preview management.Acted) string {
	text := fmt.Sprintf("would be %s: %d", a.done, preview.Done)
	var states []string
	for _, state := range amboy.JobStates() {
		if n := preview.States.Of(state); n > 0 {
			states = append(states, fmt.Sprintf("%s: %d", state, n))
		}
	}
	if len(states) > 0 {
		text += " (" + strings.Join(states, ", ") + ")"
	}
	if a.kind == management.Retry && preview.States.Scheduled > 0 {
		text += ", scheduled jobs before their time"
	}
	return text
}

// strictResult returns the exit code for --strict.
func (a *actCommand) strictResult(acted management.Acted) error {
	switch {
	case !a.strict:
		return nil
	case acted.Skipped > 0:
		return &exitError{code: exitRefused}
	default:
		return foundAny(a.strict, acted.Done)
	}
}
