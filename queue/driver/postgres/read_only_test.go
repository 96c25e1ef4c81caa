package postgres_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
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
	for n := 0; err == nil; n++ { // the driver may use a connection in the background, or replace one
		for _, conn := range pool.AcquireAllIdle(t.Context()) {
			_, err = conn.Exec(t.Context(), "SET default_transaction_read_only = on")
			require.NoError(t, err)
			conn.Release()
		}
		err = insertOne(t.Context(), d, fmt.Sprint("accepted ", n))
	}
	require.ErrorContains(t, err, "the server takes no writes")
	require.Eventually(t, func() bool { return insertOne(t.Context(), d, "job") == nil }, 10*time.Second, 10*time.Millisecond)
}
