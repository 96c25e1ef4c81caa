package postgres_test

import (
	"context"
	"errors"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/internal/pgtest"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/drivertest"
	"github.com/mongodb/amboy/queue/driver/postgres"
)

func TestConformance(t *testing.T) {
	drivertest.Run(t, newStores(t, pgtest.URL(t)).harness())
}

// The driver passes the suite without LISTEN and prepared statements, through a pooler that gives
// each transaction another connection.
func TestConformanceThroughPgBouncerInTransactionMode(t *testing.T) {
	s := newStores(t, pgtest.PoolerURL(t))
	s.pollOnly = true
	harness := s.harness()
	harness.Variant = true
	drivertest.Run(t, harness)
}

// stores are the stores of the suite. There are hundreds, and making connections takes much of
// their time, so they are reused by later tests.
type stores struct {
	url      string        // the URL that drivers connect to
	direct   *pgxpool.Pool // connections to the server that are never cut
	pollOnly bool

	mu   sync.Mutex
	all  map[driver.Driver]*store
	free []*store // pools that no test uses
}

// harness returns the harness of the suite.
func (s *stores) harness() drivertest.Harness {
	return drivertest.Harness{
		Open:       func(t *testing.T) driver.Driver { return s.open(t, pgtest.EmptySchema(t)) },
		Elapse:     s.elapse,
		StepClock:  s.stepClock,
		Reopen:     func(t *testing.T, d driver.Driver) driver.Driver { return s.open(t, s.of(d).schema) },
		Share:      func(t *testing.T, d driver.Driver) driver.Driver { return s.open(t, s.of(d).schema) },
		ReadLittle: func(d driver.Driver, n int) { postgres.WorkAtOnce(d.(*postgres.Driver), n) },
		Break:      func(_ *testing.T, d driver.Driver) (repair func()) { return s.of(d).wire.cut() },
		IsUnknown:  func(err error) bool { return errors.Is(err, driver.ErrOutcomeUnknown) },
		Begin: func(ctx context.Context, t *testing.T, _ driver.Driver) drivertest.Transaction {
			tx, err := s.direct.Begin(ctx)
			require.NoError(t, err)
			return drivertest.Transaction{
				Context:  postgres.WithTx(ctx, tx),
				Commit:   func() error { return tx.Commit(ctx) },
				Rollback: func() error { return tx.Rollback(ctx) },
			}
		},
	}
}

// store is a schema and the pool of a driver on it.
type store struct {
	schema string
	pool   *pgxpool.Pool
	wire   *wire
}

func newStores(t *testing.T, url string) *stores {
	t.Helper()
	s := &stores{url: url, direct: pgtest.Pool(t), all: map[driver.Driver]*store{}}
	t.Cleanup(func() {
		for _, unused := range s.free {
			unused.pool.Close()
		}
	})
	return s
}

func (s *stores) of(d driver.Driver) *store {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all[d]
}

// pop removes and returns the last item of a list, if there is one.
func pop[T any](mu *sync.Mutex, list *[]T) (last T, ok bool) {
	mu.Lock()
	defer mu.Unlock()
	n := len(*list)
	if n == 0 {
		return last, false
	}
	last, *list = (*list)[n-1], (*list)[:n-1]
	return last, true
}

// open opens a driver whose connections can be cut.
func (s *stores) open(t *testing.T, schema string) driver.Driver {
	t.Helper()
	used, ok := pop(&s.mu, &s.free)
	if !ok {
		used = &store{wire: &wire{open: map[*cuttable]bool{}}}
		config, err := pgxpool.ParseConfig(s.url)
		require.NoError(t, err)
		config.ConnConfig.DialFunc = used.wire.dial
		config.MaxConns = 8
		if s.pollOnly {
			config.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe
		}
		used.pool, err = pgxpool.NewWithConfig(context.Background(), config)
		require.NoError(t, err)
	}
	used.schema = schema
	d, err := postgres.Open(t.Context(), postgres.Options{Pool: used.pool, Schema: schema, PollOnly: s.pollOnly})
	require.NoError(t, err)
	// The suite leaves no transactions open. On a slow machine, concurrent calls may wait longer for each other than
	// for a transaction of another client, and would take one for such a transaction.
	postgres.SetPatience(d, "1min")
	s.mu.Lock()
	s.all[d] = used
	s.mu.Unlock()
	t.Cleanup(func() {
		require.NoError(t, d.Close(context.Background()))
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.all, d)
		s.free = append(s.free, used)
	})
	return d
}

// elapse makes the leases of a store end earlier, and its tokens come earlier, because the clock
// is the server's.
func (s *stores) elapse(t *testing.T, d driver.Driver, by time.Duration) {
	t.Helper()
	for _, change := range []string{"jobs SET lease_until = lease_until - $1", "leases SET until = until - $1, taken = taken - $1"} {
		_, err := s.direct.Exec(t.Context(), "UPDATE "+s.of(d).schema+"."+change, int64(by))
		require.NoError(t, err)
	}
	s.stepClock(t, d, by)
}

// stepClock moves what was measured by the clock of the server.
func (s *stores) stepClock(t *testing.T, d driver.Driver, by time.Duration) {
	t.Helper()
	_, err := s.direct.Exec(t.Context(), "UPDATE "+s.of(d).schema+".queues SET bucket = bucket - $1 WHERE bucket <> 0", int64(by))
	require.NoError(t, err)
	_, err = s.direct.Exec(t.Context(), "UPDATE "+s.of(d).schema+`.queues SET type_buckets =
		(SELECT json_object_agg(key, value::bigint - $1) FROM json_each_text(type_buckets::json))::text
		WHERE type_buckets IS NOT NULL`, int64(by))
	require.NoError(t, err)
}

// wire controls the connections of a driver.
type wire struct {
	mu    sync.Mutex
	isCut bool
	open  map[*cuttable]bool
}

var errCut = errors.New("the wire is cut")

func (w *wire) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.isCut {
		return nil, errors.Join(errCut, conn.Close())
	}
	c := &cuttable{conn, w}
	w.open[c] = true
	return c, nil
}

// cut cuts all connections, and refuses new ones until repair is called.
func (w *wire) cut() (repair func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.isCut = true
	for c := range w.open {
		_ = c.Conn.Close() // The connection is dropped anyway.
	}
	clear(w.open)
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.isCut = false
	}
}

// cuttable is a connection that a wire can cut.
type cuttable struct {
	net.Conn
	wire *wire
}

func (c *cuttable) Close() error {
	c.wire.mu.Lock()
	delete(c.wire.open, c)
	c.wire.mu.Unlock()
	return c.Conn.Close()
}
