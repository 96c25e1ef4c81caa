package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/mongodb/amboy/internal/printable"
	"github.com/mongodb/amboy/management"
)

// completionTime is the timeout of a completion.
const completionTime = 2 * time.Second

// complete sets the completion of the value of a flag.
func complete(cmd *cobra.Command, flag string, how cobra.CompletionFunc) {
	if err := cmd.RegisterFlagCompletionFunc(flag, how); err != nil {
		panic(err) // the flag does not exist, which every test would find
	}
}

func fixed(values ...string) cobra.CompletionFunc {
	return cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)
}

// completeQueue completes the name of a queue as the first argument.
func (p *program) completeQueue(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return p.completeQueues(cmd, args, begun)
}

// completeTypes completes the name of a type of jobs that the service has registered.
func (p *program) completeTypes(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	inspector, err := p.connectTo(Service{Timeout: completionTime})
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	lister, ok := inspector.(management.TypeLister)
	if !ok {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), completionTime)
	defer cancel()
	types, err := lister.JobTypes(ctx)
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	var names []string
	for _, t := range types {
		if printable.Text(t.Type) == t.Type {
			names = append(names, t.Type)
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// completeQueues completes the names of queues as all arguments, or as the value of a flag. It
// suggests at most a page of them.
func (p *program) completeQueues(cmd *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
	inspector, err := p.connectTo(Service{Timeout: completionTime})
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), completionTime)
	defer cancel()
	found, err := inspector.FindQueues(ctx, management.QueueFilter{Name: begun}, management.PageRequest{Limit: management.MaxLimit})
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	var names []string
	for _, q := range found.Queues {
		if q.Name != "" && printable.Text(q.Name) == q.Name { // a shell would print other names unescaped
			names = append(names, q.Name)
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
