package postgres_test

import (
	"bytes"
	"context"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/internal/pgtest"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/postgres"
)

// crashingPooler answers a commit as PgBouncer does if its connection to the server breaks before the
// answer of the server has come.
type crashingPooler struct {
	net.Conn
	armed   *atomic.Bool
	crashes atomic.Bool
	crashed bool
}

// executes is how the message begins that executes a statement.
const executes = "E\x00\x00\x00\x09\x00"

// Write checks for the statement, when it is executed and not only described.
func (c *crashingPooler) Write(b []byte) (int, error) {
	if bytes.Contains(b, []byte("COMMIT\x00")) && bytes.Contains(b, []byte(executes)) && c.armed.CompareAndSwap(true, false) {
		c.crashes.Store(true)
	}
	return c.Conn.Write(b)
}

func (c *crashingPooler) Read(b []byte) (int, error) {
	if c.crashed {
		return 0, io.EOF
	}
	n, err := c.Conn.Read(b)
	if err != nil || !c.crashes.Load() {
		return n, err
	}
	c.crashed = true
	answer, err := (&pgproto3.ErrorResponse{Severity: "FATAL", SeverityUnlocalized: "FATAL", Code: "08P01", Message: "server conn crashed?"}).Encode(nil)
	return copy(b, answer), err
}

// openBehindCrashingPooler opens a driver whose pooler loses the answer to the next commit when armed.
func openBehindCrashingPooler(t *testing.T, schema string) (*postgres.Driver, *atomic.Bool) {
	t.Helper()
	config, err := pgxpool.ParseConfig(pgtest.URL(t))
	require.NoError(t, err)
	config.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe // it sends the texts of statements
	armed := &atomic.Bool{}
	config.ConnConfig.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, dialErr := (&net.Dialer{}).DialContext(ctx, network, address)
		return &crashingPooler{Conn: conn, armed: armed}, dialErr
	}
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	return open(t, postgres.Options{Pool: pool, Schema: schema}), armed
}

// The error came as one of the server, and passed for proof that nothing was stored.
func TestTheOutcomeOfACommitThatAPoolerLostIsUnknown(t *testing.T) {
	d, armed := openBehindCrashingPooler(t, pgtest.Schema(t))
	insert(t.Context(), t, d, scoped("the first", 0, "first"))

	armed.Store(true)
	_, err := d.Insert(t.Context(), []*driver.Record{scoped("job", 0, "scope")})
	require.ErrorContains(t, err, "server conn crashed?")
	_, getErr := d.Get(t.Context(), "", "job")
	require.NoError(t, getErr, "it is stored")
	require.ErrorIs(t, err, driver.ErrOutcomeUnknown)
}

// A job whose Put was not answered is stored all the same. No process was notified of it, so it waited for up to half a
// minute. So did what was freed by the end of a job that was not answered.
func TestNoProcessWasNotifiedOfAJobWhoseCommitWasNotAnswered(t *testing.T) {
	schema := pgtest.Schema(t)
	d, armed := openBehindCrashingPooler(t, schema)
	other := open(t, postgres.Options{URL: pgtest.URL(t), Schema: schema})
	told := subscribe(t, other)
	insert(t.Context(), t, d, scoped("the first", 0, "first"))
	awaitTold(t, told)

	armed.Store(true)
	_, err := d.Insert(t.Context(), []*driver.Record{scoped("job", 0, "scope")})
	require.ErrorIs(t, err, driver.ErrOutcomeUnknown)
	awaitTold(t, told)

	claimed := claim(t, other, 1)
	require.Len(t, claimed, 1)
	ended := *claimed[0]
	ended.Status.Completed, ended.Status.InProgress, ended.TimeInfo.End = true, false, time.Now()
	armed.Store(true)
	_, err = d.Complete(t.Context(), []driver.Completion{{Lease: driver.LeaseOf(claimed[0]), Record: &ended}})
	require.ErrorIs(t, err, driver.ErrOutcomeUnknown)
	awaitTold(t, told)
}
