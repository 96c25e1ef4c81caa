package cli

import (
	"context"
	"errors"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/mongodb/amboy/queue/driver/postgres"
)

// databaseVariable is the variable of the environment that names the database.
const databaseVariable = "AMBOY_DATABASE_URL"

// migrating is the command that brings the tables of a database to the version of this program.
type migrating struct {
	*program
	database, schema string
	dryRun           bool
	// isLimited reports whether the flag --timeout was given.
	isLimited func() bool
}

func (p *program) migrate() *cobra.Command {
	m := &migrating{program: p}
	cmd := &cobra.Command{
		Use:   "migrate",
		Short: "Bring the tables of a PostgreSQL schema to the version of this program",
		Long: "Bring the tables of a PostgreSQL schema to the version of this program, and tell the steps.\n\n" +
			"With --dry-run print the SQL of the steps that are left, and change nothing.\n\n" +
			"A step that builds an index on a large table takes minutes, and is undone if it does not end. There\n" +
			"is no time limit, unless --timeout is given.",
		Args: exactly(0),
		RunE: p.run(m.do),
	}
	m.isLimited = func() bool { return cmd.Flags().Changed("timeout") }
	flags := cmd.Flags()
	flags.StringVar(&m.database, "database", "", "connection string, as postgres://user@host/database (or "+databaseVariable+", which others on this machine can't see)")
	flags.StringVar(&m.schema, "schema", postgres.DefaultSchema, "schema of the tables")
	flags.BoolVar(&m.dryRun, "dry-run", false, "change nothing, and print the SQL")
	return cmd
}

// migrationStep is a step as programs are told of it.
type migrationStep struct {
	Version int    `json:"version"`
	Says    string `json:"says"`
	SQL     string `json:"sql"`
}

func (m *migrating) do(ctx context.Context, _ []string) error {
	if m.database == "" {
		m.database = m.Getenv(databaseVariable)
	}
	if m.database == "" {
		return usage("which database? Set --database or %s", databaseVariable)
	}
	if m.isLimited() {
		limited, cancel := context.WithTimeout(ctx, m.connection.timeout)
		defer cancel()
		ctx = limited
	}
	taken, err := postgres.Migrate(ctx, postgres.Options{URL: m.database, Schema: m.schema, PollOnly: true}, m.dryRun)
	steps := make([]migrationStep, len(taken))
	for i, s := range taken {
		steps[i] = migrationStep{s.Version, s.Says, s.SQL}
	}
	if err != nil && len(steps) == 0 {
		return err
	}
	return errors.Join(m.tell(steps), err)
}

// tell prints the steps: those that are left as a script, and those that were taken as a list.
func (m *migrating) tell(steps []migrationStep) error {
	return m.print(steps, func(out *page) {
		switch {
		case len(steps) == 0 && m.dryRun:
			out.line("-- There is nothing to do.")
		case len(steps) == 0:
			out.line("There was nothing to do.")
		case m.dryRun:
			for _, s := range steps {
				out.lines("", "BEGIN;\n"+s.SQL+"COMMIT;")
			}
		default:
			out.row("VERSION", "STEP")
			for _, s := range steps {
				out.row(strconv.Itoa(s.Version), s.Says)
			}
		}
	})
}
