package cli

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mongodb/amboy/internal/numbering"
	"github.com/mongodb/amboy/management"
)

func (p *program) processes() *cobra.Command {
	return &cobra.Command{
		Use:   "processes",
		Short: "List the processes, their queues and the number of their running jobs",
		Args:  exactly(0),
		RunE: p.withInspector(func(ctx context.Context, inspector management.Inspector, _ []string) error {
			processes, err := inspector.Processes(ctx)
			if err != nil {
				return fmt.Errorf("listing processes: %w", err)
			}
			return p.print(orEmpty(numbering.ShowProcesses(processes)), func(out *page) {
				out.columns(nil, []string{"ID", "SEEN", "AGE"})
				out.row("HOST", "PID", "ALIVE", "SEEN", "AGE", "RUNNING", "QUEUES", "ID")
				for _, one := range processes {
					pid := nothingSet // of an outside worker, which does not report itself
					if one.PID != 0 {
						pid = strconv.Itoa(one.PID)
					}
					out.row(cmp.Or(one.Host, nothingSet), pid, yesNo(one.Alive), age(one.Seen), age(one.Started),
						countText(one.RunningCount), processQueues(one), one.ID)
				}
			})
		}),
	}
}

// processQueues lists queues, each with the number of its workers.
func processQueues(p management.Process) string {
	var texts []string
	for _, q := range p.Queues {
		text := nameOf(q.Name)
		if q.Workers > 0 {
			text += "×" + strconv.Itoa(q.Workers)
		}
		if !q.Started {
			text += " (not started)"
		}
		texts = append(texts, text)
	}
	if p.MoreQueues {
		texts = append(texts, "and more")
	}
	return strings.Join(texts, ", ")
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}
