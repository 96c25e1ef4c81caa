package postgres

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/internal/pgtest"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/internal/pgconnect"
)

// firewall can drop connections without an error: what the server sends no longer arrives.
type firewall struct {
	mu   sync.Mutex
	open []*filtered
}

type filtered struct {
	net.Conn
	dropped atomic.Bool
}

func (f *firewall) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.open = append(f.open, &filtered{Conn: conn})
	return f.open[len(f.open)-1], nil
}

// drop drops all connections. New ones work.
func (f *firewall) drop() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, conn := range f.open {
		conn.dropped.Store(true)
	}
}

func (c *filtered) Read(p []byte) (n int, err error) {
	for {
		n, err = c.Conn.Read(p)
		if err != nil || !c.dropped.Load() {
			return n, err
		}
	}
}

// openBehind returns a driver whose connections a firewall can drop. It does not listen.
func openBehind(t *testing.T, f *firewall) *Driver {
	t.Helper()
	config, err := pgxpool.ParseConfig(pgtest.URL(t))
	require.NoError(t, err)
	config.ConnConfig.DialFunc = f.dial
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	d, err := Open(t.Context(), Options{Pool: pool, Schema: pgtest.Schema(t), PollOnly: true})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, d.Close(context.Background())) })
	return d
}

// endsWithin waits for a call that must not take as long as the system takes to give up a connection.
func endsWithin(t *testing.T, limit time.Duration, call func() error) (err error) {
	t.Helper()
	ended := make(chan error, 1)
	go func() { ended <- call() }()
	select {
	case err = <-ended:
		return err
	case <-time.After(limit):
		require.FailNow(t, "it does not end")
		return nil
	}
}

// A process listened on a dead connection until the system gave it up, and noticed the changes of
// others only when it polled.
func TestAProcessListenedOnADeadConnection(t *testing.T) {
	t.Parallel()
	var f firewall
	d := openBehind(t, &f)
	s := newSignals(d)
	listener := s.listener()
	listener.CheckEvery = 10 * time.Millisecond
	require.NoError(t, listener.Open(t.Context()))
	changed := make(chan driver.Change, 100)
	t.Cleanup(d.Subscribe(func(c driver.Change) { changed <- c }))
	ctx, cancel := context.WithCancel(t.Context())
	s.all.Go(func() { listener.Run(ctx) })
	t.Cleanup(s.all.Wait)
	t.Cleanup(cancel)

	announced := func() {
		t.Helper()
		_, err := d.reader().exec(t.Context(), d.texts[notify], s.channel, "another/"+news(true, moments{}))
		require.NoError(t, err)
		assert.True(t, (<-changed).MayClaim)
	}
	announced()
	f.drop()
	d.pool.Reset()
	require.NoError(t, endsWithin(t, 30*time.Second, func() error {
		assert.Equal(t, driver.Anywhere, <-changed, "it listens again")
		return nil
	}))
	announced()
}

// The goroutine that raises floors waited for one answer until the system gave the connection up.
func TestADeadConnectionKeptFloorsFromBeingRaised(t *testing.T) {
	t.Parallel()
	var f firewall
	d := openBehind(t, &f)
	require.NoError(t, d.floors.foldLeft())
	f.drop()
	err := endsWithin(t, 4*backgroundTime, d.floors.foldLeft)
	assert.ErrorIs(t, err, context.DeadlineExceeded)
}

// A transaction was rolled back on a dead connection, whatever the context of the call.
func TestARollbackOnADeadConnectionEndsSoon(t *testing.T) {
	t.Parallel()
	var f firewall
	d := openBehind(t, &f)
	refusal := errors.New("refused")
	err := endsWithin(t, 10*pgconnect.RollbackTime, func() error {
		return d.transact(t.Context(), noQueue, func(*changes) error {
			f.drop()
			return refusal
		})
	})
	assert.ErrorIs(t, err, refusal)
}
