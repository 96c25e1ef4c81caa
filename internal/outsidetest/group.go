// Package outsidetest starts queues for outside workers, and servers of their protocols, in
// tests and benchmarks.
package outsidetest

import (
	"context"
	"net"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/connserver"
	"github.com/mongodb/amboy/outside"
	"github.com/mongodb/amboy/pool"
	"github.com/mongodb/amboy/queue"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/memory"
	"github.com/mongodb/amboy/queue/driver/sqlite"
)

// Memory returns a store in memory.
func Memory(t testing.TB) driver.Driver {
	t.Helper()
	store, err := memory.New(memory.Options{KeepFinished: 10_000})
	require.NoError(t, err)
	return store
}

// SQLite opens a store in a file.
func SQLite(t testing.TB, path string) driver.Driver {
	t.Helper()
	store, err := sqlite.Open(context.Background(), sqlite.Options{Path: path})
	require.NoError(t, err)
	return store
}

// Group is a group of queues whose jobs outside workers run.
type Group struct {
	Queues     amboy.QueueGroup
	Dispatcher *outside.Dispatcher
	// Close closes both. Closing again does nothing. It is called at the end of the test.
	Close func()
}

// StartGroup starts a group on the store of its options. It closes the store, unless that is
// kept open.
func StartGroup(t testing.TB, queues queue.DriverQueueOptions, opts outside.Options) *Group {
	t.Helper()
	queues.NewRunner = func(amboy.Queue) (amboy.Runner, error) { return pool.NewNoop(), nil } // workers are outside
	group, err := queue.NewDriverGroup(context.Background(), queue.DriverGroupOptions{DefaultQueue: queues})
	require.NoError(t, err)
	d, err := outside.NewGroup(group, opts)
	require.NoError(t, err)
	g := &Group{Queues: group, Dispatcher: d, Close: sync.OnceFunc(func() {
		require.NoError(t, d.Close(context.Background()))
		require.NoError(t, group.Close(context.Background()))
	})}
	t.Cleanup(g.Close)
	return g
}

// Server is a server of a protocol.
type Server interface {
	Serve(l net.Listener) error
	Close(ctx context.Context) error
}

// Serve runs a server in the background until stop is called, which is called at the end of
// the test at the latest.
func Serve(t testing.TB, s Server, l net.Listener) (stop func()) {
	t.Helper()
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	stop = sync.OnceFunc(func() {
		require.NoError(t, s.Close(context.Background()))
		require.ErrorIs(t, <-served, connserver.ErrClosed)
	})
	t.Cleanup(stop)
	return stop
}

// Listen listens on a free TCP port of this machine.
func Listen(t testing.TB) net.Listener {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	return l
}
