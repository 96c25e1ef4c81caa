package rivertest_test

import (
	"bytes"
	"context"
	"io"
	"net"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/riverjob"
)

// losingAnswers loses a commit, or the answer to it: the connection breaks before or after the server commits, or says
// what PgBouncer does if its connection to the server breaks.
type losingAnswers struct {
	net.Conn
	armed *atomic.Bool
	says  string // what the pooler says; one of the following if there is none
	then  func() // called after a commit was lost
	loses atomic.Bool
	lost  bool
}

// What becomes of a commit whose connection breaks.
const (
	isCommitted  = ""
	isRolledBack = "unsent"
)

func (c *losingAnswers) Write(b []byte) (int, error) {
	if bytes.Contains(b, []byte("commit\x00")) && c.armed.CompareAndSwap(true, false) {
		if c.says == isRolledBack {
			err := c.Close()
			c.then()
			return 0, err
		}
		c.loses.Store(true)
	}
	return c.Conn.Write(b)
}

func (c *losingAnswers) Read(b []byte) (int, error) {
	if c.lost {
		return 0, io.EOF
	}
	n, err := c.Conn.Read(b)
	if err != nil || !c.loses.Load() {
		return n, err
	}
	c.lost = true
	if c.says == isCommitted {
		return 0, io.EOF
	}
	answer, err := (&pgproto3.ErrorResponse{Severity: "FATAL", SeverityUnlocalized: "FATAL", Code: c.says, Message: "server conn crashed?"}).Encode(nil)
	return copy(b, answer), err
}

// lossy opens a driver that loses the answer to the next commit when armed.
func lossy(w *world, says string) (*riverjob.Driver, *atomic.Bool) {
	w.t.Helper()
	return lossyThen(w, says, func() {})
}

// lossyThen is lossy with a function to call after a commit was lost.
func lossyThen(w *world, says string, then func()) (*riverjob.Driver, *atomic.Bool) {
	w.t.Helper()
	armed := &atomic.Bool{}
	pool := poolWith(w, func(c *pgxpool.Config) {
		c.ConnConfig.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
			return &losingAnswers{Conn: conn, armed: armed, says: says, then: then}, err
		}
	})
	return w.open(func(o *riverjob.Options) { o.Pool = pool }), armed
}

// Jobs of a claim whose commit was not answered run only if it is stored.
func TestAClaimWhoseAnswerWasLostUsesUpNoAttempt(t *testing.T) {
	for name, says := range map[string]string{"connection": isCommitted, "pooler": "08P01"} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			id := w.insert(pythonJob{kind: "x", maxAttempts: 1, args: `{"n": 1}`})
			d, armed := lossy(w, says)
			armed.Store(true)
			records := claimOne(w.ctx, t, d)
			require.Len(t, records, 1)
			r := records[0]
			lease := driver.LeaseOf(r)
			r.Status.InProgress, r.Status.Completed = false, true
			errs, err := d.Complete(w.ctx, []driver.Completion{{Lease: lease, Record: r}})
			require.NoError(t, err)
			require.NoError(t, errs[0])
			w.await(id, "completed")
		})
	}
}

// The same if the commit did not reach the server.
func TestJobsOfAClaimWhoseCommitWasLostRan(t *testing.T) {
	w := newWorld(t)
	id := w.insert(pythonJob{kind: "x"})
	d, armed := lossy(w, isRolledBack)
	armed.Store(true)
	assert.Empty(t, claimOne(w.ctx, t, d))
	w.eventually("the server has rolled back", func() bool { return len(claimOne(w.ctx, t, d)) == 1 })
	assert.Equal(t, 1, w.row(id).Attempt)
}

// Another claim of the same owner then took the job. The first one took that for its own, and the job ran twice at once.
func TestAJobOfAClaimWhoseCommitWasLostRanTwice(t *testing.T) {
	w := newWorld(t)
	w.insert(pythonJob{kind: "x"})
	other := w.open()
	var taken []*driver.Record
	d, armed := lossyThen(w, isRolledBack, func() {
		w.eventually("the server has rolled back", func() bool {
			taken = claimOne(w.ctx, t, other)
			return len(taken) == 1
		})
	})
	armed.Store(true)
	assert.Empty(t, claimOne(w.ctx, t, d))
	assert.Len(t, taken, 1)
}

// The error came as one of the server, and passed for proof that nothing was stored.
func TestTheOutcomeOfAnEndThatAPoolerLostIsUnknown(t *testing.T) {
	w := newWorld(t)
	id := w.insert(pythonJob{kind: "x"})
	d, armed := lossy(w, "08P01")
	r := claimOne(w.ctx, t, d)[0]
	lease := driver.LeaseOf(r)
	r.Status.InProgress, r.Status.Completed = false, true
	armed.Store(true)
	_, err := d.Complete(w.ctx, []driver.Completion{{Lease: lease, Record: r}})
	require.ErrorIs(t, err, driver.ErrOutcomeUnknown)
	assert.Equal(t, "completed", w.row(id).State)
}
