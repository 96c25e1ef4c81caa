package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/management"
)

func (p *program) logsOfJob() *cobra.Command {
	every := time.Second
	var follow bool
	cmd := &cobra.Command{
		Use:   "logs QUEUE ID",
		Short: "Show what a job has logged, and with --follow what it logs until it ends",
		Long: "Show what a job has logged, and with --follow what it logs until it ends. The exit code\n" +
			"of --follow is 0 if the job succeeded, and 7 otherwise. With -o json each line is printed\n" +
			"as one line of JSON.",
		Args:              exactly(2),
		ValidArgsFunction: p.completeQueue,
	}
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "show new lines until the job ends")
	cmd.Flags().Var(durationFlag{&every}, "every", "with --follow: the time between two reads of the log")
	cmd.RunE = p.withInspector(func(ctx context.Context, inspector management.Inspector, args []string) error {
		log := &shownLog{}
		var last amboy.JobState
		read := func() (bool, error) {
			job, err := inspector.Job(ctx, args[0], args[1])
			if err != nil {
				return false, err
			}
			last = job.State
			return job.State.IsFinal(), p.printLog(job, log)
		}
		var err error
		if follow {
			err = p.watching(ctx, every, every, read)
		} else {
			_, err = read()
		}
		if err != nil {
			return fmt.Errorf("showing the log of job %q of queue %q: %w", args[1], args[0], err)
		}
		if follow {
			return exitOf(last)
		}
		return nil
	})
	return cmd
}

// shownLog is how far a log was shown.
type shownLog struct {
	lines   int // including those that were dropped
	attempt int
}

// printLog prints the lines of a job that were not shown yet. Each attempt has a log of its own.
func (p *program) printLog(job management.Job, shown *shownLog) error {
	if job.Attempt != shown.attempt || job.DroppedLines+len(job.Log) < shown.lines {
		*shown = shownLog{attempt: job.Attempt}
	}
	missed := job.DroppedLines - shown.lines
	if missed > 0 && !p.asJSON() {
		if err := p.printPage(func(out *page) { out.line(fmt.Sprintf("(%d more were dropped)", missed)) }); err != nil {
			return err
		}
	}
	for _, line := range job.Log[max(0, -missed):] {
		err := p.printNext(line, func(out *page) { out.lines("", stamp(line.Time)+" "+line.Text) })
		if err != nil {
			return err
		}
	}
	shown.lines = job.DroppedLines + len(job.Log)
	return nil
}
