package cli

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mongodb/amboy/management"
)

// defaultDistance is the default of --distance.
const defaultDistance = 2

func (p *program) graphJob() *cobra.Command {
	var distance int
	cmd := &cobra.Command{
		Use:   "graph QUEUE ID",
		Short: "Show the jobs that a job waits for, and the jobs that wait for it",
		Long: "Show the jobs that a job waits for, which have negative distances, and the jobs that\n" +
			"wait for it, directly or through others.",
		Args:              exactly(2),
		ValidArgsFunction: p.completeQueue,
	}
	cmd.Flags().IntVar(&distance, "distance", defaultDistance, fmt.Sprintf("the maximum distance, at most %d", management.MaxGraphDistance))
	cmd.RunE = p.withInspector(func(ctx context.Context, inspector management.Inspector, args []string) error {
		graph, err := inspector.Graph(ctx, args[0], args[1], distance)
		if err != nil {
			return fmt.Errorf("showing the graph of job %q of queue %q: %w", args[1], args[0], err)
		}
		return p.print(graph, func(out *page) { graphTable(out, graph) })
	})
	return cmd
}

func graphTable(out *page, graph management.Graph) {
	waitsFor := map[string][]string{}
	for _, e := range graph.Edges {
		waitsFor[e.From] = append(waitsFor[e.From], e.To)
	}
	jobs := slices.Clone(graph.Jobs)
	slices.SortStableFunc(jobs, func(a, b management.GraphJob) int { return a.Distance - b.Distance })
	out.row("DISTANCE", "QUEUE", "ID", "TYPE", "STATE", "WAITS FOR")
	for _, j := range jobs {
		out.row(strconv.Itoa(j.Distance), nameOf(j.Queue), j.ID, j.Type, stateOrGone(j.State), strings.Join(waitsFor[j.ID], ", "))
	}
	if graph.Truncated {
		out.line("and more")
	}
}
