package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/mongodb/amboy/internal/numbering"
	"github.com/mongodb/amboy/management"
)

func (p *program) listJobs() *cobra.Command {
	var newest, args, strict bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List jobs",
		Args:  cobra.NoArgs,
	}
	selected := p.addFilterFlags(cmd)
	paging := addPageFlags(cmd)
	cmd.Flags().BoolVar(&newest, "newest", false, "list the newest jobs first")
	cmd.Flags().BoolVar(&args, "args", false, "list the arguments of the jobs")
	addStrictFlag(cmd, &strict)
	cmd.RunE = p.withInspector(func(ctx context.Context, inspector management.Inspector, _ []string) error {
		filter, err := selected.read()
		if err != nil {
			return err
		}
		jobs, next, err := collect(paging, newest, func(page management.PageRequest) ([]management.JobSummary, string, error) {
			page.Args = args
			found, askErr := inspector.FindJobs(ctx, filter, page)
			return found.Jobs, found.Next, askErr
		})
		if err != nil {
			return fmt.Errorf("listing jobs: %w", err)
		}
		err = p.print(management.JobPage{Jobs: numbering.ShowJobs(jobs), Next: next}, func(out *page) { jobTable(out, jobs, args) })
		if err != nil {
			return err
		}
		p.hintNext(next)
		return foundAny(strict, len(jobs))
	})
	return cmd
}

func jobTable(out *page, jobs []management.JobSummary, withArgs bool) {
	heading := []string{"QUEUE", "ID", "TYPE", "STATE", "ATTEMPT", "AGE", "DETAIL"}
	if withArgs {
		heading = append(heading, "ARGS")
	}
	out.row(heading...)
	for _, j := range jobs {
		row := []string{nameOf(j.Queue), j.ID, j.Type, string(j.State), attempt(j), age(j.Created), detail(j)}
		if withArgs {
			row = append(row, argsCut(j))
		}
		out.row(row...)
	}
}

// maxArgsCut is the maximum number of characters of arguments in a table.
const maxArgsCut = 60

// argsCut returns the beginning of the arguments of a job, or why they are hidden.
func argsCut(j management.JobSummary) string {
	if j.Args == nil {
		return cmp.Or(j.ArgsHidden, "-")
	}
	var line bytes.Buffer
	if err := json.Compact(&line, j.Args); err != nil {
		return fmt.Sprintf("not valid JSON: %v", err)
	}
	text := []rune(line.String())
	if len(text) > maxArgsCut {
		return string(text[:maxArgsCut-1]) + "…"
	}
	return string(text)
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
