package postgres_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/internal/pgtest"
	"github.com/mongodb/amboy/queue/driver/postgres"
)

// While a snapshot is held, the index of due jobs keeps the entries of all that have been due. Each claim read
// them three times, and at 500 jobs a second fell behind within a minute.
func TestEachClaimReadWhatWasDueWhileASnapshotWasHeld(t *testing.T) {
	conn, schema := connect(t, pgtest.URL(t)), pgtest.Schema(t)
	opts := postgres.Options{URL: pgtest.URL(t) + "&application_name=" + schema, Schema: schema}
	d := open(t, opts)
	due := newRecord("due")
	due.TimeInfo.WaitUntil = time.Now().Add(time.Hour)
	insert(t.Context(), t, d, due)
	multiply(t, conn, schema, "due", *others)
	execute(t, conn, "UPDATE "+schema+".jobs SET due = due - 7200000000000")

	snapshot, err := connect(t, pgtest.URL(t)).BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	require.NoError(t, err)
	var held int
	require.NoError(t, snapshot.QueryRow(t.Context(), "SELECT count(*) FROM "+schema+".jobs").Scan(&held))
	require.Equal(t, *others+1, held)
	execute(t, conn, "UPDATE "+schema+".jobs SET due = NULL, place = 8, line = abs(line)")
	execute(t, conn, "UPDATE "+schema+".lines SET low = (SELECT last_value + 1 FROM "+schema+".arrivals)")
	before := tuplesRead(t, conn, d, schema, "jobs")

	d = open(t, opts)
	const claims = 100
	for i := range claims {
		id := fmt.Sprint("new ", i)
		insert(t.Context(), t, d, newRecord(id))
		require.Equal(t, []string{id}, idsOf(claim(t, d, 10)))
	}
	read := tuplesRead(t, conn, d, schema, "jobs") - before
	assert.Less(t, read, 10*(*others), "rows and index entries, in 100 claims")
	require.NoError(t, snapshot.Rollback(t.Context()))
}
