package postgres_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/internal/pgtest"
	"github.com/mongodb/amboy/queue/driver/postgres"
)

// After a failover, the connections of the pool stayed with a server that takes no writes any more,
// for as long as the pool keeps connections, which is an hour.
func TestConnectionsToAServerThatTakesNoWritesAreReplaced(t *testing.T) {
	pool, err := pgxpool.New(t.Context(), pgtest.URL(t))
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	d := open(t, postgres.Options{Pool: pool, Schema: pgtest.Schema(t)})
	insert(t.Context(), t, d, newRecord("the first"))
	takeNoWrites(t, d, pool)
	require.Eventually(t, func() bool { return insertOne(t.Context(), d, "job") == nil }, 10*time.Second, 10*time.Millisecond)
}

// takeNoWrites makes the server refuse writes on the connections of a pool, and returns when one was refused.
func takeNoWrites(t *testing.T, d *postgres.Driver, pool *pgxpool.Pool) {
	t.Helper()
	var err error
	for n := 0; err == nil; n++ { // the driver may use a connection in the background, or replace one
		for _, conn := range pool.AcquireAllIdle(t.Context()) {
			_, err = conn.Exec(t.Context(), "SET default_transaction_read_only = on")
			require.NoError(t, err)
			conn.Release()
		}
		err = insertOne(t.Context(), d, fmt.Sprint("accepted ", n))
	}
	require.ErrorContains(t, err, "the server takes no writes")
}

// After a switchover to another server, a process listened on the old one, which lived on and took no writes, until
// the process was restarted. So it noticed the jobs of others only when it polled.
func TestAProcessListenedOnTheServerThatItHadLeft(t *testing.T) {
	old, err := pgtest.Start(pgtest.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, old.Stop()) })
	schema := pgtest.Schema(t)
	other := open(t, postgres.Options{URL: pgtest.URL(t), Schema: schema})

	config, err := pgxpool.ParseConfig(old.URL())
	require.NoError(t, err)
	newConfig, err := pgx.ParseConfig(pgtest.URL(t))
	require.NoError(t, err)
	var isSwitched atomic.Bool
	config.BeforeConnect = func(_ context.Context, c *pgx.ConnConfig) error { // as a name in DNS
		if isSwitched.Load() {
			c.Host, c.Port, c.User, c.Password, c.Database = newConfig.Host, newConfig.Port, newConfig.User, newConfig.Password, newConfig.Database
		}
		return nil
	}
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	d := open(t, postgres.Options{Pool: pool, Schema: schema})
	isSwitched.Store(true)
	takeNoWrites(t, d, pool)
	require.Eventually(t, func() bool { return insertOne(t.Context(), d, "job") == nil }, 10*time.Second, 10*time.Millisecond)
	told := subscribe(t, d)
	insert(t.Context(), t, other, newRecord("job of another process"))
	awaitTold(t, told)
}
