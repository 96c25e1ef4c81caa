package cli

import (
	"context"
	"errors"
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
		watch := p.watchAll
		if len(names) > 0 {
			watch = func(ctx context.Context, every time.Duration) error { return p.watchNamed(ctx, names, every) }
		}
		err := watch(ctx, every)
		if err != nil && ctx.Err() == nil { // else the user has interrupted it
			return fmt.Errorf("watching queues: %w", err)
		}
		return nil
	})
	return cmd
}

// watchAll shows all queues after each change; of many queues the busiest.
func (p *program) watchAll(ctx context.Context, every time.Duration) error {
	inspector, err := p.connectTo(Service{Timeout: p.connection.timeout, Watch: true})
	if err != nil {
		return err
	}
	for queues, err := range inspector.Watch(ctx, every) {
		if err != nil {
			return err
		}
		if err := p.showQueues(queues); err != nil {
			return err
		}
	}
	return errors.New("the service ended the watch")
}

// watchNamed shows some queues after each change of any queue.
func (p *program) watchNamed(ctx context.Context, names []string, every time.Duration) error {
	inspector, err := p.connect()
	if err != nil {
		return err
	}
	names = slices.Compact(slices.Sorted(slices.Values(names)))
	return p.watching(ctx, every, management.MaxWatch, func() (ended bool, err error) {
		var queues []management.Queue
		for some := range slices.Chunk(names, management.MaxFilterValues) {
			found, err := inspector.FindQueues(ctx, management.QueueFilter{Queues: some}, management.PageRequest{Limit: len(some)})
			if err != nil {
				return false, err
			}
			queues = append(queues, found.Queues...)
		}
		return false, p.showQueues(queues)
	})
}

func (p *program) showQueues(queues []management.Queue) error {
	return p.printNext(orEmpty(queues), func(out *page) {
		out.line(stamp(time.Now()))
		queueTable(out, queues)
		out.line("")
	})
}
