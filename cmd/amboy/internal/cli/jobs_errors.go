package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/numbering"
	"github.com/mongodb/amboy/management"
)

func (p *program) groupErrors() *cobra.Command {
	var strict bool
	req := management.ErrorGroupRequest{}
	cmd := &cobra.Command{
		Use:   "errors",
		Short: "Group jobs by their last errors, most jobs first",
		Long: "Group jobs by their last errors, without numbers and IDs: failed jobs, unless --state\n" +
			"selects others. The latest jobs are examined first. To act on the jobs of a group,\n" +
			"pass its message to --error-group.",
		Args: exactly(0),
	}
	selected := p.addFilterFlags(cmd)
	cmd.Flags().StringVar(&req.Cursor, "cursor", "", "examine the jobs after those of an earlier call")
	cmd.Flags().IntVar(&req.Limit, "limit", management.DefaultLimit, "the maximum number of groups")
	addStrictFlag(cmd, &strict)
	cmd.RunE = p.withInspector(func(ctx context.Context, inspector management.Inspector, _ []string) error {
		var err error
		if req.Filter, err = selected.read(); err != nil {
			return err
		}
		if len(req.Filter.States) == 0 {
			req.Filter.States = []amboy.JobState{amboy.StateFailed}
		}
		if req.Limit < 1 {
			return usage("--limit must be at least 1 (is %d)", req.Limit)
		}
		groups, err := inspector.ErrorGroups(ctx, req)
		if err != nil {
			return fmt.Errorf("grouping errors: %w", err)
		}
		err = p.print(numbering.ShowErrorGroups(groups), func(out *page) { errorTable(out, groups) })
		if err != nil {
			return err
		}
		p.hintNext(cmd, groups.Next)
		return foundAny(strict, groups.Examined)
	})
	return cmd
}

func errorTable(out *page, groups management.ErrorGroups) {
	out.row("JOBS", "FIRST", "LAST", "TYPES", "SAMPLE", "ERROR")
	for _, g := range groups.Groups {
		types := strings.Join(g.Types, ",")
		if g.MoreTypes {
			types += ",…"
		}
		out.row(fmt.Sprint(g.Jobs), age(g.First), age(g.Last), types, nameOf(g.Sample.Queue)+" "+g.Sample.ID, g.Message)
	}
	if groups.MoreGroups > 0 {
		out.line(fmt.Sprintf("%d smaller groups are not shown", groups.MoreGroups))
	}
	if groups.Next != "" {
		out.line(fmt.Sprintf("only the latest %d jobs with errors were examined", groups.Examined))
	}
}
