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
	due := newRecord("gone")
	due.TimeInfo.WaitUntil = time.Now().Add(time.Hour)
	checkReadWhileASnapshotIsHeld(t, due, newRecord, []string{"due = due - 7200000000000", "due = NULL, place = 8, line = abs(line)"})
}

// While a snapshot is held, the index of expiry times keeps the entries of all jobs that started before theirs.
// Each claim read them.
func TestEachClaimReadTheExpiryTimesOfJobsThatHadStartedWhileASnapshotWasHeld(t *testing.T) {
	later := func(id string) *driver.Record { return expiringIn(id, 2*time.Hour) }
	checkReadWhileASnapshotIsHeld(t, expiringIn("gone", time.Hour), later, []string{"expires = NULL, place = 8"})
}

// checkReadWhileASnapshotIsHeld checks how much claims of new jobs read beside many copies of a record. The last of the
// changes of these makes them end while a snapshot is held; the others are made before.
func checkReadWhileASnapshotIsHeld(t *testing.T, gone *driver.Record, made func(id string) *driver.Record, changes []string, stay ...*driver.Record) {
	t.Helper()
	conn, schema := connect(t, pgtest.URL(t)), pgtest.Schema(t)
	opts := postgres.Options{URL: pgtest.URL(t) + "&application_name=" + schema, Schema: schema}
	d := open(t, opts)
	insert(t.Context(), t, d, gone)
	multiply(t, conn, schema, "gone", *others)
	last := len(changes) - 1
	for _, change := range changes[:last] {
		execute(t, conn, "UPDATE "+schema+".jobs SET "+change)
	}

	release := holdSnapshot(t, schema, *others+1)
	execute(t, conn, "UPDATE "+schema+".jobs SET "+changes[last])
	execute(t, conn, "UPDATE "+schema+".lines SET low = (SELECT last_value + 1 FROM "+schema+".arrivals)")
	insert(t.Context(), t, d, stay...)
	readBefore := tuplesRead(t, conn, d, schema, "jobs")

	d = open(t, opts)
	const claims = 100
	for i := range claims {
		id := fmt.Sprint("new ", i)
		insert(t.Context(), t, d, made(id))
		require.Equal(t, []string{id}, idsOf(claim(t, d, 10)))
		require.Empty(t, claim(t, d, 10))
	}
	read := tuplesRead(t, conn, d, schema, "jobs") - readBefore
	assert.Less(t, read, 10*(*others), "rows and index entries, in 100 claims")
	release()
}

// holdSnapshot opens a transaction that sees a number of jobs, until release ends it.
func holdSnapshot(t *testing.T, schema string, jobs int) (release func()) {
	t.Helper()
	snapshot, err := connect(t, pgtest.URL(t)).BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	require.NoError(t, err)
	var held int
	require.NoError(t, snapshot.QueryRow(t.Context(), "SELECT count(*) FROM "+schema+".jobs").Scan(&held))
	require.Equal(t, jobs, held)
	return func() { require.NoError(t, snapshot.Rollback(t.Context())) }
}

// A job was put that expires before others which had started. When it had started too, a claim that found no job read
// the expiry times of the others.
func TestClaimsThatFindNoJobReadTheExpiryTimesOfJobsThatHadStartedWhileASnapshotWasHeld(t *testing.T) {
	sooner := func(id string) *driver.Record { return expiringIn(id, time.Minute) }
	checkReadWhileASnapshotIsHeld(t, expiringIn("gone", time.Hour), sooner, []string{"expires = NULL, place = 8"})
}

// When a scheduled job is canceled, each claim read the times of all that were canceled before.
func TestEachClaimReadTheTimesOfCanceledJobsWhileASnapshotWasHeld(t *testing.T) {
	scheduled := newRecord("gone")
	scheduled.TimeInfo.WaitUntil = time.Now().Add(time.Hour)
	checkReadWhileASnapshotIsHeld(t, scheduled, newRecord, []string{"due = NULL, place = 10"})
}

// An expired job of a queue that no process serves stays. Each claim from another queue read the expiry times
// of all jobs that had started since its own.
func TestEachClaimReadWhatHadStartedSinceAJobOfAnAbandonedQueueExpiredWhileASnapshotWasHeld(t *testing.T) {
	abandoned := inQueue("abandoned", expiringIn("abandoned", -2*time.Hour))
	changes := []string{"expires = expires - 7200000000000", "expires = NULL, place = 8"}
	checkReadWhileASnapshotIsHeld(t, expiringIn("gone", time.Hour), newRecord, changes, abandoned)
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
