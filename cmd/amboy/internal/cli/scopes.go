package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/mongodb/amboy/management"
)

func (p *program) scopes() *cobra.Command {
	var filter management.ScopeFilter
	cmd := &cobra.Command{
		Use:   "scopes",
		Short: "List the scopes that are held, by which job, and how many jobs wait",
		Args:  exactly(0),
	}
	cmd.Flags().StringArrayVar(&filter.Queues, "queue", nil, "only scopes of this queue (repeat for more)")
	cmd.Flags().StringVar(&filter.Name, "name", "", "only this scope")
	cmd.Flags().StringVar(&filter.Part, "part", "", "only scopes whose names have this part")
	complete(cmd, "queue", p.completeQueues)
	paging := addPageFlags(cmd)
	cmd.RunE = p.withInspector(func(ctx context.Context, inspector management.Inspector, _ []string) error {
		scopes, next, err := collect(paging, false, func(page management.PageRequest) ([]management.Scope, string, error) {
			found, askErr := inspector.Scopes(ctx, filter, page)
			return found.Scopes, found.Next, askErr
		})
		if err != nil {
			return fmt.Errorf("listing scopes: %w", err)
		}
		err = p.print(management.ScopePage{Scopes: scopes, Next: next}, func(out *page) {
			out.row("QUEUE", "SCOPE", "WAITING", "HELD FOR", "STATE", "HELD BY")
			for _, s := range scopes {
				out.row(nameOf(s.Queue), s.Name, countText(s.Waiting), age(s.Since), string(s.State), nameOf(s.Holder.Queue)+" "+s.Holder.ID)
			}
		})
		p.hintNext(cmd, next)
		return err
	})
	return cmd
}
