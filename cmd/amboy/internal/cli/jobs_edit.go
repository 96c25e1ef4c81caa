package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/mongodb/amboy/management"
)

func (p *program) editJob() *cobra.Command {
	var args, argsFile string
	var priority int
	var due time.Time
	var edit management.JobEdit
	cmd := &cobra.Command{
		Use:   "edit QUEUE ID",
		Short: "Change the arguments, priority or time of a job that has not started",
		Long: "Change the arguments, priority or time of a job that has not started. The edit is refused\n" +
			"once the job has been claimed.",
		Args:              exactly(2),
		ValidArgsFunction: p.completeQueue,
	}
	flags := cmd.Flags()
	flags.StringVar(&args, "args", "", "the new arguments, as JSON")
	flags.StringVar(&argsFile, "args-file", "", "a file with the new arguments; - for standard input")
	flags.IntVar(&priority, "priority", 0, "the new priority; the highest runs first")
	flags.Var(&timeFlag{at: &due, isAhead: true}, "due", "the new start time")
	flags.StringVar(&edit.Revision, "revision", "", "the revision of the job that was read: the edit is refused if it changed since")
	flags.BoolVar(&edit.DryRun, "dry-run", false, "change nothing, and show what would change")
	cmd.MarkFlagsMutuallyExclusive("args", "args-file")
	cmd.RunE = p.withInspector(func(ctx context.Context, inspector management.Inspector, names []string) error {
		var err error
		if edit.Args, err = p.readArgs(args, argsFile); err != nil {
			return err
		}
		if flags.Changed("priority") {
			edit.Priority = &priority
		}
		if flags.Changed("due") {
			edit.Due = &due
		}
		edited, err := inspector.EditJob(ctx, names[0], names[1], edit)
		if err != nil {
			return fmt.Errorf("editing job %q of queue %q: %w", names[1], names[0], err)
		}
		return p.print(edited, func(out *page) {
			for _, change := range edited.Changes {
				out.line(fmt.Sprintf("%s: %s -> %s", change.Field, change.From, change.To))
			}
			switch {
			case len(edited.Changes) == 0:
				out.line("nothing changes")
			case edit.DryRun:
				out.line("dry run: nothing was changed")
			}
		})
	})
	return cmd
}
