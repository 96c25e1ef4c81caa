package postgres_test

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx" of database/sql
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/pgtest"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/postgres"
)

func newRecord(id string) *driver.Record {
	return &driver.Record{Name: id, Type: "test", Version: 1}
}

func open(t *testing.T, opts postgres.Options) *postgres.Driver {
	t.Helper()
	d, err := postgres.Open(t.Context(), opts)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, d.Close(context.Background())) })
	return d
}

// connect opens a connection that is independent of the driver.
func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, conn.Close(context.Background())) })
	return conn
}

func execute(t *testing.T, conn *pgx.Conn, text string) {
	t.Helper()
	_, err := conn.Exec(t.Context(), text)
	require.NoError(t, err, text)
}

func insert(ctx context.Context, t *testing.T, d *postgres.Driver, records ...*driver.Record) {
	t.Helper()
	errs, err := d.Insert(ctx, records)
	require.NoError(t, err)
	require.NoError(t, errors.Join(errs...))
}

func claim(t *testing.T, d *postgres.Driver, limit int) []*driver.Record {
	t.Helper()
	claimed, _ := claimAt(t, d, limit, time.Now())
	return claimed
}

func idsOf(records []*driver.Record) (ids []string) {
	for _, r := range records {
		ids = append(ids, r.JobID())
	}
	return ids
}

func TestInvalidOptionsAreRefused(t *testing.T) {
	for name, test := range map[string]struct {
		opts postgres.Options
		says string
	}{
		"nothing":          {postgres.Options{}, "URL or Pool must be set"},
		"a bad URL":        {postgres.Options{URL: "postgres://me:secret@host:port/db"}, "invalid URL: it must be a connection string such as postgres://"},
		"a bad schema":     {postgres.Options{URL: "postgres:///x", Schema: `a"b`}, `Schema must have up to 50 letters, digits and underscores (is "a\"b")`},
		"a reserved one":   {postgres.Options{URL: "postgres:///x", Schema: "pg_jobs"}, "must not begin with pg_"},
		"no such server":   {postgres.Options{URL: "postgres:///x?host=" + t.TempDir()}, "connecting: "},
		"no such database": {postgres.Options{URL: pgtest.URL(t) + "&database=missing"}, "connecting: "},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := postgres.Open(t.Context(), test.opts)
			require.ErrorContains(t, err, test.says)
			assert.NotContains(t, err.Error(), "secret")
			_, err = postgres.Migrate(t.Context(), test.opts, true)
			require.ErrorContains(t, err, test.says)
		})
	}
}

func TestMigrationsAreTakenOnce(t *testing.T) {
	opts := postgres.Options{URL: pgtest.URL(t), Schema: pgtest.Schema(t)}
	planned, err := postgres.Migrate(t.Context(), opts, true)
	require.NoError(t, err)
	require.NotEmpty(t, planned)
	assert.Contains(t, planned[0].SQL, "CREATE SCHEMA")

	late := opts
	late.SkipMigrations = true
	_, err = postgres.Open(t.Context(), late)
	require.ErrorContains(t, err, "the schema has version 0, and this library needs version 10; run its migrations", "the dry run has changed nothing")

	taken := make(chan []postgres.Migration)
	for range 4 {
		go func() {
			steps, err := postgres.Migrate(t.Context(), opts, false)
			assert.NoError(t, err)
			taken <- steps
		}()
	}
	var all []postgres.Migration
	for range 4 {
		all = append(all, <-taken...)
	}
	slices.SortFunc(all, func(a, b postgres.Migration) int { return a.Version - b.Version })
	assert.Equal(t, planned, all, "of several processes one takes each step")
	open(t, late)
}

// The SQL that Migrate returns can be run by hand, by a role that the service does not have.
func TestMigrationsCanBeRunByHand(t *testing.T) {
	opts := postgres.Options{URL: pgtest.URL(t), Schema: pgtest.Schema(t), SkipMigrations: true}
	steps, err := postgres.Migrate(t.Context(), opts, true)
	require.NoError(t, err)
	conn := connect(t, opts.URL)
	for _, step := range steps {
		execute(t, conn, step.SQL)
	}
	d := open(t, opts)
	insert(t.Context(), t, d, newRecord("job"))
	assert.Equal(t, []string{"job"}, idsOf(claim(t, d, 1)))
}

func TestNewerSchemaIsRefused(t *testing.T) {
	opts := postgres.Options{URL: pgtest.URL(t), Schema: pgtest.Schema(t)}
	open(t, opts)
	execute(t, connect(t, opts.URL), "INSERT INTO "+opts.Schema+".migrations (version) VALUES (99)")
	_, err := postgres.Open(t.Context(), opts)
	var newer *postgres.NewerSchemaError
	require.ErrorAs(t, err, &newer)
	require.ErrorIs(t, err, postgres.ErrNewerSchema)
	assert.Equal(t, 99, newer.Found)
	_, err = postgres.Migrate(t.Context(), opts, false)
	require.ErrorIs(t, err, postgres.ErrNewerSchema)
}

func TestMissingPrivilegesAreNamed(t *testing.T) {
	server, schema := pgtest.URL(t), pgtest.Schema(t)
	conn := connect(t, server)
	role := schema + "_role"
	execute(t, conn, "CREATE ROLE "+role+" LOGIN")
	t.Cleanup(func() {
		_, err := conn.Exec(context.Background(), "DROP OWNED BY "+role+"; DROP ROLE "+role)
		assert.NoError(t, err)
	})
	theirs := connect(t, server).Config().Copy()
	theirs.User = role
	url := "postgres:///" + theirs.Database + "?host=" + theirs.Host + "&user=" + role
	_, err := postgres.Open(t.Context(), postgres.Options{URL: url, Schema: schema})
	require.ErrorContains(t, err, "the role lacks a privilege; grant it CREATE on the database, or make the schema")

	_, err = postgres.Migrate(t.Context(), postgres.Options{URL: server, Schema: schema}, false)
	require.NoError(t, err)
	// The error asked for CREATE on the database, which a service that does not migrate does without.
	_, err = postgres.Open(t.Context(), postgres.Options{URL: url, Schema: schema, SkipMigrations: true})
	require.ErrorContains(t, err, "the role lacks a privilege; grant it USAGE on the schema, SELECT, INSERT, UPDATE and DELETE on all tables")
	_, err = postgres.Migrate(t.Context(), postgres.Options{URL: url, Schema: schema, SkipMigrations: true}, false)
	require.ErrorContains(t, err, "grant it CREATE on the database")

	execute(t, conn, "GRANT USAGE ON SCHEMA "+schema+" TO "+role+"; GRANT SELECT ON ALL TABLES IN SCHEMA "+schema+" TO "+role)
	_, err = postgres.Open(t.Context(), postgres.Options{URL: url, Schema: schema})
	require.ErrorContains(t, err, "the role lacks privileges on tables and sequences of the schema: arrivals (SELECT), arrivals (USAGE), duties (DELETE)")

	// With this, which the guide named, Put worked, and actions failed.
	execute(t, conn, "GRANT ALL ON ALL TABLES IN SCHEMA "+schema+" TO "+role+"; GRANT USAGE ON ALL SEQUENCES IN SCHEMA "+schema+" TO "+role)
	_, err = postgres.Open(t.Context(), postgres.Options{URL: url, Schema: schema})
	require.ErrorContains(t, err, "the role lacks privileges on tables and sequences of the schema: arrivals (SELECT); grant it")

	execute(t, conn, "GRANT SELECT ON ALL SEQUENCES IN SCHEMA "+schema+" TO "+role)
	d := open(t, postgres.Options{URL: url, Schema: schema})
	insert(t.Context(), t, d, newRecord("job"))
	assert.Len(t, claim(t, d, 1), 1)
}

func TestServerThatTakesNoWritesIsRefused(t *testing.T) {
	_, err := postgres.Open(t.Context(), postgres.Options{
		URL: pgtest.URL(t) + "&default_transaction_read_only=on", Schema: pgtest.Schema(t),
	})
	require.ErrorContains(t, err, "the server takes no writes: default_transaction_read_only is on")
}

func TestServerThatIsTooOldIsRefused(t *testing.T) {
	fakes, schema := pgtest.Schema(t), pgtest.Schema(t)
	conn := connect(t, pgtest.URL(t))
	execute(t, conn, "CREATE SCHEMA "+fakes+"; CREATE FUNCTION "+fakes+`.current_setting(name text) RETURNS text LANGUAGE sql AS
		$$ SELECT CASE name WHEN 'server_version_num' THEN '120022' ELSE pg_catalog.current_setting(name) END $$`)
	_, err := postgres.Open(t.Context(), postgres.Options{URL: pgtest.URL(t) + "&search_path=" + fakes + ",pg_catalog", Schema: schema})
	require.ErrorContains(t, err, "PostgreSQL 13 or newer is needed")
	var n int
	require.NoError(t, conn.QueryRow(t.Context(), "SELECT count(*) FROM pg_namespace WHERE nspname = $1", schema).Scan(&n))
	assert.Zero(t, n, "nothing is written")
}

func TestRecordThatPostgreSQLCannotStoreIsRefused(t *testing.T) {
	d := open(t, postgres.Options{URL: pgtest.URL(t), Schema: pgtest.Schema(t)})
	scoped := newRecord("scoped")
	scoped.RequiredScopes = []string{"\xff"}
	errs, err := d.Insert(t.Context(), []*driver.Record{newRecord("zero\x00"), scoped, newRecord("job")})
	require.NoError(t, err)
	var invalid *amboy.InvalidJobError
	require.ErrorAs(t, errs[0], &invalid)
	assert.Equal(t, "ID", invalid.Field)
	require.ErrorAs(t, errs[1], &invalid)
	assert.Equal(t, "scope", invalid.Field)
	require.NoError(t, errs[2])
	_, err = d.Get(t.Context(), "", "zero\x00")
	require.True(t, amboy.IsJobNotFoundError(err))

	// The texts that a job sets are stored nevertheless.
	r := claim(t, d, 1)[0]
	r.Status.Completed, r.Status.Reason = true, "because \x00 \xff"
	r.Status.Errors, r.Status.ErrorCount = []string{"binary \x00"}, 1
	errs, err = d.Complete(t.Context(), []driver.Completion{{Lease: driver.LeaseOf(r), Record: r}})
	require.NoError(t, err)
	require.NoError(t, errs[0])
}

func TestInsertInATransactionOfDatabaseSQL(t *testing.T) {
	opts := postgres.Options{URL: pgtest.URL(t), Schema: pgtest.Schema(t)}
	d := open(t, opts)
	db, err := sql.Open("pgx", opts.URL)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, db.Close()) })
	for _, end := range []struct {
		name string
		end  func(*sql.Tx) error
		want []string
	}{{"rollback", (*sql.Tx).Rollback, nil}, {"commit", (*sql.Tx).Commit, []string{"job", "scoped"}}} {
		t.Run(end.name, func(t *testing.T) {
			tx, err := db.BeginTx(t.Context(), nil)
			require.NoError(t, err)
			scoped := newRecord("scoped")
			scoped.RequiredScopes = []string{"s"}
			insert(postgres.WithSQLTx(t.Context(), tx), t, d, newRecord("job"), scoped)
			errs, err := d.Insert(postgres.WithSQLTx(t.Context(), tx), []*driver.Record{newRecord("job")})
			require.NoError(t, err)
			assert.True(t, amboy.IsDuplicateJobError(errs[0]))
			assert.Empty(t, claim(t, d, 10))
			require.NoError(t, end.end(tx))
			assert.Equal(t, end.want, idsOf(claim(t, d, 10)))
		})
	}
}

func TestTransactionOfAnotherDatabaseIsRefused(t *testing.T) {
	opts := postgres.Options{URL: pgtest.URL(t), Schema: pgtest.Schema(t)}
	d := open(t, opts)
	other := opts.Schema + "_other"
	execute(t, connect(t, opts.URL), "CREATE DATABASE "+other)
	conn := connect(t, opts.URL+"&database="+other)
	_, err := postgres.Migrate(t.Context(), postgres.Options{URL: opts.URL + "&database=" + other, Schema: opts.Schema}, false)
	require.NoError(t, err)
	tx, err := conn.Begin(t.Context())
	require.NoError(t, err)
	_, err = d.Insert(postgres.WithTx(t.Context(), tx), []*driver.Record{newRecord("job")})
	require.ErrorContains(t, err, "the transaction is on another database")
	require.NoError(t, tx.Rollback(t.Context()))
	assert.Empty(t, claim(t, d, 10))
	var n int
	require.NoError(t, conn.QueryRow(t.Context(), "SELECT count(*) FROM "+opts.Schema+".jobs").Scan(&n))
	assert.Zero(t, n)
}

// A transaction that stays open does not block other inserts, claims and ends.
func TestOpenTransactionOfACallerKeepsNoOneWaiting(t *testing.T) {
	opts := postgres.Options{URL: pgtest.URL(t), Schema: pgtest.Schema(t)}
	d := open(t, opts)
	tx, err := connect(t, opts.URL).Begin(t.Context())
	require.NoError(t, err)
	insert(postgres.WithTx(t.Context(), tx), t, d, newRecord("in it"))
	insert(t.Context(), t, d, newRecord("beside it"))
	r := claim(t, d, 10)
	require.Equal(t, []string{"beside it"}, idsOf(r))
	errs, err := d.Release(t.Context(), []driver.HandBack{{Lease: driver.LeaseOf(r[0])}})
	require.NoError(t, errors.Join(append(errs, err)...))
	require.NoError(t, tx.Commit(t.Context()))
	assert.Equal(t, []string{"in it", "beside it"}, idsOf(claim(t, d, 10)))
}

// The error of the server names neither the pooler nor the option.
func TestAPreparedStatementThatAPoolerMixesUpNamesPollOnly(t *testing.T) {
	opts := postgres.Options{URL: pgtest.URL(t), Schema: pgtest.Schema(t)}
	open(t, opts)
	config, err := pgxpool.ParseConfig(opts.URL)
	require.NoError(t, err)
	config.PrepareConn = func(ctx context.Context, conn *pgx.Conn) (bool, error) {
		_, failure := conn.Exec(ctx, "DEALLOCATE ALL", pgx.QueryExecModeSimpleProtocol) // as with another server connection
		return true, failure
	}
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	_, err = postgres.Open(t.Context(), postgres.Options{Pool: pool, Schema: opts.Schema})
	require.ErrorContains(t, err, "set PollOnly")
}

func TestPollOnlyKeepsNoPreparedStatementsAndDoesNotListen(t *testing.T) {
	opts := postgres.Options{URL: pgtest.URL(t), Schema: pgtest.Schema(t), PollOnly: true}
	d := open(t, opts)
	assert.False(t, d.Features().Notifications)
	told := make(chan bool, 10)
	t.Cleanup(d.Subscribe(func(c driver.Change) { told <- c.MayClaim }))
	insert(t.Context(), t, d, newRecord("job"))
	assert.True(t, <-told, "it tells of its own changes")
	require.Len(t, claim(t, d, 1), 1)
	var listening int
	err := connect(t, opts.URL).QueryRow(t.Context(), "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'LISTEN%'||$1||'%'", opts.Schema).Scan(&listening)
	require.NoError(t, err)
	assert.Zero(t, listening)
}

// The documentation named a mode in which Open failed.
func TestPollOnlyTakesPoolsOfTheModesThatItNames(t *testing.T) {
	for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeDescribeExec} {
		t.Run(mode.String(), func(t *testing.T) {
			config, err := pgxpool.ParseConfig(pgtest.URL(t))
			require.NoError(t, err)
			config.ConnConfig.DefaultQueryExecMode = mode
			pool, err := pgxpool.NewWithConfig(t.Context(), config)
			require.NoError(t, err)
			t.Cleanup(pool.Close)
			d := open(t, postgres.Options{Pool: pool, Schema: pgtest.Schema(t), PollOnly: true})
			insert(t.Context(), t, d, newRecord("job"))
			assert.Equal(t, []string{"job"}, idsOf(claim(t, d, 1)))
		})
	}
}

// The pool of a newly started process was exhausted when each of its connections waited for the
// lock of a queue: the holder of the lock needed one more connection, to find the line of a job.
// The queue stood still in all processes until the holder's call timed out.
func TestTheHolderOfTheLockOfAQueueWaitsForNoSecondConnection(t *testing.T) {
	opts := postgres.Options{URL: pgtest.URL(t), Schema: pgtest.Schema(t)}
	insert(t.Context(), t, open(t, opts), newRecord("job"))
	opts.URL += "&pool_max_conns=1"
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for line, priority := range map[string]int{"known to others": 0, "new": 7} {
		d := open(t, opts)
		acted, err := d.Act(ctx, driver.ActRequest{Action: driver.Action{Kind: driver.Prioritize, Priority: priority}, Limit: 1})
		require.NoError(t, err, "a line that is %s", line)
		assert.Equal(t, 1, acted.Done)
	}
}

// Callers whose transactions held all connections of the pool waited for each other when their jobs were the first of
// their queue, type or priority.
func TestTheFirstJobsInTransactionsThatHoldAllConnectionsWaitForNone(t *testing.T) {
	config, err := pgxpool.ParseConfig(pgtest.URL(t))
	require.NoError(t, err)
	config.MaxConns = 1
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	d := open(t, postgres.Options{Pool: pool, Schema: pgtest.Schema(t)})
	for _, level := range []pgx.TxIsoLevel{pgx.ReadCommitted, pgx.RepeatableRead} {
		tx, err := pool.BeginTx(patience(t), pgx.TxOptions{IsoLevel: level})
		require.NoError(t, err)
		_, err = tx.Exec(t.Context(), "SELECT txid_current()")
		require.NoError(t, err)
		insert(postgres.WithTx(patience(t), tx), t, d, inQueue(string(level), newRecord("job")))
		require.NoError(t, tx.Commit(t.Context()))
		assert.Equal(t, []string{"job"}, idsOf(claimIn(t, d, time.Now(), string(level)).Records))
	}
}

// A job whose lease was over and whose end was not committed yet blocked the recovery, which held
// the lock of the queue.
func TestOpenTransactionThatEndsAJobKeepsNoRecoveryWaiting(t *testing.T) {
	opts := postgres.Options{URL: pgtest.URL(t), Schema: pgtest.Schema(t)}
	d := open(t, opts)
	insert(t.Context(), t, d, newRecord("in it"), newRecord("beside it"))
	claimed, err := d.Claim(t.Context(), driver.ClaimRequest{
		Owner: "owner", Queues: []driver.Demand{{Limit: 2}}, Limit: 2, Now: time.Now(), LeaseTime: time.Nanosecond,
	})
	require.NoError(t, err)
	require.Len(t, claimed.Records, 2)
	tx, err := connect(t, opts.URL).Begin(t.Context())
	require.NoError(t, err)
	ended := *claimed.Records[0]
	ended.Status.Completed, ended.Status.InProgress = true, false
	errs, err := d.Complete(postgres.WithTx(t.Context(), tx), []driver.Completion{{Lease: driver.LeaseOf(claimed.Records[0]), Record: &ended}})
	require.NoError(t, errors.Join(append(errs, err)...))

	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	n, err := d.RecoverStale(ctx)
	require.NoError(t, err)
	assert.Equal(t, 1, n)
	require.NoError(t, tx.Rollback(t.Context()))
	n, err = d.RecoverStale(t.Context())
	require.NoError(t, err)
	assert.Equal(t, 1, n, "it is looked at again")
	assert.Equal(t, []string{"in it", "beside it"}, idsOf(claim(t, d, 10)))
}
