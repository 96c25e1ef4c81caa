package postgres_test

import (
	"context"
	"testing"
	"time"

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
