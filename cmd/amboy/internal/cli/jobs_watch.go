package cli

import (
	"context"
	"fmt"
	"reflect"
	"time"

	"github.com/spf13/cobra"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/numbering"
	"github.com/mongodb/amboy/management"
)

func (p *program) watchJob() *cobra.Command {
	every := defaultEvery
	cmd := &cobra.Command{
		Use:   "watch QUEUE ID",
		Short: "Show the state and the progress of a job until it ends",
		Long: "Show the state and the progress of a job until it ends. The exit code is 0 if it\n" +
			"succeeded, and 7 otherwise. With -o json each change is printed as one line.",
		Args:              exactly(2),
		ValidArgsFunction: p.completeQueue,
	}
	cmd.Flags().Var(durationFlag{&every}, "every", "the time between two reads of the job")
	cmd.RunE = p.withInspector(func(ctx context.Context, inspector management.Inspector, args []string) error {
		last, err := p.watchUntilEnd(ctx, inspector, management.JobRef{Queue: args[0], ID: args[1]}, every)
		if err != nil {
			return fmt.Errorf("watching job %q of queue %q: %w", args[1], args[0], err)
		}
		if last != amboy.StateSucceeded {
			return &exitError{code: exitJobFailed}
		}
		return nil
	})
	return cmd
}

// watchUntilEnd shows a job after each change, and returns its final state.
func (p *program) watchUntilEnd(ctx context.Context, inspector management.Inspector, ref management.JobRef, every time.Duration) (amboy.JobState, error) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	var shown management.JobSummary
	var message string
	for {
		job, err := inspector.Job(ctx, ref.Queue, ref.ID)
		if err != nil {
			return "", err
		}
		if !reflect.DeepEqual(job.JobSummary, shown) || job.ProgressMessage != message {
			err = p.printNext(numbering.ShowJob(job), func(out *page) { out.line(watchLine(job)) })
			if err != nil {
				return "", err
			}
			shown, message = job.JobSummary, job.ProgressMessage
		}
		if job.State.IsFinal() {
			return job.State, nil
		}
		select {
		case <-ctx.Done():
			return "", ctx.Err()
		case <-ticker.C:
		}
	}
}

func watchLine(j management.Job) string {
	line := stamp(time.Now()) + " " + string(j.State)
	for _, text := range []string{detail(j.JobSummary), j.ProgressMessage} {
		if text != "" {
			line += "; " + oneLine(text)
		}
	}
	return line
}
