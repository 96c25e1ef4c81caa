package cli

import (
	"cmp"
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
			if len(names) > 0 {
				queues, err = named(ctx, inspector, queues, names)
			}
			if err != nil {
				return fmt.Errorf("watching queues: %w", err)
			}
			err = p.printNext(orEmpty(queues), func(out *page) {
				out.line(stamp(time.Now()))
				queueTable(out, queues)
				out.line("")
			})
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

// named returns the queues with some names. It reads those that a watch does not show, because it shows
// only the busiest of many queues.
func named(ctx context.Context, inspector management.Inspector, watched []management.Queue, names []string) ([]management.Queue, error) {
	var queues []management.Queue
	var others []string
	for _, name := range slices.Compact(slices.Sorted(slices.Values(names))) {
		n := slices.IndexFunc(watched, func(q management.Queue) bool { return q.Name == name })
		if n < 0 {
			others = append(others, name)
		} else {
			queues = append(queues, watched[n])
		}
	}
	for some := range slices.Chunk(others, management.MaxFilterValues) {
		found, err := inspector.FindQueues(ctx, management.QueueFilter{Queues: some}, management.PageRequest{Limit: len(some)})
		if err != nil {
			return nil, err
		}
		queues = append(queues, found.Queues...)
	}
	slices.SortFunc(queues, func(a, b management.Queue) int { return cmp.Compare(a.Name, b.Name) })
	return queues, nil
}
