package cli

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/mongodb/amboy/management"
)

func (p *program) activity() *cobra.Command {
	req := management.ActivityRequest{Last: time.Hour}
	cmd := &cobra.Command{
		Use:     "activity",
		Aliases: []string{"stats"},
		Short:   "Tell how much queues did lately, how much of it failed, and how long it took",
		Long: "Tell how much queues did lately, how much of it failed, and how long jobs waited and\n" +
			"ran: so long or less for half of them (P50), and for 99 of a hundred (P99).",
		Args: cobra.NoArgs,
	}
	cmd.Flags().Var(length{&req.Last}, "last", "how far to look back, to 48h")
	cmd.Flags().StringArrayVar(&req.Queues, "queue", nil, "only this queue (repeat for more)")
	cmd.Flags().StringArrayVar(&req.Types, "type", nil, "only jobs of this type (repeat for more)")
	complete(cmd, "queue", p.completeQueues)
	cmd.RunE = p.asking(func(ctx context.Context, inspector management.Inspector, _ []string) error {
		activity, err := inspector.Activity(ctx, req)
		if err != nil {
			return fmt.Errorf("asking for the activity: %w", err)
		}
		return p.print(activity, func(out *page) {
			out.row("QUEUE", "TYPE", "SUCCEEDED", "FAILED", "RETRIED", "PER SECOND", "FAILING",
				"WAIT P50", "WAIT P99", "RUN P50", "RUN P99", "RUN MAX")
			for _, row := range activity.Rows {
				activityRow(out, named(row.Queue), row.Type, row)
			}
			activityRow(out, "(all)", "", activity.Sum)
		})
	})
	return cmd
}

func activityRow(out *page, queue, jobType string, r management.ActivityRow) {
	out.row(queue, jobType, strconv.Itoa(r.Succeeded), strconv.Itoa(r.Failed), strconv.Itoa(r.Retried),
		strconv.FormatFloat(r.PerSecond, 'g', 3, 64), percent(r.FailureRate),
		seconds(r.Wait.P50), seconds(r.Wait.P99), seconds(r.Run.P50), seconds(r.Run.P99), seconds(r.Run.Max))
}
