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

// A notification on a connection that a firewall had dropped waited until the system gave the
// connection up, after a quarter of an hour. All later notifications waited behind it.
func TestANotificationOnADeadConnectionIsSentAgain(t *testing.T) {
	deaf := &deafFor{}
	schema := pgtest.Schema(t)
	config, err := pgxpool.ParseConfig(pgtest.URL(t))
	require.NoError(t, err)
	config.ConnConfig.Tracer = deaf
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
	deaf.armed.Store(true)
	insert(t.Context(), t, producer, newRecord("job"))
	select {
	case <-told:
	case <-time.After(30 * time.Second):
		t.Fatal("it is not sent")
	}
	assert.False(t, deaf.armed.Load())
}
