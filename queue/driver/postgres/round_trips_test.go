package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/pgtest"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/postgres"
)

// roundTrips counts what is sent to the server, which of that begins a transaction, and the statements that share round
// trips.
type roundTrips struct {
	atomic.Int64
	begins, statements atomic.Int64
}

func (n *roundTrips) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	n.Add(1)
	return ctx
}

func (*roundTrips) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

func (n *roundTrips) TraceBatchStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceBatchStartData) context.Context {
	n.Add(1)
	n.statements.Add(int64(len(data.Batch.QueuedQueries)))
	if begins(data) {
		n.begins.Add(1)
	}
	return ctx
}

// begins reports whether a batch begins a transaction.
func begins(data pgx.TraceBatchStartData) bool { return data.Batch.QueuedQueries[0].SQL == "BEGIN" }

// commits reports whether a batch ends a transaction.
func commits(data pgx.TraceBatchStartData) bool {
	all := data.Batch.QueuedQueries
	return all[len(all)-1].SQL == "COMMIT"
}

func (*roundTrips) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}

func (*roundTrips) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData) {}

// openTraced opens a driver and counts what it sends.
func openTraced(t *testing.T) (d *postgres.Driver, sent *roundTrips) {
	t.Helper()
	sent = &roundTrips{}
	return openWith(t, sent), sent
}

func openWith(t *testing.T, tracer pgx.QueryTracer) *postgres.Driver {
	t.Helper()
	config, err := pgxpool.ParseConfig(pgtest.URL(t))
	require.NoError(t, err)
	config.ConnConfig.Tracer = tracer
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	return open(t, postgres.Options{Pool: pool, Schema: pgtest.Schema(t), PollOnly: true})
}

func TestInsertOfManyRecordsWithScopesIsSpreadOverTransactions(t *testing.T) {
	const records, most = 100, 32
	d, sent := openTraced(t)
	var all []*driver.Record
	for i := range records {
		all = append(all, scoped(fmt.Sprint(i), 0, "scope"))
	}
	before := sent.begins.Load()
	insert(t.Context(), t, d, all...)
	assert.GreaterOrEqual(t, sent.begins.Load()-before, int64(records/most))
	assert.Equal(t, []string{"0"}, idsOf(claim(t, d, records)))
}

func TestAClaimOfARatedQueueTakesTwoRoundTrips(t *testing.T) {
	d, sent := openTraced(t)
	_, err := d.Control(t.Context(), "", driver.ControlChange{Rate: &amboy.Rate{PerSecond: 1, Burst: 5}})
	require.NoError(t, err)
	var records []*driver.Record
	for i := range 10 {
		records = append(records, newRecord(fmt.Sprint(i)))
	}
	insert(t.Context(), t, d, records...)

	before := sent.Load()
	claimed, err := d.Claim(t.Context(), driver.ClaimRequest{
		Owner: "owner", Queues: []driver.Demand{{Limit: 10}}, Limit: 10, Now: time.Now(), LeaseTime: time.Minute,
	})
	require.NoError(t, err)
	assert.Len(t, claimed.Records, 1, "a new bucket has one token")
	assert.Len(t, claimed.Waits, 1)
	assert.LessOrEqual(t, sent.Load()-before, int64(2))
}

// A claim read the times before and after it had found what is ready.
func TestAClaimOfAGroupTookFourRoundTrips(t *testing.T) {
	d, sent := openTraced(t)
	var demands []driver.Demand
	for _, queue := range []string{"a", "b", "c"} {
		insert(t.Context(), t, d, inQueue(queue, newRecord("first")), inQueue(queue, newRecord("second")))
		demands = append(demands, driver.Demand{Queue: queue, Limit: 1})
	}
	for _, want := range []struct {
		records    int
		roundTrips int64
	}{{3, 2}, {3, 2}, {0, 1}} {
		before := sent.Load()
		claimed, err := d.Claim(t.Context(), driver.ClaimRequest{Owner: "owner", Queues: demands, Limit: 10, Now: time.Now(), LeaseTime: time.Minute})
		require.NoError(t, err)
		assert.Len(t, claimed.Records, want.records)
		assert.Equal(t, want.roundTrips, sent.Load()-before)
	}
}

// Each change of a job with scopes took some ten round trips under the lock of its queue: for its statements, for each state of
// a scope that it read, and to begin and end the transaction.
func TestChangesUnderTheLockOfAQueueTookTenRoundTripsForEachJob(t *testing.T) {
	const jobs = 8 // so few that no floor is raised, which takes a round trip
	for name, test := range map[string]struct {
		scope func(i int) string
		// claimed is the number of jobs that may run at once.
		claimed int
	}{
		"a scope of each job": {func(i int) string { return fmt.Sprint("scope ", i) }, jobs},
		"one scope":           {func(int) string { return "scope" }, 1},
		"a limited scope":     {func(int) string { return amboy.LimitScope("scope", 4) }, 4},
	} {
		t.Run(name, func(t *testing.T) {
			d, sent := openTraced(t)
			insert(t.Context(), t, d, scoped("first", 0, test.scope(0))) // the line exists
			first := claim(t, d, 1)
			require.Len(t, first, 1)
			took := func(change string, roundTrips, statements int64, do func()) {
				t.Helper()
				sent.Store(0)
				sent.statements.Store(0)
				do()
				assert.LessOrEqual(t, sent.Load(), roundTrips, change)
				assert.LessOrEqual(t, sent.statements.Load(), statements, change)
			}
			end := func(claimed []*driver.Record) {
				var completions []driver.Completion
				for _, r := range claimed {
					lease := driver.LeaseOf(r)
					r.Status.Completed, r.Status.InProgress = true, false
					completions = append(completions, driver.Completion{Lease: lease, Record: r})
				}
				errs, err := d.Complete(t.Context(), completions)
				require.NoError(t, errors.Join(append(errs, err)...))
			}

			var records []*driver.Record
			for i := range jobs {
				records = append(records, scoped(fmt.Sprint(i), 0, test.scope(i)))
			}
			took("a put of all", 2, 12, func() { insert(t.Context(), t, d, records...) })
			took("the end that frees a scope", 2, 12, func() { end(first) })
			for ended := 0; ended < jobs; {
				var claimed []*driver.Record
				took("a claim", 4, 14, func() { claimed = claim(t, d, jobs) })
				require.Len(t, claimed, min(test.claimed, jobs-ended))
				took("the ends", 2, 12+2*int64(len(claimed)), func() { end(claimed) })
				ended += len(claimed)
			}
		})
	}
}

// A Put in the caller's transaction took a round trip for each of its four statements.
func TestAPutInATransactionTookFourRoundTrips(t *testing.T) {
	d := open(t, postgres.Options{URL: pgtest.URL(t), Schema: pgtest.Schema(t)})
	insert(t.Context(), t, d, newRecord("first")) // its queue exists
	config, err := pgx.ParseConfig(pgtest.URL(t))
	require.NoError(t, err)
	var sent roundTrips
	config.Tracer = &sent
	conn, err := pgx.ConnectConfig(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, conn.Close(context.Background())) })
	tx, err := conn.Begin(t.Context())
	require.NoError(t, err)
	before := sent.Load()
	insert(postgres.WithTx(t.Context(), tx), t, d, newRecord("second"))
	assert.Equal(t, int64(2), sent.Load()-before)
	require.NoError(t, tx.Commit(t.Context()))
	assert.Len(t, claim(t, d, 10), 2)
}

// A claim of one job counted the running jobs of each of its queues that has a limit, one after the other.
func TestAClaimBesideManyLimitedQueuesTakesFewRoundTrips(t *testing.T) {
	for name, limit := range map[string]driver.ControlChange{
		"all jobs": {MaxRunning: new(5)},
		"a type":   {Type: &driver.TypeChange{Type: newRecord("").Type, Limit: amboy.TypeLimit{MaxRunning: 5}}},
	} {
		t.Run(name, func(t *testing.T) {
			d, sent := openTraced(t)
			req := driver.ClaimRequest{Owner: "owner", Limit: 1, Now: time.Now(), LeaseTime: time.Minute}
			for i := range 16 {
				queue := fmt.Sprint("queue", i)
				_, err := d.Control(t.Context(), queue, limit)
				require.NoError(t, err)
				insert(t.Context(), t, d, inQueue(queue, newRecord("job")))
				req.Queues = append(req.Queues, driver.Demand{Queue: queue, Limit: 1})
			}
			before := sent.Load()
			claimed, err := d.Claim(t.Context(), req)
			require.NoError(t, err)
			assert.Len(t, claimed.Records, 1)
			assert.LessOrEqual(t, sent.Load()-before, int64(10))
		})
	}
}
