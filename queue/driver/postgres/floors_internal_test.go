package postgres

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/pgtest"
	"github.com/mongodb/amboy/queue/driver"
)

// The tallies of so many queues, added up, are as many rows as one statement adds up.
func TestAddingUpTheTalliesOfManyQueuesEnds(t *testing.T) {
	schema := pgtest.Schema(t)
	d, err := Open(t.Context(), Options{URL: pgtest.URL(t), Schema: schema})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, d.Close(context.Background())) })
	const queues, rounds = talliesAtOnce + 500, 2
	records := make([]*driver.Record, queues)
	for n := range records {
		queue := fmt.Sprint("tenant ", n)
		records[n] = &driver.Record{Name: driver.RecordName(queue, "job", amboy.JobRetryInfo{}), Group: queue, Type: "type"}
	}
	errs, err := d.Insert(t.Context(), records)
	require.NoError(t, errors.Join(append(errs, err)...))
	d.floors.all.Wait()
	_, err = d.pool.Exec(t.Context(), fmt.Sprintf("INSERT INTO %[1]s.tallies SELECT * FROM %[1]s.tallies", schema)) // of another process
	require.NoError(t, err)
	rows := func() (n int) {
		require.NoError(t, d.pool.QueryRow(t.Context(), "SELECT count(*) FROM "+schema+".tallies").Scan(&n))
		return n
	}
	require.Equal(t, rounds*queues, rows())
	defer time.AfterFunc(15*time.Second, d.floors.stop).Stop()
	for range 3 { // statements: the last one covers the rows that the first two have not
		require.NoError(t, d.floors.foldLeft())
	}
	assert.Equal(t, queues, rows())
	totals, err := d.SumQueues(t.Context(), 0)
	require.NoError(t, err)
	assert.Equal(t, rounds*queues, totals.Stats.Pending)
}

// Each recovery of each process wrote the tallies of all idle queues again.
func TestTheTalliesOfIdleQueuesWereWrittenAgainAndAgain(t *testing.T) {
	schema := pgtest.Schema(t)
	d, err := Open(t.Context(), Options{URL: pgtest.URL(t), Schema: schema})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, d.Close(context.Background())) })
	const queues, rounds = 100, 2
	for round := range rounds {
		var records []*driver.Record
		for n := range queues {
			queue := fmt.Sprint("tenant ", n)
			records = append(records, &driver.Record{Name: driver.RecordName(queue, fmt.Sprint(round), amboy.JobRetryInfo{}), Group: queue, Type: "type"})
		}
		errs, bad := d.Insert(t.Context(), records)
		require.NoError(t, errors.Join(append(errs, bad)...))
	}
	recovered := func() (rows []string) {
		_, err := d.RecoverStale(t.Context())
		require.NoError(t, err)
		d.floors.all.Wait()
		require.NoError(t, d.pool.QueryRow(t.Context(), "SELECT array_agg(format('%s %s', ctid, xmin) ORDER BY ctid) FROM "+schema+".tallies").Scan(&rows))
		return rows
	}
	before := recovered()
	require.Len(t, before, queues)
	assert.Equal(t, before, recovered())
}

// The tallies of a busy queue were added up only after those of all idle ones.
func TestManyIdleQueuesKeptTheTalliesOfABusyOneFromBeingAddedUp(t *testing.T) {
	schema := pgtest.Schema(t)
	d, err := Open(t.Context(), Options{URL: pgtest.URL(t), Schema: schema})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, d.Close(context.Background())) })
	const idle, busy = 2 * talliesAtOnce, 1000
	_, err = d.pool.Exec(t.Context(), fmt.Sprintf(`INSERT INTO %[1]s.queues (name) SELECT 'idle ' || n FROM generate_series(1, %[2]d) AS n;
		INSERT INTO %[1]s.tallies (queue, now, n) SELECT id, 8, 1 FROM %[1]s.queues;
		INSERT INTO %[1]s.queues (name) VALUES ('busy');
		INSERT INTO %[1]s.tallies (queue, now, n) SELECT id, 8, 1 FROM %[1]s.queues, generate_series(1, %[3]d) WHERE name = 'busy'`, schema, idle, busy))
	require.NoError(t, err)
	d.floors.mu.Lock()
	d.floors.tallies = manyTallies - 1
	d.floors.mu.Unlock()
	errs, err := d.Insert(t.Context(), []*driver.Record{{Name: driver.RecordName("busy", "job", amboy.JobRetryInfo{}), Group: "busy", Type: "type"}})
	require.NoError(t, errors.Join(append(errs, err)...))
	d.floors.all.Wait()

	var rows int
	require.NoError(t, d.pool.QueryRow(t.Context(), fmt.Sprintf("SELECT count(*) FROM %[1]s.tallies t JOIN %[1]s.queues q ON q.id = t.queue WHERE name = 'busy'", schema)).Scan(&rows))
	assert.Equal(t, 2, rows)
	stats, err := d.Stats(t.Context(), "busy")
	require.NoError(t, err)
	assert.Equal(t, busy, stats.Completed)
	assert.Equal(t, busy+1, stats.Total)
}

// A line with few jobs kept its floor for its last 256 jobs, so that each claim read half of them.
func TestClaimsOfAQuietLineReadItsLastHundredsOfJobs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r raises
		assert.True(t, r.isDue(fewPassed))
		assert.False(t, r.isDue(fewPassed-1))
		r = r.follow(false)
		time.Sleep(raiseInterval)
		assert.False(t, r.isDue(fewPassed), "each raise may leave a dead row")
		assert.True(t, r.isDue(manyPassed))
		time.Sleep(quietInterval)
		assert.True(t, r.isDue(fewPassed))
	})
}
