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
		Short:   "Show the recent throughput, failures and durations of queues",
		Long: "Show how many jobs ended recently, how many of them failed, and how long jobs waited\n" +
			"and ran (median and 99th percentile).",
		Args: exactly(0),
	}
	cmd.Flags().Var(durationFlag{&req.Last}, "last", "the length of the period up to now, at most 720h")
	cmd.Flags().StringArrayVar(&req.Queues, "queue", nil, "only this queue (repeat for more)")
	cmd.Flags().StringArrayVar(&req.Types, "type", nil, "only jobs of this type (repeat for more)")
	complete(cmd, "queue", p.completeQueues)
	cmd.RunE = p.withInspector(func(ctx context.Context, inspector management.Inspector, _ []string) error {
		activity, err := inspector.Activity(ctx, req)
		if err != nil {
			return fmt.Errorf("reading the activity: %w", err)
		}
		return p.print(activity, func(out *page) {
			out.columns(nil, []string{"WAIT P50", "RUN P50", "RUN MAX", "RETRIED", "PER SECOND"})
			out.row("QUEUE", "TYPE", "SUCCEEDED", "FAILED", "RETRIED", "PER SECOND", "FAILING",
				"WAIT P50", "WAIT P99", "RUN P50", "RUN P99", "RUN MAX")
			for _, row := range activity.Rows {
				activityRow(out, nameOf(row.Queue), row.Type, row)
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
