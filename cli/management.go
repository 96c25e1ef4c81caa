package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/urfave/cli"

	"github.com/mongodb/amboy/management"
	"github.com/mongodb/amboy/rest"
)

const (
	filterFlag  = "filter"
	typeFlag    = "type"
	patternFlag = "pattern"
)

func filterUsage() string {
	var names []string
	for _, filter := range management.ValidStatusFilters() {
		names = append(names, string(filter))
	}
	return "`STATE` of the jobs: " + strings.Join(names, ", ")
}

// managementCommand returns the commands that call a rest.ManagementService.
func managementCommand(opts *ServiceOptions) cli.Command {
	// Commands that only read select all jobs by default; the others require a filter.
	readFilter := cli.StringFlag{Name: filterFlag, Value: string(management.All), Usage: filterUsage()}
	filter := cli.StringFlag{Name: filterFlag, Usage: filterUsage()}
	jobType := cli.StringFlag{Name: typeFlag, Usage: "`TYPE` of the jobs"}
	pattern := cli.StringFlag{Name: patternFlag, Usage: "regular `EXPRESSION` that the whole ID of a job must match"}

	m := &managementCommands{opts}
	return cli.Command{
		Name:  "management",
		Usage: "count, list and complete jobs",
		Subcommands: []cli.Command{
			command("status", "count jobs by type", []cli.Flag{readFilter}, m.status),
			command("jobs", "list the IDs of jobs of a type", []cli.Flag{jobType, readFilter}, m.jobs),
			command("complete-job", "mark a job complete", idFlags(), m.completeJob),
			command("complete-jobs", "mark jobs complete", []cli.Flag{filter}, m.completeJobs),
			command("complete-jobs-by-type", "mark jobs of a type complete", []cli.Flag{jobType, filter}, m.completeJobsByType),
			command("complete-jobs-by-pattern", "mark jobs complete whose IDs match", []cli.Flag{pattern, filter}, m.completeJobsByPattern),
		},
	}
}

type managementCommands struct{ opts *ServiceOptions }

// manager returns the manager of the service, if the required flags have values.
func (m *managementCommands) manager(c *cli.Context, flags ...string) (management.Manager, error) {
	if err := required(c, flags...); err != nil {
		return nil, err
	}
	address, err := m.opts.address(c, m.opts.QueueManagementPrefix)
	if err != nil {
		return nil, err
	}
	return rest.NewManagementClientFromExisting(m.opts.Client, address), nil
}

func filterOf(c *cli.Context) management.StatusFilter {
	return management.StatusFilter(c.String(filterFlag))
}

func (m *managementCommands) status(c *cli.Context) error {
	manager, err := m.manager(c, filterFlag)
	if err != nil {
		return err
	}
	counts, err := manager.JobStatus(context.Background(), filterOf(c))
	if err != nil {
		return err
	}
	rows := [][]string{{"TYPE", "GROUP", "COUNT"}}
	for _, count := range counts {
		rows = append(rows, []string{count.Type, count.Group, fmt.Sprint(count.Count)})
	}
	return writeTable(c.App.Writer, rows)
}

func (m *managementCommands) jobs(c *cli.Context) error {
	manager, err := m.manager(c, typeFlag, filterFlag)
	if err != nil {
		return err
	}
	ids, err := manager.JobIDsByState(context.Background(), c.String(typeFlag), filterOf(c))
	if err != nil {
		return err
	}
	rows := [][]string{{"ID", "GROUP"}}
	for _, id := range ids {
		rows = append(rows, []string{id.ID, id.Group})
	}
	return writeTable(c.App.Writer, rows)
}

func (m *managementCommands) completeJob(c *cli.Context) error {
	manager, err := m.manager(c, idFlag)
	if err != nil {
		return err
	}
	if err := manager.CompleteJob(context.Background(), c.String(idFlag)); err != nil {
		return err
	}
	return writeLine(c.App.Writer, "marked job %q complete", c.String(idFlag))
}

func (m *managementCommands) completeJobs(c *cli.Context) error {
	manager, err := m.manager(c, filterFlag)
	if err != nil {
		return err
	}
	if err := manager.CompleteJobs(context.Background(), filterOf(c)); err != nil {
		return err
	}
	return writeLine(c.App.Writer, "marked jobs complete: %s", filterOf(c))
}

func (m *managementCommands) completeJobsByType(c *cli.Context) error {
	manager, err := m.manager(c, typeFlag, filterFlag)
	if err != nil {
		return err
	}
	if err := manager.CompleteJobsByType(context.Background(), filterOf(c), c.String(typeFlag)); err != nil {
		return err
	}
	return writeLine(c.App.Writer, "marked jobs of type %q complete: %s", c.String(typeFlag), filterOf(c))
}

func (m *managementCommands) completeJobsByPattern(c *cli.Context) error {
	manager, err := m.manager(c, patternFlag, filterFlag)
	if err != nil {
		return err
	}
	if err := manager.CompleteJobsByPattern(context.Background(), filterOf(c), c.String(patternFlag)); err != nil {
		return err
	}
	return writeLine(c.App.Writer, "marked jobs matching %q complete: %s", c.String(patternFlag), filterOf(c))
}
