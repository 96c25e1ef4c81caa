package postgres_test

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/pgtest"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/postgres"
)

// beginAt begins a transaction with an isolation level, and makes its snapshot.
func beginAt(t *testing.T, level pgx.TxIsoLevel) pgx.Tx {
	t.Helper()
	tx, err := connect(t, pgtest.URL(t)).BeginTx(t.Context(), pgx.TxOptions{IsoLevel: level})
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), "SELECT txid_current()")
	require.NoError(t, err)
	return tx
}

// The transaction did not see the queue, which was added outside it, and the Put returned a duplicate job
// error.
func TestAPutInASerializableTransactionAddsAQueue(t *testing.T) {
	for _, level := range []pgx.TxIsoLevel{pgx.ReadCommitted, pgx.RepeatableRead, pgx.Serializable} {
		t.Run(string(level), func(t *testing.T) {
			d, _ := openEmpty(t)
			tx := beginAt(t, level)
			insert(postgres.WithTx(t.Context(), tx), t, d, newRecord("job"))
			require.NoError(t, tx.Commit(t.Context()))
			assert.Equal(t, []string{"job"}, idsOf(claim(t, d, 10)))
		})
	}
}

// The transaction did not see that the queue was drained, and its job was put after that.
func TestATransactionThatIsOlderThanADrainPutAJob(t *testing.T) {
	for _, level := range []pgx.TxIsoLevel{pgx.ReadCommitted, pgx.RepeatableRead, pgx.Serializable} {
		t.Run(string(level), func(t *testing.T) {
			d, _ := openEmpty(t)
			insert(t.Context(), t, d, newRecord("first"))
			tx := beginAt(t, level)
			_, err := d.Control(t.Context(), "", driver.ControlChange{Draining: new(true)})
			require.NoError(t, err)
			errs, err := d.Insert(postgres.WithTx(t.Context(), tx), []*driver.Record{newRecord("late"), inQueue("other", newRecord("another"))})
			require.NoError(t, err)
			require.ErrorIs(t, errs[0], amboy.ErrQueueDraining)
			require.NoError(t, errs[1])
			require.NoError(t, tx.Commit(t.Context()))
			assert.Equal(t, []string{"first"}, idsOf(claim(t, d, 10)))
		})
	}
}

// A transaction that reads an old snapshot does not see edges that were added since. The dependent waited
// for ever.
func TestASerializableTransactionEndsNoJobWithDependents(t *testing.T) {
	for _, level := range []pgx.TxIsoLevel{pgx.RepeatableRead, pgx.Serializable} {
		t.Run(string(level), func(t *testing.T) {
			d, _ := openEmpty(t)
			insert(t.Context(), t, d, newRecord("target"), dependent("early", "target"))
			target := claim(t, d, 1)[0]
			tx := beginAt(t, level)
			insert(t.Context(), t, d, dependent("late", "target"))
			lease := driver.LeaseOf(target)
			target.Status.Completed, target.Status.InProgress = true, false
			completions := []driver.Completion{{Lease: lease, Record: target}}
			_, err := d.Complete(postgres.WithTx(t.Context(), tx), completions)
			if err == nil {
				require.NoError(t, tx.Commit(t.Context()))
			} else {
				require.NoError(t, tx.Rollback(t.Context()))
				require.ErrorContains(t, err, "read committed")
				_, err = d.Complete(t.Context(), completions)
				require.NoError(t, err)
			}
			assert.Equal(t, []string{"early", "late"}, idsOf(claim(t, d, 10)))
		})
	}
}

// With such a default, each transaction of the driver read what was there before it had its locks. The floor of
// a line was raised above jobs, for instance.
func TestAServerWithAnotherDefaultIsolationIsRefused(t *testing.T) {
	_, err := postgres.Open(t.Context(), postgres.Options{
		URL: pgtest.URL(t) + "&default_transaction_isolation=repeatable%20read", Schema: pgtest.Schema(t),
	})
	require.ErrorContains(t, err, `default_transaction_isolation is "repeatable read"`)
}
