// Package cli implements the command line of cmd/amboy.
package cli

import (
	"context"
	"io"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/mongodb/amboy/management"
)

// Env is the environment of the command line.
type Env struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	// Getenv returns an environment variable.
	Getenv func(name string) string
	// Interactive is true if a user can answer questions on Stdin.
	Interactive bool
	// Width is the width of the terminal of Stdout; 0 if it is not a terminal. Then
	// lines are not cut.
	Width int
	// Build returns how the program was built, as debug.ReadBuildInfo does.
	Build func() (*debug.BuildInfo, bool)
	// Connect returns a client of a service.
	Connect func(Service) (management.Inspector, error)
}

// Run runs the command line with arguments, and returns the exit code, which
// docs/reference/command-line.md lists. It blocks until the command has ended, or until ctx ends
// because the user interrupts it.
func Run(ctx context.Context, env Env, args []string) int {
	p := &program{Env: env}
	root := p.root()                          //nolint:contextcheck // Commands get ctx from cobra.
	root.SetArgs(append([]string{}, args...)) // cobra would use os.Args for nil
	root.SetIn(env.Stdin)
	root.SetOut(env.Stdout)
	root.SetErr(env.Stderr)
	err := root.ExecuteContext(ctx)
	if err != nil && !p.started {
		err = &exitError{code: exitUsage, err: err} // cobra refused the arguments
	}
	p.report(err)
	return exitCode(err)
}

// program is one run of the command line.
type program struct {
	Env
	connection connectionFlags
	output     choice
	// started is true after cobra has accepted the arguments and started a command.
	started bool
	// hasToken is true after a client with a token was made.
	hasToken bool
}

// handler implements a command.
type handler func(ctx context.Context, args []string) error

func (p *program) run(handle handler) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		p.started = true
		err := refuseEmpty(cmd.Flags())
		if err != nil {
			return err
		}
		return handle(cmd.Context(), args)
	}
}

func (p *program) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "amboy",
		Short: "Inspect and control the jobs of a service",
		Long: "Amboy inspects and controls the jobs of a service that serves rest.Handler.\n\n" +
			"A time is 2026-11-21T15:04:05Z, 2h for two hours ago, or +2h for in two hours; units\n" +
			"are s, m, h and d.",
		Version:       p.build().Version,
		SilenceErrors: true, // Run reports them
		SilenceUsage:  true,
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usage("%w; see %s --help", err, cmd.CommandPath())
	})
	p.output = choice{value: "table", allowed: []string{"table", "wide", "json"}}
	flags := root.PersistentFlags()
	flags.VarP(&p.output, "output", "o", "table, wide (with more columns, and nothing cut) or json")
	complete(root, "output", fixed(p.output.allowed...))
	p.addConnectionFlags(root)
	root.AddCommand(
		p.queues(), p.jobs(), p.scopes(), p.processes(), p.schedules(), p.activity(), p.audit(), p.doctor(), p.migrate(), p.backup(), p.serve(), p.pinlater(), p.version(),
	)
	return root
}

// group returns a command that only contains subcommands.
func (p *program) group(use, short string, commands ...*cobra.Command) *cobra.Command {
	group := &cobra.Command{
		Use:   use,
		Short: short,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usage("unknown command %q of %s; see %s --help", args[0], cmd.CommandPath(), cmd.CommandPath())
			}
			return nil
		},
		RunE: p.run(func(context.Context, []string) error {
			return usage("a subcommand of %s is missing: see amboy %s --help", use, use)
		}),
	}
	group.AddCommand(commands...)
	return group
}

// exactly requires a number of arguments.
func exactly(number int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != number {
			return usage("usage: %s", cmd.UseLine())
		}
		return nil
	}
}
