package postgres_test

import (
	"context"
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
	schema := pgtest.Schema(t)
	config, err := pgxpool.ParseConfig(pgtest.URL(t))
	require.NoError(t, err)
	config.ConnConfig.Tracer = tracer
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	producer := open(t, postgres.Options{Pool: pool, Schema: schema})
	consumer := open(t, postgres.Options{URL: pgtest.URL(t), Schema: schema})
	told := make(chan struct{}, 100)
	t.Cleanup(consumer.Subscribe(func(c driver.Change) {
		if c.MayClaim {
			told <- struct{}{}
		}
	}))
	armed.Store(true)
	insert(t.Context(), t, producer, newRecord("job"))
	select {
	case <-told:
	case <-time.After(30 * time.Second):
		t.Fatal("it is not sent")
	}
	assert.False(t, armed.Load())
}
