package postgres_test

import (
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/pgtest"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/postgres"
)

// The insert waited for the row of the dependency. When the next attempt took its place, the insert
// found no row.
func TestAJobWhoseDependencyIsRetriedMeanwhileIsNotRefused(t *testing.T) {
	opts := postgres.Options{URL: pgtest.URL(t), Schema: pgtest.Schema(t)}
	d, conn := open(t, opts), connect(t, opts.URL)
	insert(t.Context(), t, d, attemptOf("dependency", 0))
	running := claim(t, d, 1)[0]

	observer := connect(t, opts.URL)
	tx, err := conn.Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), "SELECT FROM "+opts.Schema+".jobs FOR UPDATE")
	require.NoError(t, err)
	retried, inserted := make(chan error, 1), make(chan error, 1)
	go func() {
		ended := *running
		ended.Status.Completed, ended.Status.InProgress = true, false
		errs, err := d.Complete(t.Context(), []driver.Completion{
			{Lease: driver.LeaseOf(running), Record: &ended, Next: attemptOf("dependency", 1)},
		})
		retried <- errors.Join(append(errs, err)...)
	}()
	awaitBlocked(t, observer, conn, 1)
	go func() {
		errs, err := d.Insert(t.Context(), []*driver.Record{dependent("dependent", "dependency")})
		inserted <- errors.Join(append(errs, err)...)
	}()
	awaitBlocked(t, observer, conn, 2)
	require.NoError(t, tx.Rollback(t.Context()))

	require.NoError(t, <-retried)
	require.NoError(t, <-inserted)
	assert.Equal(t, []string{"dependency"}, idsOf(claim(t, d, 10)), "the other waits for the next attempt")
}

func attemptOf(id string, attempt int) *driver.Record {
	r := newRecord(id)
	r.RetryInfo = amboy.JobRetryInfo{Retryable: true, BaseJobID: id, CurrentAttempt: attempt}
	r.Name = driver.RecordName(r.Group, id, r.RetryInfo)
	return r
}

// awaitBlocked waits until a number of connections wait behind one.
func awaitBlocked(t *testing.T, observer, behind *pgx.Conn, n int) {
	t.Helper()
	const blocked = `WITH RECURSIVE b (pid) AS (
		SELECT $1::integer UNION SELECT a.pid FROM b JOIN pg_stat_activity a ON b.pid = ANY(pg_blocking_pids(a.pid))
	) SELECT count(*) - 1 FROM b`
	require.Eventually(t, func() bool {
		var found int
		err := observer.QueryRow(t.Context(), blocked, int32(behind.PgConn().PID())).Scan(&found) //nolint:gosec // The server sends 32 bits.
		return assert.NoError(t, err) && found == n
	}, 10*time.Second, time.Millisecond)
}
