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

// claimIn claims a record of a queue, and those that have expired, within the time that the core gives a claim.
func claimIn(t *testing.T, d *postgres.Driver, now time.Time, queue string) driver.Claimed {
	t.Helper()
	return claimUpTo(t, d, now, queue, 1)
}

// claimUpTo is claimIn for several records.
func claimUpTo(t *testing.T, d *postgres.Driver, now time.Time, queue string, limit int) driver.Claimed {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	claimed, err := d.Claim(ctx, driver.ClaimRequest{
		Owner: "owner", Queues: []driver.Demand{{Queue: queue, Limit: limit}}, Limit: limit, Now: now, LeaseTime: time.Minute,
	})
	require.NoError(t, err)
	return claimed
}

// A claim found the expired jobs of a queue by a walk over all jobs, in the order of their arrival. With
// millions of finished jobs no claim from any queue ended in time.
func TestAnExpiredJobIsFoundWithoutAWalkOverFinishedJobs(t *testing.T) {
	conn := connect(t, pgtest.URL(t))
	schema := pgtest.Schema(t)
	opts := postgres.Options{URL: pgtest.URL(t) + "&application_name=" + schema, Schema: schema}
	d := open(t, opts)
	insert(t.Context(), t, d, newRecord("finished"))
	end(t.Context(), t, d, claim(t, d, 1)[0], "")
	preparing := connect(t, opts.URL)
	multiply(t, preparing, schema, "finished", *others)
	execute(t, preparing, "UPDATE "+schema+".lines SET low = (SELECT last_value + 1 FROM "+schema+".arrivals)")
	execute(t, preparing, "ANALYZE "+schema+".jobs")
	require.NoError(t, preparing.Close(t.Context())) // what it read is counted then
	expiring := newRecord("expired")
	expiring.TimeInfo.DispatchBy = time.Now().Add(time.Hour)
	insert(t.Context(), t, d, expiring)
	before := tuplesRead(t, conn, d, schema, "jobs")

	d = open(t, opts)
	claimed := claimIn(t, d, time.Now().Add(2*time.Hour), "")
	assert.Equal(t, []string{"expired"}, idsOf(claimed.Records))
	read := tuplesRead(t, conn, d, schema, "jobs") - before
	assert.Less(t, read, *others/10)
}

// Each claim read all expired jobs of queues whose processes are gone.
func TestExpiredJobsOfAnAbandonedQueueSlowedEveryClaim(t *testing.T) {
	const claims = 20
	conn := connect(t, pgtest.URL(t))
	schema := pgtest.Schema(t)
	opts := postgres.Options{URL: pgtest.URL(t) + "&application_name=" + schema, Schema: schema}
	d := open(t, opts)
	expiring := inQueue("abandoned", newRecord("expired"))
	expiring.TimeInfo.DispatchBy = time.Now().Add(time.Hour)
	insert(t.Context(), t, d, expiring)
	preparing := connect(t, opts.URL)
	multiply(t, preparing, schema, "expired", *others)
	require.NoError(t, preparing.Close(t.Context())) // what it read is counted then
	for i := range claims {
		r := newRecord(fmt.Sprint(i))
		r.Priority = i % 2 // a claim from a single line finds expired jobs in another way
		insert(t.Context(), t, d, r)
	}
	before := tuplesRead(t, conn, d, schema, "jobs")

	d = open(t, opts)
	for range claims {
		assert.Len(t, claimIn(t, d, time.Now().Add(2*time.Hour), "").Records, 1)
	}
	read := (tuplesRead(t, conn, d, schema, "jobs") - before) / claims
	assert.Less(t, read, 100)
}

// The time for expired jobs was over after the only one, so another claim followed at once.
func TestAClaimAskedForAnotherAlthoughItHadLeftNothing(t *testing.T) {
	conn := connect(t, pgtest.URL(t))
	schema := pgtest.Schema(t)
	d := open(t, postgres.Options{URL: pgtest.URL(t), Schema: schema})
	expiring := newRecord("expired")
	expiring.TimeInfo.DispatchBy = time.Now().Add(time.Hour)
	insert(t.Context(), t, d, expiring)
	execute(t, conn, fmt.Sprintf(`CREATE FUNCTION %[1]s.delay() RETURNS trigger LANGUAGE plpgsql AS
		'BEGIN PERFORM pg_sleep(0.1); RETURN NULL; END';
		CREATE TRIGGER delay AFTER UPDATE ON %[1]s.jobs FOR EACH STATEMENT EXECUTE FUNCTION %[1]s.delay()`, schema))

	claimed := claimIn(t, d, time.Now().Add(2*time.Hour), "")

	assert.Equal(t, []string{"expired"}, idsOf(claimed.Records))
	assert.Zero(t, claimed.Next)
}

// longest counts the statements of the longest transaction.
type longest struct {
	roundTrips
	current, most atomic.Int64
}

func (l *longest) TraceBatchStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceBatchStartData) context.Context {
	if begins(data) {
		l.current.Store(0)
	}
	n := l.current.Add(int64(len(data.Batch.QueuedQueries)))
	l.most.Store(max(n, l.most.Load()))
	return ctx
}

// A claim admitted a thousand due jobs one by one in one transaction, and took as many expired ones. Over
// a network this took longer than a claim may take, so it was rolled back each time, and no queue of the
// store got any jobs.
func TestManyDueAndExpiredJobsAreTakenInSmallTransactions(t *testing.T) {
	const jobs, most = 200, 16 * 10
	for _, kind := range []string{"due", "expired"} {
		t.Run(kind, func(t *testing.T) {
			l := &longest{}
			d := openWith(t, l)
			var all []*driver.Record
			for i := range jobs {
				r := scoped(fmt.Sprint(i), 0, fmt.Sprint("scope ", i))
				if kind == "due" {
					r.TimeInfo.WaitUntil = time.Now().Add(time.Hour)
				} else {
					r.TimeInfo.DispatchBy = time.Now().Add(time.Hour)
				}
				all = append(all, r)
			}
			insert(t.Context(), t, d, all...)
			l.most.Store(0)
			now := time.Now().Add(2 * time.Hour)
			for n := 0; n < jobs; {
				claimed := claimIn(t, d, now, "")
				n += len(claimed.Records)
				require.True(t, n == jobs || len(claimed.Records) > 0 || claimed.Next.Equal(now), "a claim goes on at once")
			}
			assert.LessOrEqual(t, l.most.Load(), int64(most))
		})
	}
}

// A claim makes the first thousand due jobs ready. While all of these were of a locked queue, no due job
// of another queue became ready.
func TestManyDueJobsOfALockedQueueKeepNoDueJobsOfOthersWaiting(t *testing.T) {
	const due = 1200
	now := time.Now().Add(2 * time.Hour)
	dueIn := func(queue string, r *driver.Record) *driver.Record {
		r.TimeInfo.WaitUntil = now.Add(-time.Hour)
		return inQueue(queue, r)
	}
	d, _ := openEmpty(t)
	var all []*driver.Record
	for i := range due {
		id := fmt.Sprint(i)
		all = append(all, dueIn("locked", scoped(id, 0, "scope of "+id)))
	}
	insert(t.Context(), t, d, all...)
	other := dueIn("other", newRecord("other"))
	other.TimeInfo.WaitUntil = now.Add(-time.Minute)
	insert(t.Context(), t, d, other)
	insert(postgres.WithTx(t.Context(), beginTx(t)), t, d, inQueue("locked", scoped("in it", 0, "scope")))
	assert.Equal(t, []string{"other"}, idsOf(claimIn(t, d, now, "other").Records))
}
