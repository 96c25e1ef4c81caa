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

// openBesideDue opens a driver that has claimed from the queue "", and puts jobs there that are due one microsecond
// after the other. A statement that makes one of them ready fails.
func openBesideDue(t *testing.T, n int) (d *postgres.Driver, due time.Time) {
	t.Helper()
	d, schema := openEmpty(t)
	execute(t, connect(t, pgtest.URL(t)), fmt.Sprintf(`
		CREATE FUNCTION %[1]s.refuse() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN RAISE 'it became ready'; END$$;
		CREATE TRIGGER refuse BEFORE UPDATE ON %[1]s.jobs FOR EACH ROW WHEN (OLD.place = 1 AND NEW.place = 4) EXECUTE FUNCTION %[1]s.refuse()`, schema))
	insert(t.Context(), t, d, newRecord("before"))
	require.Equal(t, []string{"before"}, idsOf(claim(t, d, 1)))
	due = time.Now().Add(time.Hour)
	records := make([]*driver.Record, n)
	for i := range records {
		records[i] = newRecord(fmt.Sprint("due ", i))
		records[i].TimeInfo.WaitUntil = due.Add(time.Duration(i) * time.Microsecond)
	}
	insert(t.Context(), t, d, records...)
	return d, due
}

// Due jobs were made ready before they were claimed, which wrote each of them once more, in all indexes.
func TestDueJobsAreTakenAsTheyAreIfNothingElseIsReady(t *testing.T) {
	d, due := openBesideDue(t, 5)
	now := due.Add(time.Minute)
	assert.Equal(t, []string{"due 0", "due 1"}, idsOf(claimUpTo(t, d, now, "", 2).Records))
	claimed := claimUpTo(t, d, now, "", 10)
	assert.Equal(t, []string{"due 2", "due 3", "due 4"}, idsOf(claimed.Records))
	assert.Zero(t, claimed.Next)

	stats, err := d.Stats(t.Context(), "")
	require.NoError(t, err)
	assert.Equal(t, 6, stats.Running)
	assert.Equal(t, 6, stats.Total)
}

func TestDueJobsAreTakenAsTheyAreBehindThoseThatAreReady(t *testing.T) {
	d, due := openBesideDue(t, 3)
	insert(t.Context(), t, d, newRecord("ready 0"), newRecord("ready 1"))
	now := due.Add(time.Millisecond)
	claimed := claimUpTo(t, d, now, "", 3)
	assert.Equal(t, []string{"ready 0", "ready 1", "due 0"}, idsOf(claimed.Records))
	assert.Equal(t, due.Add(time.Second).UnixNano(), claimed.Next.UnixNano(), "Next is when due 1 and due 2 become ready")
	assert.Equal(t, []string{"due 1", "due 2"}, idsOf(claimUpTo(t, d, now, "", 3).Records))
}

func TestDueJobsBecomeReadyWithinASecondWhileNoWorkerIsFree(t *testing.T) {
	d, schema := openEmpty(t)
	insert(t.Context(), t, d, newRecord("before"))
	require.Equal(t, []string{"before"}, idsOf(claim(t, d, 1)))
	due := newRecord("due")
	due.TimeInfo.WaitUntil = time.Now().Add(time.Hour)
	insert(t.Context(), t, d, due)

	claimed := claimUpTo(t, d, due.TimeInfo.WaitUntil, "", 0)
	assert.Empty(t, claimed.Records)
	claimUpTo(t, d, claimed.Next, "", 0)
	var place int
	require.NoError(t, connect(t, pgtest.URL(t)).QueryRow(t.Context(), "SELECT place FROM "+schema+".jobs WHERE job_id = 'due'").Scan(&place))
	assert.Equal(t, 4, place)
	assert.LessOrEqual(t, claimed.Next.Sub(due.TimeInfo.WaitUntil), time.Second)
}

// While another process makes due jobs ready, they are neither due nor ready for a claim. It asked for no
// other claim, so jobs for which the other process had no worker waited for a poll.
func TestDueJobsThatAnotherProcessMadeReadyWaitedForAPoll(t *testing.T) {
	t.Run("with two lines", func(t *testing.T) { checkClaimsBesidePromotion(t, 1) })
	t.Run("with one line, of which a part is left", func(t *testing.T) { checkClaimsBesidePromotion(t, 0) })
}

// checkClaimsBesidePromotion checks claims of due jobs, of which another process is making one ready.
func checkClaimsBesidePromotion(t *testing.T, priority int) {
	t.Helper()
	d, schema := openEmpty(t)
	insert(t.Context(), t, d, newRecord("before"))
	require.Equal(t, []string{"before"}, idsOf(claim(t, d, 1)))
	at := time.Now().Add(time.Hour)
	for i := range 2 {
		due := newRecord(fmt.Sprint("due ", i))
		due.Priority, due.TimeInfo.WaitUntil = i*priority, at
		insert(t.Context(), t, d, due)
	}
	other, err := connect(t, pgtest.URL(t)).Begin(t.Context())
	require.NoError(t, err)
	_, err = other.Exec(t.Context(), "UPDATE "+schema+".jobs SET place = 4, due = NULL, line = abs(line) WHERE job_id = 'due 0'")
	require.NoError(t, err)
	claimed := claimUpTo(t, d, at, "", 10)
	assert.Equal(t, []string{"due 1"}, idsOf(claimed.Records))
	require.False(t, claimed.Next.IsZero(), "it asks for another claim")
	assert.LessOrEqual(t, claimed.Next.Sub(at), time.Second)
	require.NoError(t, other.Commit(t.Context()))
	assert.Equal(t, []string{"due 0"}, idsOf(claimUpTo(t, d, claimed.Next, "", 10).Records))
}
