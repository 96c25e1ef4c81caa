package postgres_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/internal/pgtest"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/postgres"
)

// All queues share a few locks for inserts. To drain a queue takes one of them alone, and waited for an open
// transaction that had put a job, with the Puts into all queues of the lock behind it.
func TestDrainingAQueueBesideAnOpenTransactionKeepsNoPutsOfOthersWaiting(t *testing.T) {
	d, _ := openEmpty(t)
	for i := range 64 { // more than there are locks
		insert(t.Context(), t, d, inQueue(fmt.Sprint("queue ", i), newRecord("first")))
	}
	tx := beginTx(t)
	insert(postgres.WithTx(t.Context(), tx), t, d, inQueue("queue 0", newRecord("in it")))
	drained := make(chan error, 1)
	go func() {
		_, err := d.Control(patience(t), "queue 0", driver.ControlChange{Draining: new(true)})
		drained <- err
	}()
	monitor := connect(t, pgtest.URL(t))
	require.Eventually(t, func() bool {
		var waiting bool
		err := monitor.QueryRow(t.Context(), "SELECT EXISTS (SELECT 1 FROM pg_stat_activity WHERE wait_event = 'advisory')").Scan(&waiting)
		return err == nil && waiting
	}, 10*time.Second, time.Millisecond)
	for i := range 64 {
		errs, err := d.Insert(patience(t), []*driver.Record{inQueue(fmt.Sprint("queue ", i), newRecord("second"))})
		require.NoError(t, err, i)
		require.NoError(t, errs[0], i)
	}
	require.NoError(t, tx.Commit(t.Context()))
	require.NoError(t, <-drained)
	errs, err := d.Insert(t.Context(), []*driver.Record{inQueue("queue 0", newRecord("third"))})
	require.NoError(t, err)
	assert.Error(t, errs[0])
}
