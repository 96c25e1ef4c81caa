package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/numbering"
	"github.com/mongodb/amboy/management"
)

func (p *program) showJob() *cobra.Command {
	return &cobra.Command{
		Use:               "show QUEUE ID",
		Short:             "Show everything known about a job",
		Args:              exactly(2),
		ValidArgsFunction: p.completeQueue,
		RunE: p.withInspector(func(ctx context.Context, inspector management.Inspector, args []string) error {
			job, err := inspector.Job(ctx, args[0], args[1])
			if err != nil {
				return fmt.Errorf("showing job %q of queue %q: %w", args[1], args[0], err)
			}
			return p.print(numbering.ShowJob(job), func(out *page) {
				out.width = 0 // no line is cut
				jobPage(out, job)
			})
		}),
	}
}

func jobPage(out *page, j management.Job) {
	jobHead(out, j)
	jobErrors(out, j)
	jobInterruptions(out, j.Interruptions)
	jobStuck(out, j.Stuck)
	jobAttempts(out, j.Attempts)
	jobLinks(out, j)
	jobTimeline(out, j.Timeline)
	jobLog(out, j)
	document(out, "args", j.Args)
	document(out, "result", j.Result)
}

func jobHead(out *page, j management.Job) {
	out.row("job", j.ID)
	out.row("queue", nameOf(j.Queue))
	out.row("type", fmt.Sprintf("%s, version %d", j.Type, j.Version))
	out.row("state", string(j.State))
	optional := func(name, value string) {
		if value != "" {
			out.row(name, value)
		}
	}
	optional("detail", detail(j.JobSummary))
	if b := j.Blocked; b != nil {
		out.row("blocked since", moment(b.Since))
		for _, by := range b.By {
			out.row("blocked by", blocker(by))
		}
	}
	optional("progress", j.ProgressMessage)
	out.row("attempt", attempt(j.JobSummary))
	out.row("priority", strconv.Itoa(j.Priority))
	optional("tags", strings.Join(j.Tags, ", "))
	optional("owner", j.Owner)
	if len(j.AttemptedBy) > 1 {
		out.row("run by", strings.Join(j.AttemptedBy, ", "))
	}
	optional("unique key", j.UniqueKey)
	states := make([]string, len(j.UniqueStates))
	for i, state := range j.UniqueStates {
		states[i] = string(state)
	}
	optional("unique while", strings.Join(states, ", "))
	for _, t := range []struct {
		name string
		at   time.Time
	}{
		{"created", j.Created},
		{"due", j.Due},
		{"deadline", j.Deadline},
		{"started", j.Started},
		{"ended", j.Ended},
		{"lease renewed", j.LeaseRenewed},
	} {
		if !t.at.IsZero() {
			out.row(t.name, moment(t.at))
		}
	}
	if !j.Started.IsZero() {
		out.row("ran", ran(j.JobSummary, time.Now()))
	}
	if j.MaxTime > 0 {
		out.row("max time", seconds(j.MaxTime))
	}
	for _, key := range slices.Sorted(maps.Keys(j.Metadata)) {
		out.row("metadata "+key, j.Metadata[key])
	}
	optional("args hidden", j.ArgsHidden)
	optional("result hidden", j.ResultHidden)
	var allowed []string
	for _, kind := range j.Actions {
		allowed = append(allowed, string(kind))
	}
	optional("actions", strings.Join(allowed, ", "))
}

func title(out *page, text string) {
	out.line("")
	out.line(text)
}

func jobInterruptions(out *page, interruptions *amboy.Interruptions) {
	if interruptions == nil {
		return
	}
	title(out, fmt.Sprintf("interruptions (%d)", interruptions.Count))
	for _, one := range interruptions.Latest {
		out.line(fmt.Sprintf("  %s: started %s, recovered %s", one.Owner, moment(one.Start), moment(one.At)))
	}
}

func jobStuck(out *page, stuck *amboy.StuckRun) {
	if stuck == nil {
		return
	}
	title(out, "stuck run")
	out.line(fmt.Sprintf("  since %s: %s", moment(stuck.Since), oneLine(stuck.Cause)))
	out.lines("    ", stuck.Stack)
}

func jobErrors(out *page, j management.Job) {
	if len(j.Errors) == 0 {
		return
	}
	title(out, "errors")
	if j.DroppedErrors > 0 {
		out.line(fmt.Sprintf("  (%d more were dropped)", j.DroppedErrors))
	}
	for _, e := range j.Errors {
		of := ""
		if e.Bookkeeping {
			of = ", from the queue"
		}
		out.lines("  ", fmt.Sprintf("attempt %d, %s%s: %s", e.Attempt+1, stamp(e.At), of, e.Error))
		out.lines("      ", e.Stack)
	}
}

func jobAttempts(out *page, attempts []management.Attempt) {
	if len(attempts) == 0 {
		return
	}
	title(out, "attempts")
	out.row("  NUMBER", "STATE", "STARTED", "ENDED", "RAN", "OWNER")
	for _, a := range attempts {
		out.row("  "+strconv.Itoa(a.Number+1), string(a.State), moment(a.Started), moment(a.Ended), between(a.Started, a.Ended), a.Owner)
	}
}

// jobLinks shows the scopes and the dependencies of a job.
func jobLinks(out *page, j management.Job) {
	if len(j.Scopes) > 0 {
		title(out, "scopes")
		out.row("  NAME", "HELD BY")
		for _, s := range j.Scopes {
			out.row("  "+s.Name, holder(s))
		}
	}
	dependencies(out, "waits for", j.DependsOn)
	dependencies(out, "jobs that wait for it", j.Dependents)
	if j.MoreDependents {
		out.line("  and more")
	}
}

func holder(s management.ScopeUse) string {
	switch {
	case s.Held:
		return "this job"
	case s.Holder != nil:
		return nameOf(s.Holder.Queue) + " " + s.Holder.ID
	default:
		return "-"
	}
}

func dependencies(out *page, name string, list []management.Dependency) {
	if len(list) == 0 {
		return
	}
	title(out, name)
	out.row("  QUEUE", "ID", "TYPE", "STATE")
	for _, d := range list {
		out.row("  "+nameOf(d.Queue), d.ID, d.Type, stateOrGone(d.State))
	}
}

// stateOrGone returns a state, or a placeholder for a job that does not exist.
func stateOrGone(state amboy.JobState) string {
	if state == "" {
		return "(gone)"
	}
	return string(state)
}

// blocker describes what a job waits for.
func blocker(b management.Blocker) string {
	text := stateOrGone(b.State)
	if b.Job != nil {
		text = nameOf(b.Job.Queue) + " " + b.Job.ID + ", " + text
	}
	if b.Scope != "" {
		text += ", which holds scope " + b.Scope
	}
	if !b.Since.IsZero() {
		text += " since " + moment(b.Since)
	}
	return text
}

func jobTimeline(out *page, timeline []management.Moment) {
	if len(timeline) == 0 {
		return
	}
	title(out, "timeline")
	for _, m := range timeline {
		detail := m.Detail
		if m.Actor != "" {
			detail = strings.TrimSuffix("by "+m.Actor+": "+m.Detail, ": ")
		}
		out.row("  "+moment(m.Time), m.What, oneLine(detail))
	}
}

func jobLog(out *page, j management.Job) {
	if len(j.Log) == 0 {
		return
	}
	title(out, "log")
	if j.DroppedLines > 0 {
		out.line(fmt.Sprintf("  (%d more were dropped)", j.DroppedLines))
	}
	for _, l := range j.Log {
		out.lines("  ", stamp(l.Time)+" "+l.Text)
	}
}

// maxDocument is the maximum number of bytes of arguments or of a result that are shown: more would push the rest of
// the page out of the terminal.
const maxDocument = 64 << 10

// document shows a JSON document.
func document(out *page, name string, content json.RawMessage) {
	if len(content) == 0 {
		return
	}
	title(out, name)
	text, err := encode(content, "  ")
	if err != nil {
		text = string(content) // not JSON
	}
	if len(text) > maxDocument {
		text = fmt.Sprintf("%s\n… (%d bytes in all; -o json prints them)", strings.ToValidUTF8(text[:maxDocument], ""), len(content))
	}
	out.lines("  ", text)
}
