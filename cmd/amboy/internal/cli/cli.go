// Package cli is the command line of cmd/amboy.
package cli

import (
	"context"
	"io"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/mongodb/amboy/management"
)

// Env is what the command line has around it.
type Env struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	// Getenv looks up a variable of the environment.
	Getenv func(name string) string
	// Interactive is true where a person can be asked, who answers on Stdin.
	Interactive bool
	// Width is that of the terminal to which Stdout writes; 0 where it is none, and
	// lines may be as long as they like.
	Width int
	// Connect returns a client of a service.
	Connect func(Service) (management.Inspector, error)
}

// Run runs the command line with arguments, and returns the exit code, which
// docs/command-line.md lists. It blocks until the command is done or ctx ends, which is
// how a person interrupts it.
func Run(ctx context.Context, env Env, args []string) int {
	p := &program{Env: env}
	root := p.root()                          //nolint:contextcheck // Commands get it from cobra.
	root.SetArgs(append([]string{}, args...)) // cobra takes those of the process for nil
	root.SetIn(env.Stdin)
	root.SetOut(env.Stdout)
	root.SetErr(env.Stderr)
	err := root.ExecuteContext(ctx)
	if err != nil && !p.started {
		err = &exitError{code: exitUsage, err: err} // the arguments did not get past cobra
	}
	p.report(err)
	return exitCode(err)
}

// program is one run of the command line.
type program struct {
	Env
	connection connectionFlags
	output     choice
	// started is true from when a command has been found for the arguments, and runs.
	started bool
}

// handler does what a command is for.
type handler func(ctx context.Context, args []string) error

func (p *program) run(handle handler) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		p.started = true
		return handle(cmd.Context(), args)
	}
}

func (p *program) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "amboy",
		Short: "See and steer the jobs of a service",
		Long: "Amboy sees and steers the jobs of a service that serves rest.Handler.\n\n" +
			"Times are as 2026-11-21T15:04:05Z, as 2h for two hours ago, or as +2h for in two\n" +
			"hours; units are s, m, h and d.",
		Version:       version(),
		SilenceErrors: true, // Run reports them
		SilenceUsage:  true,
	}
	p.output = choice{value: "table", allowed: []string{"table", "json"}}
	flags := root.PersistentFlags()
	flags.VarP(&p.output, "output", "o", "table for people, or json for programs")
	complete(root, "output", fixed(p.output.allowed...))
	p.addConnectionFlags(root)
	root.AddCommand(
		p.queues(), p.jobs(), p.scopes(), p.processes(), p.schedules(), p.activity(), p.audit(),
	)
	return root
}

// group is a command that only has others.
func (p *program) group(use, short string, commands ...*cobra.Command) *cobra.Command {
	group := &cobra.Command{
		Use:   use,
		Short: short,
		Args:  cobra.NoArgs,
		RunE: p.run(func(context.Context, []string) error {
			return usage("%s what? See amboy %s --help", use, use)
		}),
	}
	group.AddCommand(commands...)
	return group
}

// exactly is for commands that need a number of arguments.
func exactly(number int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != number {
			return usage("use it as: %s", cmd.UseLine())
		}
		return nil
	}
}

func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	return info.Main.Version
}
