package postgres_test

import (
	"context"
	"maps"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/internal/pgtest"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/postgres"
)

// deafFor keeps a notification waiting as long as a connection does whose peer is gone.
type deafFor struct {
	roundTrips
	armed atomic.Bool
}

func (d *deafFor) TraceQueryStart(ctx context.Context, conn *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	if strings.Contains(data.SQL, "pg_notify") && d.armed.CompareAndSwap(true, false) {
		<-ctx.Done()
	}
	return d.roundTrips.TraceQueryStart(ctx, conn, data)
}

// endsSession ends the session on which a notification is about to be sent.
type endsSession struct {
	roundTrips
	armed atomic.Bool
	end   func(session uint32)
}

func (e *endsSession) TraceQueryStart(ctx context.Context, conn *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	if strings.Contains(data.SQL, "pg_notify") && e.armed.CompareAndSwap(true, false) {
		e.end(conn.PgConn().PID())
	}
	return e.roundTrips.TraceQueryStart(ctx, conn, data)
}

// After an error that was no timeout, as when an operator ended the session, a pooler was restarted, or the server
// refused another connection, no other process was notified.
func TestANotificationWasLostAfterAnError(t *testing.T) {
	conn := connect(t, pgtest.URL(t))
	ends := &endsSession{end: func(session uint32) {
		if _, err := conn.Exec(t.Context(), "SELECT pg_terminate_backend($1)", session); !assert.NoError(t, err) {
			return
		}
		assert.Eventually(t, func() bool {
			var gone bool
			err := conn.QueryRow(t.Context(), "SELECT NOT EXISTS (SELECT 1 FROM pg_stat_activity WHERE pid = $1)", session).Scan(&gone)
			return err == nil && gone
		}, 10*time.Second, time.Millisecond)
	}}
	checkNotified(t, ends, &ends.armed)
}

// A notification on a connection that a firewall had dropped waited until the system gave the
// connection up, after a quarter of an hour. All later notifications waited behind it.
func TestANotificationOnADeadConnectionIsSentAgain(t *testing.T) {
	deaf := &deafFor{}
	checkNotified(t, deaf, &deaf.armed)
}

// checkNotified tests that a process is notified of a job that another one with a tracer puts while that is armed.
func checkNotified(t *testing.T, tracer pgx.QueryTracer, armed *atomic.Bool) {
	t.Helper()
	producer, other := openTwo(t, tracer, nil)
	told := subscribe(t, other)
	armed.Store(true)
	scoped := newRecord("job") // Its notification is sent after its insertion.
	scoped.RequiredScopes = []string{"scope"}
	insert(t.Context(), t, producer, scoped)
	awaitTold(t, told)
	assert.False(t, armed.Load())
}

// subscribe returns a channel that receives something for each change that makes jobs claimable.
func subscribe(t *testing.T, d *postgres.Driver) (told <-chan struct{}) {
	all := make(chan struct{}, 100)
	t.Cleanup(d.Subscribe(func(c driver.Change) {
		if c.MayClaim {
			all <- struct{}{}
		}
	}))
	return all
}

func awaitTold(t *testing.T, told <-chan struct{}) {
	t.Helper()
	select {
	case <-told:
	case <-time.After(30 * time.Second):
		t.Fatal("no notification was sent")
	}
}

// notifications counts the notifications that a driver sends in batches and alone.
type notifications struct {
	roundTrips
	inBatches, alone atomic.Int64
}

func (n *notifications) TraceQueryStart(ctx context.Context, conn *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	if strings.Contains(data.SQL, "pg_notify") {
		n.alone.Add(1)
	}
	return n.roundTrips.TraceQueryStart(ctx, conn, data)
}

func (n *notifications) TraceBatchStart(ctx context.Context, conn *pgx.Conn, data pgx.TraceBatchStartData) context.Context {
	for _, q := range data.Batch.QueuedQueries {
		if strings.Contains(q.SQL, "pg_notify") {
			n.inBatches.Add(1)
		}
	}
	return n.roundTrips.TraceBatchStart(ctx, conn, data)
}

// openTwo opens two drivers of a store. The connections of the first have a tracer, and settings.
func openTwo(t *testing.T, tracer pgx.QueryTracer, settings map[string]string) (d, other *postgres.Driver) {
	t.Helper()
	schema := pgtest.Schema(t)
	config, err := pgxpool.ParseConfig(pgtest.URL(t))
	require.NoError(t, err)
	config.ConnConfig.Tracer = tracer
	maps.Copy(config.ConnConfig.RuntimeParams, settings)
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	return open(t, postgres.Options{Pool: pool, Schema: schema}), open(t, postgres.Options{URL: pgtest.URL(t), Schema: schema})
}

// The notification followed in another round trip, on another connection.
func TestAPutWasAnnouncedInASecondRoundTrip(t *testing.T) {
	sent := &notifications{}
	d, other := openTwo(t, sent, nil)
	told := subscribe(t, other)
	insert(t.Context(), t, d, newRecord("job"))
	awaitTold(t, told)
	require.NoError(t, d.Close(t.Context()))
	assert.EqualValues(t, 1, sent.inBatches.Load())
	assert.Zero(t, sent.alone.Load())
}

func TestAPutWhoseNotificationFailsIsStoredAndAnnouncedLater(t *testing.T) {
	conn, schema := connect(t, pgtest.URL(t)), pgtest.Schema(t)
	execute(t, conn, "CREATE SCHEMA "+schema)
	execute(t, conn, "CREATE SEQUENCE "+schema+".calls")
	execute(t, conn, "CREATE FUNCTION "+schema+`.pg_notify(channel text, payload text) RETURNS void LANGUAGE plpgsql AS $$ BEGIN
		IF nextval('`+schema+`.calls') = 1 THEN RAISE program_limit_exceeded; END IF;
		PERFORM pg_catalog.pg_notify(channel, payload); END $$`)
	sent := &notifications{}
	d, other := openTwo(t, sent, map[string]string{"search_path": schema + ", pg_catalog"})
	told := subscribe(t, other)
	insert(t.Context(), t, d, newRecord("job"))
	awaitTold(t, told)
	assert.EqualValues(t, 1, sent.alone.Load())
	assert.Equal(t, []string{"job"}, idsOf(claim(t, other, 2)))
}

// rollbacks receives something for each transaction that a driver rolls back.
type rollbacks struct {
	roundTrips
	all chan struct{}
}

func (r *rollbacks) TraceQueryStart(ctx context.Context, conn *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	if data.SQL == "ROLLBACK" {
		r.all <- struct{}{}
	}
	return r.roundTrips.TraceQueryStart(ctx, conn, data)
}

func TestAPutThatFailsBeforeItsNotificationIsRolledBack(t *testing.T) {
	sent := &rollbacks{all: make(chan struct{}, 10)}
	d, other := openTwo(t, sent, nil)
	insert(t.Context(), t, other, newRecord("makes the queue"))
	conn, observer := connect(t, pgtest.URL(t)), connect(t, pgtest.URL(t))
	tx, err := conn.Begin(t.Context())
	require.NoError(t, err)
	insert(postgres.WithTx(t.Context(), tx), t, other, newRecord("contended"))

	waiting := make(chan error, 1)
	go func() { waiting <- insertOne(t.Context(), d, "contended") }()
	awaitBlocked(t, observer, conn, 1)
	select {
	case <-sent.all: // after 100 ms it waits alone
	case <-time.After(10 * time.Second):
		t.Error("the transaction was not rolled back")
	}
	require.NoError(t, tx.Rollback(t.Context()))
	require.NoError(t, <-waiting)
	assert.Len(t, claim(t, d, 3), 2)
}
