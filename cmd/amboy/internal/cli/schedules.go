package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/mongodb/amboy/internal/printable"
	"github.com/mongodb/amboy/management"
	"github.com/mongodb/amboy/schedule"
)

// schedules lists the schedules in code. Its subcommands are about stored schedules.
func (p *program) schedules() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "schedules",
		Short: "List the schedules that processes run, and manage stored schedules",
		Long: "Without a subcommand, list the schedules that are part of programs, with their last and next\n" +
			"ticks. The subcommands are about stored schedules.",
		Args: exactly(0),
		RunE: p.withInspector(func(ctx context.Context, inspector management.Inspector, _ []string) error {
			schedules, err := inspector.Schedules(ctx)
			if err != nil {
				return fmt.Errorf("listing schedules: %w", err)
			}
			return p.print(orEmpty(schedules), func(out *page) {
				out.row("QUEUE", "SCHEDULE", "SPEC", "CATCH-UP", "LAST", "NEXT", "SEEN", "ERROR")
				for _, s := range schedules {
					out.row(nameOf(s.Queue), s.Name, s.Spec, s.CatchUp, age(s.Last), age(s.Next), age(s.Seen), oneLine(s.Error))
				}
			})
		}),
	}
	cmd.AddCommand(
		p.listSchedules(), p.showSchedule(), p.createSchedule(), p.changeSchedule(),
		p.pauseSchedule("pause", "Pause a stored schedule", true),
		p.pauseSchedule("resume", "Resume a stored schedule; the ticks in between are dropped", false),
		p.triggerSchedule(), p.deleteSchedule(),
	)
	return cmd
}

// withSchedules is withInspector for commands about stored schedules.
func (p *program) withSchedules(handle func(ctx context.Context, schedules management.ScheduleManager, args []string) error) func(*cobra.Command, []string) error {
	return p.withInspector(func(ctx context.Context, inspector management.Inspector, args []string) error {
		manager, ok := inspector.(management.ScheduleManager)
		if !ok {
			return fmt.Errorf("managing stored schedules: %w", management.ErrUnsupported)
		}
		return handle(ctx, manager, args)
	})
}

func (p *program) listSchedules() *cobra.Command {
	var filter management.ScheduleFilter
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the stored schedules",
		Long:  "List the stored schedules. \"amboy schedules\" without a subcommand lists those in programs.",
		Args:  exactly(0),
	}
	cmd.Flags().StringArrayVar(&filter.Queues, "queue", nil, "only those of this queue; may be repeated")
	cmd.Flags().StringVar(&filter.Name, "name", "", "only those whose name contains this text")
	complete(cmd, "queue", p.completeQueues)
	paging := addPageFlags(cmd)
	cmd.RunE = p.withSchedules(func(ctx context.Context, schedules management.ScheduleManager, _ []string) error {
		found, next, err := collect(paging, false, func(page management.PageRequest) ([]management.StoredSchedule, string, error) {
			part, askErr := schedules.StoredSchedules(ctx, filter, page)
			return part.Schedules, part.Next, askErr
		})
		if err != nil {
			return fmt.Errorf("listing stored schedules: %w", err)
		}
		err = p.print(management.StoredSchedulePage{Schedules: found, Next: next}, func(out *page) {
			out.row("QUEUE", "SCHEDULE", "WHEN", "TYPE", "LAST", "NEXT", "STATE")
			for _, s := range found {
				last := time.Time{}
				if s.Last != nil {
					last = s.Last.Tick
				}
				out.row(nameOf(s.Queue), s.Name, s.String(), s.Type, age(last), age(s.Next), scheduleState(s))
			}
		})
		if len(found) == 0 && !p.asJSON() {
			p.note("no stored schedules found; amboy schedules lists those in programs")
		}
		p.hintNext(cmd, next)
		return err
	})
	return cmd
}

func scheduleState(s management.StoredSchedule) string {
	switch {
	case s.Paused:
		return "paused"
	case s.Error != "":
		return "failing: " + oneLine(s.Error)
	default:
		return "active"
	}
}

// printSchedule prints a schedule in full.
func (p *program) printSchedule(s management.StoredSchedule) error {
	return p.print(s, func(out *page) {
		out.row("queue", nameOf(s.Queue))
		out.row("schedule", s.Name)
		out.row("when", s.String())
		out.row("type", s.Type)
		switch {
		case s.ArgsHidden != "":
			out.row("args", "hidden: "+s.ArgsHidden)
		case len(s.Args) > 0:
			out.row("args", printable.JSON(string(s.Args)))
		}
		out.row("catch-up", string(s.CatchUp))
		out.row("state", scheduleState(s))
		out.row("next", moment(s.Next))
		out.row("created", moment(s.Created))
		out.row("changed", moment(s.Changed))
		for _, run := range s.Runs {
			why := "tick"
			switch {
			case run.Missed:
				why = "missed"
			case run.Triggered:
				why = "triggered"
			}
			out.row("run", moment(run.Tick), why, run.JobID)
		}
	})
}

func (p *program) showSchedule() *cobra.Command {
	return &cobra.Command{
		Use:               "show QUEUE SCHEDULE",
		Short:             "Show a stored schedule with its latest runs",
		Args:              exactly(2),
		ValidArgsFunction: p.completeQueue,
		RunE: p.withSchedules(func(ctx context.Context, schedules management.ScheduleManager, args []string) error {
			s, err := schedules.StoredSchedule(ctx, args[0], args[1])
			if err != nil {
				return fmt.Errorf("showing a schedule: %w", err)
			}
			return p.printSchedule(s)
		}),
	}
}

// scheduleFlags are the flags for the specification of a schedule.
type scheduleFlags struct {
	spec           management.ScheduleSpec
	every          time.Duration
	catchUp        choice
	args, argsFile string
}

func (p *program) addScheduleFlags(cmd *cobra.Command) *scheduleFlags {
	f := &scheduleFlags{catchUp: choice{allowed: []string{string(schedule.CatchUpNone), string(schedule.CatchUpLatest), string(schedule.CatchUpAll)}}}
	flags := cmd.Flags()
	flags.StringVar(&f.spec.Cron, "cron", "", `the cron expression, such as "30 8 * * MON-FRI"`)
	flags.StringVar(&f.spec.Zone, "zone", "", "the time zone of the expression, such as Europe/Berlin (default UTC)")
	flags.Var(durationFlag{&f.every}, "every", "the interval between ticks, in place of --cron")
	flags.Var(&f.catchUp, "catch-up", "what happens to missed ticks: none, latest or all (default latest)")
	flags.IntVar(&f.spec.MaxCatchUp, "max-catch-up", 0, "with --catch-up all: the maximum number of jobs that are enqueued at once (default 1000)")
	flags.StringVar(&f.args, "args", "", "the arguments of the jobs, as JSON")
	flags.StringVar(&f.argsFile, "args-file", "", "a file with the arguments; - for standard input")
	flags.IntVar(&f.spec.Priority, "priority", 0, "the priority of the jobs")
	flags.BoolVar(&f.spec.Outside, "outside", false, "the jobs are for a worker outside of Go")
	cmd.MarkFlagsMutuallyExclusive("cron", "every")
	cmd.MarkFlagsMutuallyExclusive("args", "args-file")
	complete(cmd, "catch-up", fixed(f.catchUp.allowed...))
	return f
}

// apply applies the flags that were given to a specification.
func (p *program) apply(cmd *cobra.Command, f *scheduleFlags, spec *management.ScheduleSpec) error {
	given := cmd.Flags().Changed
	if given("cron") || given("every") {
		spec.Cron, spec.Every = f.spec.Cron, management.Duration(f.every)
		if given("every") {
			spec.Zone = ""
		}
	}
	if given("zone") {
		spec.Zone = f.spec.Zone
	}
	if given("catch-up") {
		spec.CatchUp = schedule.CatchUp(f.catchUp.value)
	}
	if given("max-catch-up") {
		spec.MaxCatchUp = f.spec.MaxCatchUp
	}
	if given("priority") {
		spec.Priority = f.spec.Priority
	}
	if given("outside") {
		spec.Outside = f.spec.Outside
	}
	var err error
	spec.Args, err = p.readArgs(f.args, f.argsFile)
	spec.Bytes = nil
	return err
}

func (p *program) createSchedule() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "create QUEUE SCHEDULE TYPE",
		Short: "Store a schedule that enqueues jobs of a type",
		Long: "Store a schedule that enqueues jobs of a type. The service must know the type, or the\n" +
			"jobs are for a worker outside of Go (--outside).",
		Args:              exactly(3),
		ValidArgsFunction: p.completeQueue,
	}
	flags := p.addScheduleFlags(cmd)
	paused := cmd.Flags().Bool("paused", false, "store it without starting it")
	cmd.MarkFlagsOneRequired("cron", "every")
	cmd.RunE = p.withSchedules(func(ctx context.Context, schedules management.ScheduleManager, args []string) error {
		spec := management.ScheduleSpec{Paused: *paused, ScheduledJob: management.ScheduledJob{Type: args[2]}}
		if err := p.apply(cmd, flags, &spec); err != nil {
			return err
		}
		made, err := schedules.CreateSchedule(ctx, args[0], args[1], spec)
		if err != nil {
			return fmt.Errorf("creating a schedule: %w", err)
		}
		return p.printSchedule(made)
	})
	return cmd
}

func (p *program) changeSchedule() *cobra.Command {
	cmd := &cobra.Command{
		Use:               "change QUEUE SCHEDULE",
		Short:             "Change a stored schedule; what is not given stays",
		Args:              exactly(2),
		ValidArgsFunction: p.completeQueue,
	}
	flags := p.addScheduleFlags(cmd)
	jobType := cmd.Flags().String("type", "", "the type of the jobs")
	cmd.RunE = p.withSchedules(func(ctx context.Context, schedules management.ScheduleManager, args []string) error {
		found, err := schedules.StoredSchedule(ctx, args[0], args[1])
		if err != nil {
			return fmt.Errorf("changing a schedule: %w", err)
		}
		spec := found.ScheduleSpec
		if cmd.Flags().Changed("type") {
			spec.Type = *jobType
		}
		err = p.apply(cmd, flags, &spec)
		if err != nil {
			return err
		}
		changed, err := schedules.ChangeSchedule(ctx, args[0], args[1], management.ScheduleChange{ScheduleSpec: spec, Revision: found.Revision})
		if err != nil {
			return fmt.Errorf("changing a schedule: %w", err)
		}
		return p.printSchedule(changed)
	})
	return cmd
}

func (p *program) pauseSchedule(name, short string, paused bool) *cobra.Command {
	return &cobra.Command{
		Use:               name + " QUEUE SCHEDULE",
		Short:             short,
		Args:              exactly(2),
		ValidArgsFunction: p.completeQueue,
		RunE: p.withSchedules(func(ctx context.Context, schedules management.ScheduleManager, args []string) error {
			s, err := schedules.PauseSchedule(ctx, args[0], args[1], paused)
			if err != nil {
				return fmt.Errorf("changing a schedule: %w", err)
			}
			return p.print(s, func(out *page) { out.line(nameOf(s.Queue) + " " + s.Name + ": " + scheduleState(s)) })
		}),
	}
}

func (p *program) triggerSchedule() *cobra.Command {
	cmd := &cobra.Command{
		Use:               "trigger QUEUE SCHEDULE",
		Short:             "Enqueue a job of a stored schedule now",
		Args:              exactly(2),
		ValidArgsFunction: p.completeQueue,
	}
	key := cmd.Flags().String("idempotency-key", "", "a key that makes a repetition of this command do nothing")
	cmd.RunE = p.withSchedules(func(ctx context.Context, schedules management.ScheduleManager, args []string) error {
		created, err := schedules.TriggerSchedule(ctx, args[0], args[1], *key)
		if err != nil {
			return fmt.Errorf("triggering a schedule: %w", err)
		}
		return p.print(created, func(out *page) {
			if created.Repeated {
				out.line("already created: " + nameOf(created.Queue) + " " + created.ID)
				return
			}
			out.line("created: " + nameOf(created.Queue) + " " + created.ID)
		})
	})
	return cmd
}

func (p *program) deleteSchedule() *cobra.Command {
	return &cobra.Command{
		Use:               "delete QUEUE SCHEDULE",
		Short:             "Remove a stored schedule and its history; its jobs stay",
		Args:              exactly(2),
		ValidArgsFunction: p.completeQueue,
		RunE: p.withSchedules(func(ctx context.Context, schedules management.ScheduleManager, args []string) error {
			if err := schedules.DeleteSchedule(ctx, args[0], args[1]); err != nil {
				return fmt.Errorf("deleting a schedule: %w", err)
			}
			return p.print(struct {
				Queue   string `json:"queue"`
				Name    string `json:"name"`
				Deleted bool   `json:"deleted"`
			}{args[0], args[1], true}, func(out *page) { out.line("deleted: " + nameOf(args[0]) + " " + args[1]) })
		}),
	}
}
