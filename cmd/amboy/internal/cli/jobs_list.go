package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/mongodb/amboy/internal/numbering"
	"github.com/mongodb/amboy/management"
)

func (p *program) listJobs() *cobra.Command {
	var newest, strict bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List jobs",
		Args:  cobra.NoArgs,
	}
	selected := p.addFilterFlags(cmd)
	paging := addPageFlags(cmd)
	cmd.Flags().BoolVar(&newest, "newest", false, "list the newest jobs first")
	addStrictFlag(cmd, &strict)
	cmd.RunE = p.withInspector(func(ctx context.Context, inspector management.Inspector, _ []string) error {
		filter, err := selected.read()
		if err != nil {
			return err
		}
		jobs, next, err := collect(paging, newest, func(page management.PageRequest) ([]management.JobSummary, string, error) {
			found, askErr := inspector.FindJobs(ctx, filter, page)
			return found.Jobs, found.Next, askErr
		})
		if err != nil {
			return fmt.Errorf("listing jobs: %w", err)
		}
		err = p.print(management.JobPage{Jobs: numbering.ShowJobs(jobs), Next: next}, func(out *page) { jobTable(out, jobs) })
		if err != nil {
			return err
		}
		p.hintNext(next)
		return foundAny(strict, len(jobs))
	})
	return cmd
}

func jobTable(out *page, jobs []management.JobSummary) {
	out.row("QUEUE", "ID", "TYPE", "STATE", "ATTEMPT", "AGE", "DETAIL")
	for _, j := range jobs {
		out.row(nameOf(j.Queue), j.ID, j.Type, string(j.State), attempt(j), age(j.Created), detail(j))
	}
}

func (p *program) countJobs() *cobra.Command {
	var strict, byState bool
	cmd := &cobra.Command{
		Use:   "count",
		Short: "Count jobs",
		Args:  cobra.NoArgs,
	}
	selected := p.addFilterFlags(cmd)
	cmd.Flags().BoolVar(&byState, "by-state", false, "count the jobs in each state, for about a second")
	addStrictFlag(cmd, &strict)
	cmd.RunE = p.withInspector(func(ctx context.Context, inspector management.Inspector, _ []string) error {
		filter, err := selected.read()
		if err != nil {
			return err
		}
		if byState {
			return p.countStates(ctx, inspector, filter, strict)
		}
		count, err := inspector.CountJobs(ctx, filter, management.MaxCount)
		if err != nil {
			return fmt.Errorf("counting jobs: %w", err)
		}
		err = p.print(count, func(out *page) { out.line(countText(count)) })
		if err != nil {
			return err
		}
		return foundAny(strict, count.Count)
	})
	return cmd
}

func (p *program) countStates(ctx context.Context, inspector management.Inspector, filter management.JobFilter, strict bool) error {
	counts, err := inspector.CountStates(ctx, management.StateCountRequest{Filter: filter})
	if err != nil {
		return fmt.Errorf("counting jobs by state: %w", err)
	}
	err = p.print(counts, func(out *page) {
		out.row("STATE", "JOBS")
		for _, c := range counts {
			out.row(string(c.State), countText(c.Count))
		}
	})
	if err != nil {
		return err
	}
	all := 0
	for _, c := range counts {
		all += c.Count.Count
	}
	return foundAny(strict, all)
}

func countText(c management.Count) string {
	if c.More {
		return fmt.Sprintf("more than %d", c.Count)
	}
	return fmt.Sprint(c.Count)
}

func addStrictFlag(cmd *cobra.Command, strict *bool) {
	cmd.Flags().BoolVar(strict, "strict", false, "exit with 3 if no job was selected")
}

func foundAny(strict bool, number int) error {
	if strict && number == 0 {
		return &exitError{code: exitNotFound}
	}
	return nil
}
