package postgres

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/pgtest"
	"github.com/mongodb/amboy/queue/driver"
)

// The tallies of so many queues, added up, are as many rows as one statement adds up.
func TestAddingUpTheTalliesOfManyQueuesEnds(t *testing.T) {
	d, err := Open(t.Context(), Options{URL: pgtest.URL(t), Schema: "many_tallies"})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, d.Close(context.Background())) })
	const queues, rounds = talliesAtOnce + 500, 2
	for round := range rounds {
		records := make([]*driver.Record, queues)
		for n := range records {
			queue := fmt.Sprint("tenant ", n)
			records[n] = &driver.Record{Name: driver.RecordName(queue, fmt.Sprint(round), amboy.JobRetryInfo{}), Group: queue, Type: "type"}
		}
		errs, bad := d.Insert(t.Context(), records)
		require.NoError(t, errors.Join(append(errs, bad)...))
	}
	rows := func() (n int) {
		require.NoError(t, d.pool.QueryRow(t.Context(), "SELECT count(*) FROM many_tallies.tallies").Scan(&n))
		return n
	}
	require.Equal(t, rounds*queues, rows())
	defer time.AfterFunc(15*time.Second, d.floors.stop).Stop()
	for range 3 { // statements: the last one covers the rows that the first two have not
		require.NoError(t, d.floors.fold())
	}
	assert.Equal(t, queues, rows())
	totals, err := d.SumQueues(t.Context(), 0)
	require.NoError(t, err)
	assert.Equal(t, rounds*queues, totals.Stats.Pending)
}
