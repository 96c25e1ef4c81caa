package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/management"
)

func (p *program) jobs() *cobra.Command {
	commands := []*cobra.Command{
		p.listJobs(), p.countJobs(), p.groupErrors(), p.showJob(), p.logsOfJob(), p.watchJob(), p.graphJob(), p.createJob(), p.editJob(),
	}
	for _, a := range actions() {
		commands = append(commands, p.actOnJobs(a))
	}
	return p.group("jobs", "Show, create and act on jobs", commands...)
}

// attempt formats the number of the attempt, and the maximum.
func attempt(j management.JobSummary) string {
	if j.MaxAttempts == 0 {
		return fmt.Sprint(j.Attempt + 1)
	}
	return fmt.Sprintf("%d/%d", j.Attempt+1, j.MaxAttempts)
}

// detail describes briefly why a job is in its state, and its progress.
func detail(j management.JobSummary) string {
	var parts []string
	if j.CancelRequested {
		parts = append(parts, "to be canceled")
	}
	if !j.StuckSince.IsZero() {
		parts = append(parts, "stuck since "+moment(j.StuckSince))
	}
	if j.Progress != nil && j.State == amboy.StateRunning {
		parts = append(parts, percent(*j.Progress))
	}
	if j.State == amboy.StateScheduled || j.State == amboy.StateRetrying {
		parts = append(parts, "due "+age(j.Due))
	}
	for _, text := range []string{j.Reason, j.Error} {
		if text != "" {
			parts = append(parts, oneLine(text))
		}
	}
	return strings.Join(parts, "; ")
}
