package rivertest_test

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/internal/pgtest"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/riverjob"
)

// poolWith returns a pool of the test's server with other settings.
func poolWith(w *world, change func(*pgxpool.Config)) *pgxpool.Pool {
	w.t.Helper()
	config, err := pgxpool.ParseConfig(pgtest.URL(w.t))
	require.NoError(w.t, err)
	change(config)
	pool, err := pgxpool.NewWithConfig(w.ctx, config)
	require.NoError(w.t, err)
	w.t.Cleanup(pool.Close)
	return pool
}

// suspending stops a driver once, after it has locked rows.
type suspending struct {
	armed  atomic.Bool
	begun  chan struct{}
	resume chan struct{}
}

func (*suspending) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	return context.WithValue(ctx, tracedKey{}, data.SQL)
}

type tracedKey struct{}

func (s *suspending) TraceQueryEnd(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryEndData) {
	if text, _ := ctx.Value(tracedKey{}).(string); strings.Contains(text, "FOR UPDATE") && s.armed.CompareAndSwap(true, false) {
		close(s.begun)
		<-s.resume
	}
}

// A process that was suspended in a claim, or whose host lost its network, kept the rows locked until the server
// noticed that the connection was gone: for hours, or for ever. No other process took them.
func TestAProcessThatWasSuspendedInAClaimKeptItsJobsFromOthers(t *testing.T) {
	w := newWorld(t)
	s := &suspending{begun: make(chan struct{}), resume: make(chan struct{})}
	pool := poolWith(w, func(c *pgxpool.Config) { c.ConnConfig.Tracer = s })
	suspended := w.open(func(o *riverjob.Options) { o.Pool, o.PollOnly = pool, true })
	d := w.open()
	w.insert(pythonJob{kind: "x"})

	resume := sync.OnceFunc(func() { close(s.resume) })
	defer resume()
	s.armed.Store(true)
	claimed := make(chan driver.Claimed, 1)
	go func() {
		// It may find the connection closed before it reads why, and fail.
		got, _ := suspended.Claim(w.ctx, driver.ClaimRequest{
			Owner: "suspended", Queues: []driver.Demand{{Queue: "default", Limit: 1}}, Limit: 1, Now: time.Now(), LeaseTime: time.Minute,
		})
		claimed <- got
	}()
	<-s.begun
	bounded, cancel := context.WithTimeout(w.ctx, 30*time.Second)
	defer cancel()
	for len(claimOne(bounded, t, d)) == 0 {
		require.NoError(t, bounded.Err(), "the job is not free")
	}
	resume()
	require.Empty(t, (<-claimed).Records)
}
