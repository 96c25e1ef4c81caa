package postgres

import (
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/internal/pgtest"
	"github.com/mongodb/amboy/queue/driver"
)

// An hour is too long for a test.
func TestExamineFindsTransactionsByTheirAge(t *testing.T) {
	d, err := Open(t.Context(), Options{Pool: pgtest.Pool(t), Schema: pgtest.EmptySchema(t)})
	require.NoError(t, err)
	defer func() { assert.NoError(t, d.Close(t.Context())) }()
	conn, err := pgx.Connect(t.Context(), pgtest.URL(t))
	require.NoError(t, err)
	defer func() { assert.NoError(t, conn.Close(t.Context())) }()
	tx, err := conn.Begin(t.Context())
	require.NoError(t, err)
	var pid string
	require.NoError(t, tx.QueryRow(t.Context(), "SELECT 'process ' || pg_backend_pid() || ' of the server'").Scan(&pid))
	// The transactions of other tests may be found too.
	found := func(old time.Duration) bool {
		condition, failure := d.examine(t.Context(), old)
		require.NoError(t, failure)
		return slices.ContainsFunc(condition.Defects, func(defect driver.Defect) bool {
			return defect.Kind == driver.OldTransaction && defect.Name == pid && defect.Command != ""
		})
	}
	assert.True(t, found(0))
	assert.False(t, found(time.Hour))
	require.NoError(t, tx.Rollback(t.Context()))
	assert.False(t, found(0))
}
