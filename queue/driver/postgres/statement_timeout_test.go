package postgres_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/internal/pgtest"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/postgres"
)

// The server canceled a renewal that waited for one row before the driver gave that row up, so an open
// transaction kept all leases of a process from being renewed.
func TestAShortStatementTimeoutKeepsNoOtherLeasesFromBeingRenewed(t *testing.T) {
	pool, err := pgxpool.New(t.Context(), pgtest.URL(t))
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	d := open(t, postgres.Options{Pool: pool, Schema: pgtest.Schema(t)})
	insert(t.Context(), t, d, newRecord("blocked"), newRecord("other"))
	running := claim(t, d, 2)
	require.Len(t, running, 2)
	tx := beginTx(t)
	insert(postgres.WithTx(t.Context(), tx), t, d, dependent("dependent", "blocked"))
	leases := []driver.Lease{driver.LeaseOf(running[0]), driver.LeaseOf(running[1])}
	for _, conn := range pool.AcquireAllIdle(t.Context()) {
		_, err = conn.Exec(t.Context(), "SET statement_timeout = 800")
		require.NoError(t, err)
		conn.Release()
	}
	lost, err := d.Extend(patience(t), leases, time.Minute)
	var blocked *driver.BlockedLeasesError
	require.ErrorAs(t, err, &blocked)
	assert.Equal(t, leases[:1], blocked.Leases)
	assert.Empty(t, lost)

	errs, err := d.Release(patience(t), []driver.HandBack{{Lease: leases[1]}})
	require.NoError(t, err)
	require.ErrorIs(t, errs[0], driver.ErrBlocked, "the transaction has the lock of the queue")
}
