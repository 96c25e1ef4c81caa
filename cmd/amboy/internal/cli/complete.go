package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/mongodb/amboy/internal/printable"
)

// completionTime is how long a shell waits for names.
const completionTime = 2 * time.Second

// complete sets how a shell completes the value of a flag.
func complete(cmd *cobra.Command, flag string, how cobra.CompletionFunc) {
	if err := cmd.RegisterFlagCompletionFunc(flag, how); err != nil {
		panic(err) // there is no such flag: every test finds that
	}
}

func fixed(values ...string) cobra.CompletionFunc {
	return cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)
}

// completeQueue completes a first argument, or the value of a flag, that is a queue.
func (p *program) completeQueue(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return p.completeQueues(cmd, args, "")
}

// completeQueues completes arguments that all are queues.
func (p *program) completeQueues(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	inspector, err := p.connectTo(Service{Timeout: completionTime})
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), completionTime)
	defer cancel()
	queues, err := inspector.Queues(ctx)
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	var names []string
	for _, q := range queues {
		if q.Name != "" && printable.Text(q.Name) == q.Name { // a shell would show others as they are
			names = append(names, q.Name)
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
