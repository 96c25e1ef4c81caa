package postgres_test

import (
	"bytes"
	"context"
	"io"
	"net"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/internal/pgtest"
	"github.com/mongodb/amboy/queue/driver/postgres"
)

// stopping makes connections whose server is stopped while it commits the next transaction: it ends the connection after
// the commit, and before it is ready for another query.
type stopping struct{ armed atomic.Bool }

func (s *stopping) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
	return &stopped{Conn: conn, by: s}, err
}

type stopped struct {
	net.Conn
	by   *stopping
	last io.Reader // what is left to read before the end; nil if the server was not stopped
}

func (c *stopped) Read(p []byte) (int, error) {
	if c.last != nil {
		return c.last.Read(p)
	}
	n, err := c.Conn.Read(p)
	const committed, ready = "C\x00\x00\x00\x0bCOMMIT\x00", "Z\x00\x00\x00\x05I"
	at := bytes.Index(p[:n], []byte(committed+ready))
	if at < 0 || !c.by.armed.CompareAndSwap(true, false) {
		return n, err
	}
	end := pgproto3.ErrorResponse{Severity: "FATAL", SeverityUnlocalized: "FATAL", Code: "57P01", Message: "terminating connection due to administrator command"}
	sent, err := end.Encode(nil)
	c.last = bytes.NewReader(sent)
	return at + len(committed), err
}

// The error of the connection was taken for one of the transaction: the call failed as if nothing had been written.
func TestAChangeThatTheServerCommittedBeforeItStoppedHasNotFailed(t *testing.T) {
	config, err := pgxpool.ParseConfig(pgtest.URL(t))
	require.NoError(t, err)
	server := &stopping{}
	config.ConnConfig.DialFunc = server.dial
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	d, err := postgres.Open(t.Context(), postgres.Options{Pool: pool, Schema: pgtest.Schema(t), PollOnly: true})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.Close(context.Background())) })

	insert(t.Context(), t, d, scoped("first", 0, "scope"))
	server.armed.Store(true)
	insert(t.Context(), t, d, scoped("second", 0, "scope"))
	require.False(t, server.armed.Load())
	stats, err := d.Stats(t.Context(), "")
	require.NoError(t, err)
	require.Equal(t, 2, stats.Total)
}
