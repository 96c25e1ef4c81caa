package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/mongodb/amboy/management"
)

func (p *program) schedules() *cobra.Command {
	return &cobra.Command{
		Use:   "schedules",
		Short: "List the schedules, with their last and next ticks",
		Args:  cobra.NoArgs,
		RunE: p.withInspector(func(ctx context.Context, inspector management.Inspector, _ []string) error {
			schedules, err := inspector.Schedules(ctx)
			if err != nil {
				return fmt.Errorf("listing schedules: %w", err)
			}
			return p.print(orEmpty(schedules), func(out *page) {
				out.row("QUEUE", "SCHEDULE", "SPEC", "CATCH-UP", "LAST", "NEXT", "SEEN", "ERROR")
				for _, s := range schedules {
					out.row(nameOf(s.Queue), s.Name, s.Spec, s.CatchUp, age(s.Last), age(s.Next), age(s.Seen), oneLine(s.Error))
				}
			})
		}),
	}
}
