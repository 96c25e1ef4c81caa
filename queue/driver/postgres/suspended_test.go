package postgres_test

import (
	"context"
	"errors"
	"sync"
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

// suspending stops a driver once, between the statements of a transaction.
type suspending struct {
	roundTrips
	armed  atomic.Bool
	begun  chan struct{}
	resume chan struct{}
}

func (s *suspending) TraceBatchStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceBatchStartData) context.Context {
	if commits(data) && !begins(data) && s.armed.CompareAndSwap(true, false) {
		close(s.begun)
		<-s.resume
	}
	return ctx
}

// A process that was suspended in a transaction, or whose host lost its network, held the lock of a queue
// until the server noticed that the connection was gone: for hours, or for ever.
func TestAProcessThatIsSuspendedInATransactionKeepsItsQueueWaitingForSeconds(t *testing.T) {
	schema := pgtest.Schema(t)
	config, err := pgxpool.ParseConfig(pgtest.URL(t))
	require.NoError(t, err)
	s := &suspending{begun: make(chan struct{}), resume: make(chan struct{})}
	config.ConnConfig.Tracer = s
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	suspended := open(t, postgres.Options{Pool: pool, Schema: schema, PollOnly: true})
	d := open(t, postgres.Options{URL: pgtest.URL(t), Schema: schema})
	insert(t.Context(), t, d, scoped("waiting", 0, "scope"))
	insert(t.Context(), t, suspended, scoped("first", 0, "first")) // it knows the line

	resume := sync.OnceFunc(func() { close(s.resume) })
	defer resume()
	s.armed.Store(true)
	put := make(chan error, 1)
	go func() {
		errs, err := suspended.Insert(t.Context(), []*driver.Record{scoped("suspended", 0, "another")})
		put <- errors.Join(append(errs, err)...)
	}()
	<-s.begun
	require.Eventually(t, func() bool { return len(claim(t, d, 1)) == 1 }, 20*time.Second, 10*time.Millisecond)
	resume()
	require.NoError(t, <-put, "the transaction is repeated")
	assert.Equal(t, []string{"first", "suspended"}, idsOf(claim(t, d, 10)))
}
