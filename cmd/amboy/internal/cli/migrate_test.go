package cli_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/cmd/amboy/internal/cli"
	"github.com/mongodb/amboy/internal/pgtest"
)

func TestMigratePrintsOrTakesTheStepsThatAreLeft(t *testing.T) {
	server, schema := pgtest.URL(t), pgtest.Schema(t)
	migrate := func(more ...string) result {
		inDatabase := func(env *cli.Env) {
			env.Getenv = func(name string) string { return map[string]string{"AMBOY_DATABASE_URL": server}[name] }
		}
		return runIn(t.Context(), nil, inDatabase, append([]string{"migrate", "--schema", schema}, more...)...)
	}
	script := migrate("--dry-run")
	require.Zero(t, script.code, script.errOut)
	assert.Contains(t, script.out, "CREATE SCHEMA")
	asJSON := migrate("--dry-run", "-o", "json")
	var steps []struct {
		Version int
		SQL     string
	}
	require.NoError(t, json.Unmarshal([]byte(asJSON.out), &steps))
	require.Len(t, steps, 10)
	assert.Equal(t, 1, steps[0].Version)

	// The script is what an operator runs who does not trust a program with the schema.
	conn, err := pgx.Connect(t.Context(), server)
	require.NoError(t, err)
	defer func() { assert.NoError(t, conn.Close(t.Context())) }()
	_, err = conn.Exec(t.Context(), script.out)
	require.NoError(t, err)
	assert.Equal(t, "There was nothing to do.\n", migrate().out)
	assert.Equal(t, "-- There is nothing to do.\n", migrate("--dry-run").out)

	_, err = conn.Exec(t.Context(), "DROP SCHEMA "+schema+" CASCADE")
	require.NoError(t, err)
	taken := migrate()
	require.Zero(t, taken.code, taken.errOut)
	assert.Equal(t, "VERSION  STEP\n1        the tables of version 1\n2        the rate of a queue\n3        scopes with several holders\n4        limits of job types\n5        work that a transaction leaves\n6        the expired jobs of a queue\n7        the running jobs to be canceled\n8        claims that write no index\n9        jobs that become ready late\n10       room for claims, and vacuum without pauses\n", taken.out)

	_, err = conn.Exec(t.Context(), "INSERT INTO "+schema+".migrations (version) VALUES (99)")
	require.NoError(t, err)
	newer := migrate()
	assert.Equal(t, 1, newer.code)
	assert.Contains(t, newer.errOut, "the schema was written by a newer version of this library: it has version 99, and this one knows versions up to 10; update the program")
}

// A build of an index that takes longer than a request was undone each time.
func TestMigrateEndedAfterTheTimeoutOfARequest(t *testing.T) {
	server, schema := pgtest.URL(t), pgtest.Schema(t)
	conn, err := pgx.Connect(t.Context(), server)
	require.NoError(t, err)
	defer func() { assert.NoError(t, conn.Close(t.Context())) }()
	steps := func(more ...string) result {
		return run(t, nil, append([]string{"migrate", "--database", server, "--schema", schema}, more...)...)
	}
	assert.NotZero(t, steps("--timeout", "1ns").code)
	defer cli.SetDefaultTimeout(time.Nanosecond)()
	taken := steps()
	assert.Zero(t, taken.code, taken.errOut)
}

func TestMigrateRefusesBadInput(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		code int
		says string
	}{
		"no database":    {nil, 2, "which database? Set --database or AMBOY_DATABASE_URL"},
		"a bad URL":      {[]string{"--database", "postgres://me:secret@host:port/db"}, 1, "invalid URL: it must be a connection string such as postgres://"},
		"a bad schema":   {[]string{"--database", "postgres:///x", "--schema", "a b"}, 1, "Schema must have up to 50 letters, digits and underscores"},
		"an argument":    {[]string{"now"}, 2, "usage: amboy migrate"},
		"no such server": {[]string{"--database", "postgres:///x?host=" + t.TempDir()}, 1, "connecting: "},
	} {
		t.Run(name, func(t *testing.T) {
			got := run(t, nil, append([]string{"migrate"}, c.args...)...)
			assert.Equal(t, c.code, got.code)
			assert.Contains(t, got.errOut, c.says)
			assert.NotContains(t, got.errOut, "secret")
		})
	}
}
