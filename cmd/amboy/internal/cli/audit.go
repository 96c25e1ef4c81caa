package cli

import (
	"context"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/mongodb/amboy/management"
)

func (p *program) audit() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "audit",
		Short: "List the actions of operators, the latest first",
		Args:  exactly(0),
	}
	var filter management.AuditFilter
	cmd.Flags().StringArrayVar(&filter.Queues, "queue", nil, "only actions on this queue (repeat for more)")
	cmd.Flags().StringArrayVar(&filter.Actors, "actor", nil, "only actions of this actor (repeat for more)")
	cmd.Flags().StringArrayVar(&filter.What, "what", nil, "only this action, or create, control, refused or schedule.pause and the like (repeat for more)")
	cmd.Flags().StringVar(&filter.JobID, "job", "", "only actions on the job with this ID")
	cmd.Flags().Var(&timeFlag{at: &filter.Time.From}, "after", "only actions at this time or later")
	cmd.Flags().Var(&timeFlag{at: &filter.Time.To}, "before", "only actions before this time")
	complete(cmd, "queue", p.completeQueues)
	complete(cmd, "what", fixed(management.AuditedActions()...))
	paging := addPageFlags(cmd)
	cmd.RunE = p.withInspector(func(ctx context.Context, inspector management.Inspector, _ []string) error {
		entries, next, err := collect(paging, false, func(page management.PageRequest) ([]management.AuditEntry, string, error) {
			found, askErr := inspector.Audit(ctx, filter, page)
			return found.Entries, found.Next, askErr
		})
		if err != nil {
			return fmt.Errorf("listing the audit entries: %w", err)
		}
		err = p.print(management.AuditPage{Entries: entries, Next: next}, func(out *page) {
			out.columns(nil, []string{"SKIPPED", "DONE", "QUEUE"})
			out.row("TIME", "ACTOR", "WHAT", "QUEUE", "JOB", "DONE", "SKIPPED", "DETAIL")
			for _, e := range entries {
				out.row(stamp(e.Time), e.Actor, e.What, e.Queue, e.JobID, strconv.Itoa(e.Done), strconv.Itoa(e.Skipped), auditDetail(e))
			}
		})
		p.hintNext(cmd, next)
		return err
	})
	return cmd
}

func auditDetail(e management.AuditEntry) string {
	switch {
	case e.Refused > 0:
		return fmt.Sprintf("%d times; one of them: %s", e.Refused, e.Detail)
	case e.Error == "":
		return e.Detail
	}
	return "failed: " + oneLine(e.Error) + "; " + e.Detail
}
