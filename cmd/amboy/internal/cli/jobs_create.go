package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/mongodb/amboy/management"
)

func (p *program) createJob() *cobra.Command {
	var args, argsFile string
	job := management.NewJob{}
	due, deadline := &timeFlag{at: &job.Due, isAhead: true}, &timeFlag{at: &job.Deadline, isAhead: true}
	cmd := &cobra.Command{
		Use:   "create QUEUE TYPE",
		Short: "Create a job in a queue",
		Long: "Create a job in a queue. The service must know its type, or the job is for a worker outside of\n" +
			"Go (--outside), as all jobs of amboy serve are.",
		Args: exactly(2),
		ValidArgsFunction: func(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
			if len(args) == 1 {
				return p.completeTypes(cmd, args, begun)
			}
			return p.completeQueue(cmd, args, begun)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&args, "args", "", "the arguments, as JSON")
	flags.StringVar(&argsFile, "args-file", "", "a file with the arguments; - for standard input")
	flags.BoolVar(&job.Outside, "outside", false, "the job is for a worker outside of Go: the service does not have to know its type, and the queue is made if it does not exist")
	flags.StringVar(&job.ID, "id", "", "the ID (default a random one)")
	flags.IntVar(&job.Priority, "priority", 0, "the priority; the highest runs first")
	flags.Var(due, "due", "the earliest start time")
	flags.Var(deadline, "deadline", "the latest start time")
	flags.StringVar(&job.IdempotencyKey, "idempotency-key", "", "a key that makes a repetition of this command within a day do nothing; times must not be durations then")
	cmd.MarkFlagsMutuallyExclusive("args", "args-file")
	cmd.RunE = p.withInspector(func(ctx context.Context, inspector management.Inspector, names []string) error {
		job.Queue, job.Type = names[0], names[1]
		if job.IdempotencyKey != "" && (due.isRelative || deadline.isRelative) {
			return usage("with --idempotency-key, --due and --deadline must be times such as 2026-11-21T15:04:05Z: a duration means another time when the command is repeated, which would be refused")
		}
		var err error
		if job.Args, err = p.readArgs(args, argsFile); err != nil {
			return err
		}
		created, err := inspector.CreateJob(ctx, job)
		if err != nil {
			return fmt.Errorf("creating a job of type %q in queue %q: %w", job.Type, job.Queue, err)
		}
		return p.print(created, func(out *page) {
			if created.Repeated {
				out.line("already created: " + nameOf(created.Queue) + " " + created.ID)
				return
			}
			out.line("created: " + nameOf(created.Queue) + " " + created.ID)
		})
	})
	return cmd
}

// readArgs reads the arguments of a job; nil if there are none.
func (p *program) readArgs(args, file string) (json.RawMessage, error) {
	content := []byte(args)
	var err error
	switch file {
	case "":
	case "-":
		content, err = io.ReadAll(p.Stdin)
	default:
		content, err = os.ReadFile(file)
	}
	switch {
	case err != nil:
		return nil, &exitError{code: exitUsage, err: fmt.Errorf("reading the arguments: %w", err)}
	case len(content) == 0 && file != "": // perhaps of a command that failed
		return nil, usage("--args-file must name a file that is not empty")
	case len(content) == 0:
		return nil, nil
	case !json.Valid(content):
		return nil, usage("the arguments must be JSON, for instance %s", `'{"to":"ada@example.org"}' or '"ada"'`)
	default:
		return content, nil
	}
}
