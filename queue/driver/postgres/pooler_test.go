package postgres_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/internal/pgtest"
	"github.com/mongodb/amboy/queue/driver/postgres"
)

// A pooler in transaction mode that lets prepared statements pass, as PgBouncer does since version 1.21, or whose client
// needs none, accepts LISTEN. Jobs of other processes were then noticed half a minute late.
func TestAPoolerInTransactionModeSeemedToNotify(t *testing.T) {
	opts := postgres.Options{URL: pgtest.PoolerURL(t) + "&default_query_exec_mode=cache_describe", Schema: pgtest.Schema(t)}
	d, err := postgres.Open(t.Context(), opts)
	if err == nil {
		require.NoError(t, d.Close(t.Context()))
	}
	require.ErrorContains(t, err, "Options.PollOnly")
}
