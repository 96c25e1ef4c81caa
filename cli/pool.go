package cli

import (
	"context"

	"github.com/urfave/cli"

	"github.com/mongodb/amboy/rest"
)

// poolCommand returns the commands that call a rest.AbortablePoolManagementService or a
// rest.ManagementGroupService.
func poolCommand(opts *ServiceOptions) cli.Command {
	p := &poolCommands{opts}
	return cli.Command{
		Name:  "abortable_pool_management",
		Usage: "list and abort running jobs",
		Subcommands: []cli.Command{
			command("list", "list the IDs of running jobs", nil, p.list),
			command("abort-all", "abort all running jobs, and wait until they have ended", nil, p.abortAll),
			command("check", "report whether a job is running", idFlags(), p.check),
			command("abort", "abort a running job, and wait until it has ended", idFlags(), p.abort),
		},
	}
}

type poolCommands struct{ opts *ServiceOptions }

// client returns a client for the service, if the required flags have values.
func (p *poolCommands) client(c *cli.Context, flags ...string) (*rest.AbortablePoolManagementClient, error) {
	if err := required(c, flags...); err != nil {
		return nil, err
	}
	address, err := p.opts.address(c, p.opts.AbortablePoolManagementPrefix)
	if err != nil {
		return nil, err
	}
	return rest.NewAbortablePoolManagementClientFromExisting(p.opts.Client, address), nil
}

func (p *poolCommands) list(c *cli.Context) error {
	client, err := p.client(c)
	if err != nil {
		return err
	}
	ids, err := client.ListJobs(context.Background())
	if err != nil {
		return err
	}
	rows := [][]string{{"ID"}}
	for _, id := range ids {
		rows = append(rows, []string{id})
	}
	return writeTable(c.App.Writer, rows)
}

func (p *poolCommands) abortAll(c *cli.Context) error {
	client, err := p.client(c)
	if err != nil {
		return err
	}
	if err := client.AbortAllJobs(context.Background()); err != nil {
		return err
	}
	return writeLine(c.App.Writer, "aborted all running jobs")
}

func (p *poolCommands) check(c *cli.Context) error {
	client, err := p.client(c, idFlag)
	if err != nil {
		return err
	}
	running, err := client.IsRunning(context.Background(), c.String(idFlag))
	if err != nil {
		return err
	}
	if !running {
		return writeLine(c.App.Writer, "job %q is not running", c.String(idFlag))
	}
	return writeLine(c.App.Writer, "job %q is running", c.String(idFlag))
}

func (p *poolCommands) abort(c *cli.Context) error {
	client, err := p.client(c, idFlag)
	if err != nil {
		return err
	}
	if err := client.AbortJob(context.Background(), c.String(idFlag)); err != nil {
		return err
	}
	return writeLine(c.App.Writer, "aborted job %q", c.String(idFlag))
}
