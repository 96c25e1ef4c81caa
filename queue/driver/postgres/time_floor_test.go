package postgres_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/internal/pgtest"
	"github.com/mongodb/amboy/queue/driver"
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

// While a snapshot is held, the index of expiry times keeps the entries of all jobs that started before theirs.
// Each claim read them.
func TestEachClaimReadTheExpiryTimesOfJobsThatHadStartedWhileASnapshotWasHeld(t *testing.T) {
	conn, schema := connect(t, pgtest.URL(t)), pgtest.Schema(t)
	opts := postgres.Options{URL: pgtest.URL(t) + "&application_name=" + schema, Schema: schema}
	d := open(t, opts)
	insert(t.Context(), t, d, expiringIn("started", time.Hour))
	multiply(t, conn, schema, "started", *others)

	snapshot, err := connect(t, pgtest.URL(t)).BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	require.NoError(t, err)
	var held int
	require.NoError(t, snapshot.QueryRow(t.Context(), "SELECT count(*) FROM "+schema+".jobs").Scan(&held))
	require.Equal(t, *others+1, held)
	execute(t, conn, "UPDATE "+schema+".jobs SET expires = NULL, place = 8")
	execute(t, conn, "UPDATE "+schema+".lines SET low = (SELECT last_value + 1 FROM "+schema+".arrivals)")
	before := tuplesRead(t, conn, d, schema, "jobs")

	d = open(t, opts)
	const claims = 100
	for i := range claims {
		id := fmt.Sprint("new ", i)
		insert(t.Context(), t, d, expiringIn(id, 2*time.Hour))
		require.Equal(t, []string{id}, idsOf(claim(t, d, 10)))
	}
	read := tuplesRead(t, conn, d, schema, "jobs") - before
	assert.Less(t, read, 10*(*others), "rows and index entries, in 100 claims")
	require.NoError(t, snapshot.Rollback(t.Context()))
}

// expiringIn returns a record that expires after a time.
func expiringIn(id string, d time.Duration) *driver.Record {
	r := newRecord(id)
	r.TimeInfo.DispatchBy = time.Now().Add(d)
	return r
}

func TestAJobOfAnotherProcessExpiresAtItsTime(t *testing.T) {
	opts := postgres.Options{URL: pgtest.URL(t), Schema: pgtest.Schema(t)}
	claims, inserts := open(t, opts), open(t, opts)
	insert(t.Context(), t, claims, newRecord("first"))
	require.Len(t, claim(t, claims, 1), 1)
	changed := make(chan driver.Change, 100)
	claims.Subscribe(func(c driver.Change) { changed <- c })

	expiring := expiringIn("expiring", time.Hour)
	expiring.TimeInfo.WaitUntil = time.Now().Add(2 * time.Hour)
	insert(t.Context(), t, inserts, expiring)
	<-changed
	next := claimIn(t, claims, time.Now(), "").Next
	assert.WithinDuration(t, expiring.TimeInfo.DispatchBy, next, time.Second)
	assert.Equal(t, []string{"expiring"}, idsOf(claimIn(t, claims, next, "").Records))
}

func TestAJobThatWasHandedBackExpiresAtItsTime(t *testing.T) {
	d := open(t, postgres.Options{URL: pgtest.URL(t), Schema: pgtest.Schema(t)})
	expiring := expiringIn("expiring", time.Hour)
	insert(t.Context(), t, d, expiring)
	claimed := claimIn(t, d, time.Now(), "")
	require.Equal(t, []string{"expiring"}, idsOf(claimed.Records))

	errs, err := d.Release(t.Context(), []driver.HandBack{{Lease: driver.LeaseOf(claimed.Records[0]), NotBefore: time.Now().Add(2 * time.Hour)}})
	require.NoError(t, err)
	require.NoError(t, errs[0])
	next := claimIn(t, d, time.Now(), "").Next
	assert.WithinDuration(t, expiring.TimeInfo.DispatchBy, next, time.Second)
	assert.Equal(t, []string{"expiring"}, idsOf(claimIn(t, d, next, "").Records))
}
