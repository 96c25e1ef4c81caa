package postgres_test

import (
	"context"
	"errors"
	"net"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/internal/pgtest"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/drivertest"
	"github.com/mongodb/amboy/queue/driver/postgres"
)

func TestConformance(t *testing.T) {
	s := newStores(t)
	drivertest.Run(t, drivertest.Harness{
		Open:      func(t *testing.T) driver.Driver { return s.open(t, pgtest.Schema(t)) },
		Reopen:    func(t *testing.T, d driver.Driver) driver.Driver { return s.open(t, s.of(d).schema) },
		Share:     func(t *testing.T, d driver.Driver) driver.Driver { return s.open(t, s.of(d).schema) },
		Break:     func(_ *testing.T, d driver.Driver) (repair func()) { return s.of(d).wire.cut() },
		IsUnknown: func(err error) bool { return errors.Is(err, driver.ErrOutcomeUnknown) },
		Begin: func(ctx context.Context, t *testing.T, _ driver.Driver) drivertest.Transaction {
			conn, err := pgx.Connect(ctx, s.url)
			require.NoError(t, err)
			t.Cleanup(func() { assert.NoError(t, conn.Close(context.Background())) })
			tx, err := conn.Begin(ctx)
			require.NoError(t, err)
			return drivertest.Transaction{
				Context:  postgres.WithTx(ctx, tx),
				Commit:   func() error { return tx.Commit(ctx) },
				Rollback: func() error { return tx.Rollback(ctx) },
			}
		},
	})
}

// stores are the schemas of the suite.
type stores struct {
	url string

	mu  sync.Mutex
	all map[driver.Driver]*store
}

type store struct {
	schema string
	wire   *wire
}

func newStores(t *testing.T) *stores {
	t.Helper()
	return &stores{url: pgtest.URL(t), all: map[driver.Driver]*store{}}
}

func (s *stores) of(d driver.Driver) *store {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all[d]
}

// open opens a driver whose connections can be cut.
func (s *stores) open(t *testing.T, schema string) driver.Driver {
	t.Helper()
	w := &wire{open: map[*cuttable]bool{}}
	config, err := pgxpool.ParseConfig(s.url)
	require.NoError(t, err)
	config.ConnConfig.DialFunc = w.dial
	config.MaxConns = 8
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	d, err := postgres.Open(t.Context(), postgres.Options{Pool: pool, Schema: schema})
	require.NoError(t, err)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all[d] = &store{schema, w}
	return d
}

// wire is what the connections of a driver go through.
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

// cut cuts all connections, and lets none be made until repair is called.
func (w *wire) cut() (repair func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.isCut = true
	for c := range w.open {
		_ = c.Conn.Close() // It is as good as gone.
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
