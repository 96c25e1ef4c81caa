package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/mongodb/amboy/internal/sleep"
	"github.com/mongodb/amboy/queue/driver/internal/pgconnect"
)

// ErrNewerSchema is wrapped by the error for a schema that was written by a newer version of this
// library.
var ErrNewerSchema = errors.New("the schema was written by a newer version of this library")

// NewerSchemaError reports the versions of a schema and of this library. It wraps ErrNewerSchema.
type NewerSchemaError struct {
	// Found is the version of the schema.
	Found int
	// Known is the newest version that this library knows.
	Known int
}

// Error names both versions.
func (e *NewerSchemaError) Error() string {
	return fmt.Sprintf("%v: it has version %d, and this one knows versions up to %d; update the program", ErrNewerSchema, e.Found, e.Known)
}

// Unwrap returns ErrNewerSchema.
func (e *NewerSchemaError) Unwrap() error { return ErrNewerSchema }

// Migration is a step that migrates a schema from the previous version to Version.
type Migration struct {
	// Version is the schema version after the step.
	Version int
	// Says describes the step.
	Says string
	// SQL is a script that can be run by hand, in one transaction.
	SQL string
}

// Migrate migrates a schema to the version of this library, as Open does, and returns the steps
// that it took. If dryRun is true, it changes nothing, and returns the steps that are left. Each
// step is one transaction, and is taken once even if several processes migrate. Processes with the
// previous version may continue meanwhile. No superuser and no extension is needed: the role must
// be able to create the schema, or own it.
func Migrate(ctx context.Context, opts Options, dryRun bool) ([]Migration, error) {
	opts, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	opts.SkipMigrations = false
	d := newDriver(opts)
	if err = d.connect(ctx); err != nil {
		return nil, fmt.Errorf("migrating schema %q: %w", opts.Schema, err)
	}
	defer d.free()
	var steps []Migration
	err = pgconnect.CheckServer(ctx, d.pool)
	if err == nil {
		steps, err = d.migrate(ctx, dryRun)
	}
	if err != nil {
		return steps, fmt.Errorf("migrating schema %q: %w", opts.Schema, d.explain(err))
	}
	return steps, nil
}

// version returns the version of the schema; 0 if it has no tables. schemaExists is false if the
// schema does not exist.
func (d *Driver) version(ctx context.Context, on pgxQuerier) (version int, schemaExists bool, err error) {
	err = on.query(ctx, `SELECT EXISTS (SELECT 1 FROM pg_namespace WHERE nspname = $1),
			EXISTS (SELECT 1 FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace WHERE nspname = $1 AND relname = 'migrations')`,
		func(r *row) error {
			schemaExists = r.bool()
			if !r.bool() {
				version = -1
			}
			return nil
		}, d.opts.Schema)
	if err != nil {
		return 0, false, fmt.Errorf("reading the version of the schema: %w", err)
	}
	if version < 0 {
		return 0, schemaExists, nil
	}
	err = on.query(ctx, d.inSchema(`SELECT coalesce(max(version), 0)::bigint FROM {s}.migrations`), func(r *row) error {
		version = r.int()
		return nil
	})
	if err != nil {
		return 0, true, fmt.Errorf("reading the version of the schema: %w", err)
	}
	return version, true, nil
}

func (d *Driver) inSchema(text string) string {
	return strings.ReplaceAll(text, "{s}", pgx.Identifier{d.opts.Schema}.Sanitize())
}

// migrate takes the remaining steps, or lists them.
func (d *Driver) migrate(ctx context.Context, dryRun bool) (steps []Migration, err error) {
	version, exists, err := d.version(ctx, pgxQuerier{d.pool})
	if err != nil {
		return nil, err
	}
	if version > currentVersion() {
		return nil, &NewerSchemaError{Found: version, Known: currentVersion()}
	}
	for version < currentVersion() {
		if dryRun {
			steps = append(steps, d.step(version, exists))
			version, exists = version+1, true
			continue
		}
		var taken *Migration
		taken, err = d.takeStep(ctx)
		if pgconnect.CodeOf(err) == pgconnect.CodeLockNotAvailable {
			if ended := sleep.For(ctx, migrationPause); ended != nil {
				return steps, errors.Join(ended, err)
			}
			continue
		}
		if err != nil {
			return steps, err
		}
		if taken != nil {
			steps = append(steps, *taken)
		}
		version, _, err = d.version(ctx, pgxQuerier{d.pool})
		if err != nil {
			return steps, err
		}
	}
	return steps, nil
}

// step returns the step from a version to the next.
func (d *Driver) step(version int, schemaExists bool) Migration {
	var script strings.Builder
	if !schemaExists {
		script.WriteString("CREATE SCHEMA {s};\n")
	}
	if version == 0 {
		script.WriteString("CREATE TABLE {s}.migrations (version integer PRIMARY KEY, at timestamptz NOT NULL DEFAULT now());\n")
	}
	m := migrations[version]
	script.WriteString(m.sql)
	fmt.Fprintf(&script, "INSERT INTO {s}.migrations (version) VALUES (%d);\n", version+1)
	return Migration{Version: version + 1, Says: m.says, SQL: d.inSchema(script.String())}
}

// A step that changes a table waits for the transactions that use it, and what other processes do with
// that table waits behind the step. So a step waits for a short time, and is tried again after a pause in
// which they go on. It waits for longer than a second: then the server cancels an autovacuum that is in the way
// (deadlock_timeout).
const (
	migrationWait  = "1200ms"
	migrationPause = 2 * time.Second
)

// beginStep begins the transaction of a step. A statement_timeout of the role, which is meant for other statements, would
// undo a step that builds an index on a large table each time.
const beginStep = "BEGIN; SET LOCAL statement_timeout = 0"

// takeStep takes the next step under a lock, if any is left. The columns of its first statement are
// evaluated from left to right.
func (d *Driver) takeStep(ctx context.Context) (taken *Migration, err error) {
	err = pgx.BeginTxFunc(ctx, d.pool, pgx.TxOptions{BeginQuery: beginStep}, func(tx pgx.Tx) error {
		_, failure := tx.Exec(ctx, `SELECT set_config('lock_timeout', $1, true), pg_advisory_xact_lock($2)`, migrationWait, d.lockKey(lockOfSchema, 0))
		if failure != nil {
			return failure
		}
		version, exists, failure := d.version(ctx, pgxQuerier{tx})
		if failure != nil || version >= currentVersion() {
			return failure
		}
		step := d.step(version, exists)
		_, failure = tx.Exec(ctx, step.SQL, pgx.QueryExecModeSimpleProtocol)
		if failure != nil {
			return fmt.Errorf("version %d (%s): %w", step.Version, step.Says, failure)
		}
		taken = &step
		return nil
	})
	return taken, err
}

// neededPrivileges are those of a role that does not migrate.
const neededPrivileges = "SELECT, INSERT, UPDATE and DELETE on all tables, and USAGE and SELECT on the sequences"

// checkVersion returns an error unless the schema has the current version and the role may use its
// tables.
func (d *Driver) checkVersion(ctx context.Context) error {
	version, _, err := d.version(ctx, pgxQuerier{d.pool})
	switch {
	case err != nil:
		return err
	case version > currentVersion():
		return &NewerSchemaError{Found: version, Known: currentVersion()}
	case version < currentVersion():
		return fmt.Errorf("the schema has version %d, and this library needs version %d; run its migrations (Migrate, or amboy migrate)", version, currentVersion())
	}
	var missing []string
	err = d.reader().query(ctx, `SELECT c.relname::text || ' (' || p.privilege || ')' FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
		CROSS JOIN (VALUES ('SELECT'), ('INSERT'), ('UPDATE'), ('DELETE')) AS p (privilege)
		WHERE n.nspname = $1 AND c.relkind = 'r' AND c.relname <> 'migrations' AND NOT has_table_privilege(c.oid, p.privilege)
		UNION ALL SELECT c.relname::text || ' (' || p.privilege || ')' FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
		CROSS JOIN (VALUES ('USAGE'), ('SELECT')) AS p (privilege)
		WHERE n.nspname = $1 AND c.relkind = 'S' AND c.relname = 'arrivals' AND NOT has_sequence_privilege(c.oid, p.privilege) ORDER BY 1`,
		func(r *row) error {
			missing = append(missing, r.text())
			return nil
		}, d.opts.Schema)
	if err == nil && len(missing) > 0 {
		err = fmt.Errorf("the role lacks privileges on tables and sequences of the schema: %s; grant it %s",
			strings.Join(missing, ", "), neededPrivileges)
	}
	return err
}
