package cli

import (
	"errors"
	"fmt"

	"github.com/urfave/cli"
)

// Amboy returns the command "amboy", with the subcommands "management" and
// "abortable_pool_management". Its Flags and its Before are not set: they are the
// caller's. Its commands write to the Writer of the App, and return errors to the
// caller of the App's Run.
func Amboy(opts *ServiceOptions) cli.Command {
	if opts == nil {
		opts = &ServiceOptions{}
	}
	return cli.Command{
		Name:  "amboy",
		Usage: "count, list, complete and abort the jobs of a running service",
		Subcommands: []cli.Command{
			managementCommand(opts),
			poolCommand(opts),
		},
	}
}

// command returns a subcommand that refuses arguments other than flags.
func command(name, usage string, flags []cli.Flag, run func(*cli.Context) error) cli.Command {
	return cli.Command{
		Name:      name,
		Usage:     usage,
		ArgsUsage: " ", // none
		Flags:     append(flags, serviceFlags()...),
		Action: func(c *cli.Context) error {
			if c.NArg() > 0 {
				return fmt.Errorf("%s: unexpected argument %q", name, c.Args().First())
			}
			if err := run(c); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			return nil
		},
	}
}

const idFlag = "id"

func idFlags() []cli.Flag {
	return []cli.Flag{cli.StringFlag{Name: idFlag + ", name", Usage: "`ID` of the job"}}
}

// required returns an error for each flag that has no value.
func required(c *cli.Context, flags ...string) error {
	var errs []error
	for _, flag := range flags {
		if c.String(flag) == "" {
			errs = append(errs, fmt.Errorf("--%s must not be empty", flag))
		}
	}
	return errors.Join(errs...)
}
