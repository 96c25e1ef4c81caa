package rivertest_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/internal/pgtest"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/riverjob"
)

// After a failover, the connections of the pool stayed with a server that takes no writes any more, for as long as the
// pool keeps connections, which is an hour.
func TestConnectionsToAServerThatTakesNoWritesAreReplaced(t *testing.T) {
	w := newWorld(t)
	pool := poolWith(w, func(c *pgxpool.Config) { c.MaxConns = 1 })
	d := w.open(func(o *riverjob.Options) { o.Pool = pool })
	w.insert(pythonJob{kind: "x"})
	_, err := pool.Exec(w.ctx, "SET default_transaction_read_only = on")
	require.NoError(t, err)
	claim := func() error {
		_, err := d.Claim(w.ctx, driver.ClaimRequest{
			Owner: "me", Queues: []driver.Demand{{Queue: "default", Limit: 1}}, Limit: 1, Now: time.Now(), LeaseTime: time.Minute,
		})
		return err
	}
	require.ErrorContains(t, claim(), "the server takes no writes")
	w.eventually("a connection that takes writes is used", func() bool { return claim() == nil })
}

func TestAServerThatCanNotBeUsedIsRefused(t *testing.T) {
	w := newWorld(t)
	fakes := pgtest.Schema(t)
	w.exec("CREATE SCHEMA " + fakes + "; CREATE FUNCTION " + fakes + `.current_setting(name text) RETURNS text LANGUAGE sql AS
		$$ SELECT CASE name WHEN 'server_version_num' THEN '120022' ELSE pg_catalog.current_setting(name) END $$`)
	for want, setting := range map[string]string{
		"PostgreSQL 13 or newer is needed":                "&search_path=" + fakes + ",pg_catalog",
		`default_transaction_isolation is "serializable"`: "&default_transaction_isolation=serializable",
	} {
		_, err := riverjob.Open(w.ctx, riverjob.Options{URL: pgtest.URL(t) + setting, Schema: w.schema, Queues: []string{"default"}})
		require.ErrorContains(t, err, want)
	}
}
