package postgres_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/internal/pgtest"
	"github.com/mongodb/amboy/queue/driver/postgres"
)

// A migration that waited for a transaction, such as one of pg_dump, kept all processes with the
// previous version waiting behind it.
func TestAMigrationThatWaitsForATransactionKeepsNoOthersWaiting(t *testing.T) {
	opts := postgres.Options{URL: pgtest.URL(t), Schema: pgtest.Schema(t)}
	steps, err := postgres.Migrate(t.Context(), opts, true)
	require.NoError(t, err)
	conn, other, observer := connect(t, opts.URL), connect(t, opts.URL), connect(t, opts.URL)
	for _, step := range steps[:3] {
		execute(t, conn, step.SQL)
	}
	tx, err := conn.Begin(t.Context())
	require.NoError(t, err)
	read := "SELECT count(*) FROM " + opts.Schema + ".queues"
	_, err = tx.Exec(t.Context(), read)
	require.NoError(t, err)
	migrated := make(chan error, 1)
	go func() {
		_, failure := postgres.Migrate(t.Context(), opts, false)
		migrated <- failure
	}()
	awaitBlocked(t, observer, conn, 1)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	_, err = other.Exec(ctx, read)
	require.NoError(t, tx.Rollback(t.Context()))
	require.NoError(t, <-migrated)
	require.NoError(t, err, "another process reads while the transaction is open")
}

// A step waited for as long as the server lets an autovacuum be in the way, so it never took place during one. Open
// then waited until all dead rows were removed.
func TestAMigrationWaitedForTheEndOfAnAutovacuum(t *testing.T) {
	server, err := pgtest.Start(pgtest.Options{Settings: []string{"autovacuum=on", "autovacuum_naptime=1"}})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, server.Stop()) })
	opts := postgres.Options{URL: server.URL(), Schema: "amboy"}
	steps, err := postgres.Migrate(t.Context(), opts, true)
	require.NoError(t, err)
	conn := connect(t, opts.URL)
	last := len(steps) - 1
	for _, step := range steps[:last] {
		execute(t, conn, step.SQL)
	}
	execute(t, conn, `ALTER TABLE amboy.jobs SET (autovacuum_vacuum_cost_delay = 100, autovacuum_vacuum_cost_limit = 1)`)
	execute(t, conn, `INSERT INTO amboy.jobs (seq, priority, version, queue, line, place, format, dependency, job_id, type)
		SELECT n, 0, 1, 1, 1, 4, 0, 0, n::text, 'test' FROM generate_series(1, 5000) AS n`)
	execute(t, conn, `DELETE FROM amboy.jobs`)
	require.Eventually(t, func() bool {
		var runs bool
		failure := conn.QueryRow(t.Context(), `SELECT EXISTS (SELECT 1 FROM pg_stat_progress_vacuum WHERE relid = 'amboy.jobs'::regclass)`).Scan(&runs)
		return failure == nil && runs
	}, 30*time.Second, 10*time.Millisecond)

	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
	defer cancel()
	taken, err := postgres.Migrate(ctx, opts, false)
	require.NoError(t, err)
	assert.Len(t, taken, 1)
}

// With a statement_timeout, which DBAs set for the role of a service, a step that builds an index on a large table was
// undone each time.
func TestAStatementTimeoutUndidTheStepsOfAMigration(t *testing.T) {
	server, err := pgtest.Start(pgtest.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, server.Stop()) })
	conn := connect(t, server.URL())
	execute(t, conn, `CREATE FUNCTION refuse() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN
		IF current_setting('statement_timeout') <> '0' THEN RAISE EXCEPTION 'a step has %', current_setting('statement_timeout'); END IF; END $$`)
	execute(t, conn, `CREATE EVENT TRIGGER refuse ON ddl_command_start EXECUTE FUNCTION refuse()`)
	_, err = postgres.Migrate(t.Context(), postgres.Options{URL: server.URL() + "&statement_timeout=1h", Schema: "amboy"}, false)
	require.NoError(t, err)
}
