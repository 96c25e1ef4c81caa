package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
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

// roundTrips counts what is sent to the server, and which of that begins a transaction.
type roundTrips struct {
	atomic.Int64
	begins atomic.Int64
}

func (n *roundTrips) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	n.Add(1)
	if strings.HasPrefix(data.SQL, "BEGIN") {
		n.begins.Add(1)
	}
	return ctx
}

func (*roundTrips) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

func (n *roundTrips) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	n.Add(1)
	return ctx
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

// Changes of one record after the other took a round trip for each statement, under the lock of the queue.
func TestChangesUnderTheLockOfAQueueTookARoundTripForEachStatement(t *testing.T) {
	const jobs = 10
	d, sent := openTraced(t)
	var records []*driver.Record
	for i := range jobs {
		records = append(records, scoped(fmt.Sprint(i), 0, fmt.Sprint("scope ", i)))
	}
	insert(t.Context(), t, d, records...)
	before := sent.Load()
	claimed := claim(t, d, jobs)
	require.Len(t, claimed, jobs)
	assert.LessOrEqual(t, sent.Load()-before, int64(6), "of a claim")

	var completions []driver.Completion
	for _, r := range claimed {
		r.Status.Completed = true
		completions = append(completions, driver.Completion{Lease: driver.LeaseOf(r), Record: r})
	}
	before = sent.Load()
	errs, err := d.Complete(t.Context(), completions)
	require.NoError(t, errors.Join(append(errs, err)...))
	assert.LessOrEqual(t, sent.Load()-before, int64(2*jobs+5), "of the ends")
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
