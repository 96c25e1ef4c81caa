package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/numbering"
	"github.com/mongodb/amboy/internal/printable"
	"github.com/mongodb/amboy/management"
)

func (p *program) listJobs() *cobra.Command {
	var newest, args, strict, watch bool
	every := defaultEvery
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List jobs",
		Args:  exactly(0),
	}
	selected := p.addFilterFlags(cmd)
	paging := addPageFlags(cmd)
	cmd.Flags().BoolVar(&newest, "newest", false, "list the newest jobs first")
	cmd.Flags().BoolVar(&args, "args", false, "list the arguments of the jobs")
	cmd.Flags().BoolVar(&watch, "watch", false, "list the jobs again after each change, until interrupted")
	cmd.Flags().Var(durationFlag{&every}, "every", "with --watch: the minimum time between two lists")
	addStrictFlag(cmd, &strict)
	var shown []management.JobSummary // with --watch, the last list; not nil after the first
	list := func(ctx context.Context, inspector management.Inspector, filter management.JobFilter) error {
		jobs, next, err := collect(paging, newest, func(page management.PageRequest) ([]management.JobSummary, string, error) {
			page.Args = args
			found, askErr := inspector.FindJobs(ctx, filter, page)
			return found.Jobs, found.Next, askErr
		})
		if err != nil {
			return fmt.Errorf("listing jobs: %w", err)
		}
		document := management.JobPage{Jobs: numbering.ShowJobs(jobs), Next: next}
		if watch {
			if shown != nil && reflect.DeepEqual(shown, jobs) {
				return nil
			}
			shown = jobs
			return p.printNext(document, func(out *page) {
				out.line(stamp(time.Now()))
				jobTable(out, jobs, args)
				out.line("")
			})
		}
		err = p.print(document, func(out *page) { jobTable(out, jobs, args) })
		if err != nil {
			return err
		}
		p.hintNext(cmd, next)
		return foundAny(strict, len(jobs))
	}
	cmd.RunE = p.withInspector(func(ctx context.Context, inspector management.Inspector, _ []string) error {
		filter, err := selected.read()
		if err != nil {
			return err
		}
		if !watch {
			return list(ctx, inspector, filter)
		}
		err = p.watching(ctx, every, maxQuiet, func() (bool, error) { return false, list(ctx, inspector, filter) })
		if err != nil && ctx.Err() == nil { // else the user has interrupted it
			return err
		}
		return nil
	})
	cmd.MarkFlagsMutuallyExclusive("watch", "strict")
	return cmd
}

func jobTable(out *page, jobs []management.JobSummary, withArgs bool) {
	heading := []string{"QUEUE", "ID", "TYPE", "STATE", "ATTEMPT", "PRIORITY", "AGE", "WAITED", "RAN", "OWNER", "TAGS", "DETAIL"}
	if withArgs {
		heading = append(heading, "ARGS")
	}
	out.columns([]string{"PRIORITY", "WAITED", "OWNER", "TAGS"}, []string{"ATTEMPT", "RAN", "TYPE", "AGE", "QUEUE"})
	out.row(heading...)
	now := time.Now()
	for _, j := range jobs {
		row := []string{
			nameOf(j.Queue), j.ID, j.Type, string(j.State), attempt(j), strconv.Itoa(j.Priority), age(j.Created), waited(j, now), ran(j, now),
			cmp.Or(j.Owner, "-"), cmp.Or(strings.Join(j.Tags, ","), "-"), detail(j),
		}
		if withArgs {
			row = append(row, argsCut(j))
		}
		out.row(row...)
	}
}

// ran formats how long a job has run.
func ran(j management.JobSummary, now time.Time) string {
	if j.Started.IsZero() || j.Run(now) == 0 && j.State != amboy.StateRunning {
		return "-"
	}
	return seconds(j.Run(now).Seconds())
}

// waited formats how long a job waited, since it could start, until it started or until now.
func waited(j management.JobSummary, now time.Time) string {
	since, until := j.Created, now
	if j.Due.After(since) {
		since = j.Due
	}
	if !j.Started.IsZero() {
		until = j.Started
	}
	if since.IsZero() || !until.After(since) || j.Started.IsZero() && j.State.IsFinal() {
		return "-"
	}
	return seconds(until.Sub(since).Seconds())
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
	text := []rune(printable.JSON(line.String()))
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
		Args:  exactly(0),
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
		return countedAny(strict, count)
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
	var all management.Count
	for _, c := range counts {
		all.Count += c.Count.Count
		all.More = all.More || c.More
	}
	return countedAny(strict, all)
}

// countedAny is foundAny for a count, which may have ended before it found a job.
func countedAny(strict bool, count management.Count) error {
	if strict && count.Count == 0 && count.More {
		return errors.New("counting jobs: the time was over before a job was found")
	}
	return foundAny(strict, count.Count)
}

func countText(c management.Count) string {
	if c.More { // or the count took too long
		return fmt.Sprintf("at least %d", c.Count)
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
