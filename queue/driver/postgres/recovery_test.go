package postgres_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/internal/pgtest"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/postgres"
)

// A recovery removed the log of all leases up to the last one that it had read, and with it the log of a
// lease that was taken earlier and committed meanwhile, as claims are after a server was suspended. The
// job of a dead process then ran for ever.
func TestALeaseThatIsCommittedDuringARecoveryIsRecoveredLater(t *testing.T) {
	d := open(t, postgres.Options{URL: pgtest.URL(t), Schema: pgtest.Schema(t)})
	late := beginTx(t)
	running := inQueue("late", newRecord("late"))
	running.Status.InProgress, running.Status.Owner, running.Status.ModificationCount = true, "dead", 1
	running.LeaseTime = time.Nanosecond
	insert(postgres.WithTx(t.Context(), late), t, d, running)

	insert(t.Context(), t, d, inQueue("early", newRecord("early")))
	claimed, err := d.Claim(t.Context(), driver.ClaimRequest{
		Owner: "dead", Queues: []driver.Demand{{Queue: "early", Limit: 1}}, Limit: 1, Now: time.Now(), LeaseTime: time.Nanosecond,
	})
	require.NoError(t, err)
	require.Len(t, claimed.Records, 1)

	// The recovery reads the leases, and waits for the lock of a queue.
	lock := beginTx(t)
	insert(postgres.WithTx(t.Context(), lock), t, d, inQueue("early", scoped("in it", 0, "scope")))
	recovered := make(chan struct{})
	go func() {
		defer close(recovered)
		_, failure := d.RecoverStale(patience(t))
		assert.NoError(t, failure)
	}()
	monitor := connect(t, pgtest.URL(t))
	require.Eventually(t, func() bool {
		var waiting bool
		failure := monitor.QueryRow(t.Context(), "SELECT EXISTS (SELECT 1 FROM pg_stat_activity WHERE wait_event = 'advisory')").Scan(&waiting)
		return failure == nil && waiting
	}, 10*time.Second, time.Millisecond)
	require.NoError(t, late.Commit(t.Context()))
	<-recovered
	require.NoError(t, lock.Rollback(t.Context()))

	_, err = d.RecoverStale(patience(t))
	require.NoError(t, err)
	for _, queue := range []string{"early", "late"} {
		assert.Equal(t, []string{queue}, idsOf(claimIn(t, d, time.Now(), queue).Records))
	}
}

// mostRows is the largest number of rows that a statement of a batch returned.
type mostRows struct {
	roundTrips
	rows atomic.Int64
}

func (m *mostRows) TraceBatchQuery(_ context.Context, _ *pgx.Conn, data pgx.TraceBatchQueryData) {
	if n := data.CommandTag.RowsAffected(); data.CommandTag.Select() && n > m.rows.Load() {
		m.rows.Store(n)
	}
}

// At 14,000 jobs a second, one statement looked up the jobs of five seconds. It took 0.7 s, and while its snapshot was
// held, no page could reclaim the space of jobs that had ended.
func TestARecoveryLookedUpTheJobsOfAllClaimsInOneStatement(t *testing.T) {
	const each, claims = 1000, 2
	read := &mostRows{}
	d := openWith(t, read)
	records := make([]*driver.Record, claims*each)
	for i := range records {
		records[i] = newRecord(fmt.Sprint(i))
	}
	insert(t.Context(), t, d, records...)
	for range claims {
		claimed, err := d.Claim(t.Context(), driver.ClaimRequest{
			Owner: "dead", Queues: []driver.Demand{{Limit: each}}, Limit: each, Now: time.Now(), LeaseTime: time.Nanosecond,
		})
		require.NoError(t, err)
		require.Len(t, claimed.Records, each)
	}

	read.rows.Store(0)
	recovered, err := d.RecoverStale(patience(t))
	require.NoError(t, err)
	assert.Equal(t, claims*each, recovered)
	assert.LessOrEqual(t, read.rows.Load(), int64(each))
}

// A renewal that was given up and repeated was executed after its repetition, and set the time of the renewal back.
func TestARenewalThatIsExecutedLateSetTheTimeBack(t *testing.T) {
	d, schema := openEmpty(t)
	insert(t.Context(), t, d, newRecord("job"))
	running := claim(t, d, 1)[0]
	repeated := time.Now().Add(time.Minute).Round(time.Millisecond)
	execute(t, connect(t, pgtest.URL(t)), fmt.Sprintf("UPDATE %s.jobs SET mod_time = %d", schema, repeated.UnixNano()))
	lost, err := d.Extend(t.Context(), []driver.Lease{driver.LeaseOf(running)}, time.Minute)
	require.NoError(t, err)
	require.Empty(t, lost)
	renewed, err := d.Get(t.Context(), "", "job")
	require.NoError(t, err)
	assert.True(t, repeated.Equal(renewed.Status.ModificationTime), renewed.Status.ModificationTime)
}
