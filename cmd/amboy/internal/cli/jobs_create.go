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
	cmd := &cobra.Command{
		Use:               "create QUEUE TYPE",
		Short:             "Put a job of a registered type in a queue",
		Args:              exactly(2),
		ValidArgsFunction: p.completeQueue,
	}
	flags := cmd.Flags()
	flags.StringVar(&args, "args", "", "its arguments, a JSON object")
	flags.StringVar(&argsFile, "args-file", "", "file that holds its arguments; - for the standard input")
	flags.StringVar(&job.ID, "id", "", "its ID (default one that is made up)")
	flags.IntVar(&job.Priority, "priority", 0, "its priority; the highest run first")
	flags.Var(when{&job.Due}, "due", "when it may start")
	flags.Var(when{&job.Deadline}, "deadline", "until when it must have started")
	flags.StringVar(&job.IdempotencyKey, "idempotency-key", "", "key that makes this command do nothing when it is repeated within a day")
	cmd.MarkFlagsMutuallyExclusive("args", "args-file")
	cmd.RunE = p.asking(func(ctx context.Context, inspector management.Inspector, names []string) error {
		job.Queue, job.Type = names[0], names[1]
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
				out.line("was created before: " + named(created.Queue) + " " + created.ID)
				return
			}
			out.line("created: " + named(created.Queue) + " " + created.ID)
		})
	})
	return cmd
}

// readArgs reads the arguments of a job, none where there are no flags for them.
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
	case len(content) == 0:
		return nil, nil
	case !json.Valid(content):
		return nil, usage("the arguments are not JSON")
	default:
		return content, nil
	}
}
