package cli

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/mongodb/amboy/management"
)

// defaultEvery is the default of --every.
const defaultEvery = 2 * time.Second

func (p *program) watchQueues() *cobra.Command {
	every := defaultEvery
	cmd := &cobra.Command{
		Use:   "watch [QUEUE...]",
		Short: "Show the queues now and after each change, until interrupted",
		Long: "Show the queues now and after each change, until interrupted. With -o json each time\n" +
			"is printed as one line.",
		ValidArgsFunction: p.completeQueues,
	}
	cmd.Flags().Var(durationFlag{&every}, "every", "the minimum time between two updates")
	cmd.RunE = p.run(func(ctx context.Context, names []string) error {
		inspector, err := p.connectTo(Service{Timeout: p.connection.timeout, Watch: true})
		if err != nil {
			return err
		}
		for queues, err := range inspector.Watch(ctx, every) {
			switch {
			case ctx.Err() != nil:
				return nil // interrupted by the user
			case err != nil:
				return fmt.Errorf("watching queues: %w", err)
			}
			err = p.printQueues(queues, names)
			if err != nil {
				return err
			}
		}
		if ctx.Err() == nil {
			return fmt.Errorf("watching queues: the service ended the watch")
		}
		return nil
	})
	return cmd
}

func (p *program) printQueues(queues []management.Queue, names []string) error {
	if len(names) > 0 {
		queues = slices.DeleteFunc(slices.Clone(queues), func(q management.Queue) bool {
			return !slices.Contains(names, q.Name)
		})
	}
	return p.printNext(orEmpty(queues), func(out *page) {
		out.line(stamp(time.Now()))
		queueTable(out, queues)
		out.line("")
	})
}
