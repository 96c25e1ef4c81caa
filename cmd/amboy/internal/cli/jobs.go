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
		p.listJobs(), p.countJobs(), p.showJob(), p.watchJob(), p.graphJob(), p.createJob(),
	}
	for _, a := range actions() {
		commands = append(commands, p.actOnJobs(a))
	}
	return p.group("jobs", "See, create and act on jobs", commands...)
}

// attempt tells which attempt of how many a job is at.
func attempt(j management.JobSummary) string {
	if j.MaxAttempts == 0 {
		return fmt.Sprint(j.Attempt + 1)
	}
	return fmt.Sprintf("%d/%d", j.Attempt+1, j.MaxAttempts)
}

// detail says in a few words why a job is in its state, and how far it is.
func detail(j management.JobSummary) string {
	var said []string
	if j.CancelRequested {
		said = append(said, "to be canceled")
	}
	if !j.StuckSince.IsZero() {
		said = append(said, "stuck since "+moment(j.StuckSince))
	}
	if j.Progress != nil && j.State == amboy.StateRunning {
		said = append(said, percent(*j.Progress))
	}
	if j.State == amboy.StateScheduled || j.State == amboy.StateRetrying {
		said = append(said, "due "+age(j.Due))
	}
	for _, text := range []string{j.Reason, j.Error} {
		if text != "" {
			said = append(said, oneLine(text))
		}
	}
	return strings.Join(said, "; ")
}
