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
	cmd.Flags().Var(durationFlag{&every}, "every", "the minimum time between two reads of the job")
	cmd.RunE = p.withInspector(func(ctx context.Context, inspector management.Inspector, args []string) error {
		last, err := p.watchUntilEnd(ctx, inspector, management.JobRef{Queue: args[0], ID: args[1]}, every)
		if err != nil {
			return fmt.Errorf("watching job %q of queue %q: %w", args[1], args[0], err)
		}
		return exitOf(last)
	})
	return cmd
}

// exitOf returns the exit code of a command that waits for the end of a job.
func exitOf(last amboy.JobState) error {
	if last != amboy.StateSucceeded {
		return &exitError{code: exitJobFailed}
	}
	return nil
}

// watchUntilEnd shows a job after each change, and returns its final state.
func (p *program) watchUntilEnd(ctx context.Context, inspector management.Inspector, ref management.JobRef, every time.Duration) (last amboy.JobState, err error) {
	var shown management.JobSummary
	var message string
	err = p.watching(ctx, every, maxQuiet, func() (ended bool, err error) {
		job, err := inspector.Job(ctx, ref.Queue, ref.ID)
		if err != nil {
			return false, err
		}
		last = job.State
		if !reflect.DeepEqual(job.JobSummary, shown) || job.ProgressMessage != message {
			err = p.printNext(numbering.ShowJob(job), func(out *page) { out.line(watchLine(job)) })
			shown, message = job.JobSummary, job.ProgressMessage
		}
		return job.State.IsFinal(), err
	})
	return last, err
}

// maxQuiet is the longest time between two reads of what is watched: not every change is an event,
// such as the progress of a job.
const maxQuiet = 10 * time.Second

// watching calls show now, after each event of the service, and after a time without one, until it
// reports that the end is reached, or fails, or ctx ends. every is the minimum time between two
// calls. If the service sends no events, for instance because the user may only read one queue, it
// is the time between them.
func (p *program) watching(ctx context.Context, every, quiet time.Duration, show func() (ended bool, err error)) error {
	watcher, err := p.connectTo(Service{Timeout: p.connection.timeout, Watch: true})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	events, over := make(chan struct{}), make(chan struct{})
	defer func() {
		cancel()
		<-over
	}()
	go func() {
		defer close(over)
		defer close(events)
		for _, err := range watcher.Watch(ctx, min(max(every, management.MinWatch), management.MaxWatch)) {
			if err != nil {
				return
			}
			select {
			case events <- struct{}{}:
			case <-ctx.Done():
				return
			}
		}
	}()
	// The first event says that the service watches: no later change is missed.
	wait := max(quiet, every)
	for {
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
		case _, sent := <-events:
			if !sent {
				events, wait = nil, every
			}
		case <-timer.C:
		}
		timer.Stop()
		if ctx.Err() != nil {
			return ctx.Err()
		}
		ended, err := show()
		if err != nil || ended {
			return err
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
