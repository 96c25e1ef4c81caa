package pinlater

import (
	"context"
	"fmt"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/connserver"
	"github.com/mongodb/amboy/outside"
	"github.com/mongodb/amboy/queue"
	"github.com/mongodb/amboy/queue/driver"
)

// ErrClosed is wrapped by the error of Serve when the Server is closed.
var ErrClosed = connserver.ErrClosed

// ErrNotLoopback is wrapped by the error of Serve for a listener that other machines can
// reach, unless Options.AllowRemote is set.
var ErrNotLoopback = connserver.ErrNotLoopback

// Server serves PinLater's interface. It is safe for concurrent use.
//
// Close must be called before the Dispatcher and the group are closed.
type Server struct {
	opts       Options
	group      amboy.QueueGroup
	dispatcher *outside.Dispatcher
	leases     *queue.Leases
	store      *queue.Store
	driver     driver.Driver
	names      *queueNames
	ids        *localIDs
	limits     *limits

	dequeueOnly atomic.Bool
	// claimStart begins all claims of the server; claims counts them.
	claimStart atomic.Pointer[string]
	claims     atomic.Int64
	// work and reads admit the calls that read the bodies of jobs: those of workers, and those
	// of operators, which may take long. buffered admits the bytes of frames.
	work, reads, buffered *semaphore.Weighted

	conns *connserver.Server
}

// maxWork and maxReads are how many calls that read the bodies of jobs are served at the same
// time.
const (
	maxWork  = 16
	maxReads = 4
)

// New returns a Server for the queues of a group. dispatcher is one of that group. It reads
// the files that the options name. It returns an error if the options are not valid or a file
// can't be read, and one that wraps outside.ErrUnsupported for a group of queues that hold
// their jobs by reference.
func New(g amboy.QueueGroup, dispatcher *outside.Dispatcher, opts Options) (*Server, error) {
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	leases, ok := queue.LeasesOfGroup(g)
	store, stored := queue.StoreOfGroup(g)
	if !ok || !stored || store.Driver() == nil || dispatcher == nil {
		return nil, fmt.Errorf("making a PinLater server of a %T and a dispatcher: %w", g, outside.ErrUnsupported)
	}
	s := &Server{
		opts: opts, group: g, dispatcher: dispatcher, leases: leases, store: store, driver: store.Driver(),
		names:    &queueNames{admin: store.Admin(), prefix: opts.QueuePrefix, now: store.Now, until: map[string]time.Time{}},
		limits:   &limits{now: time.Now, servers: 1},
		work:     semaphore.NewWeighted(maxWork),
		reads:    semaphore.NewWeighted(maxReads),
		buffered: semaphore.NewWeighted(int64(opts.MaxBuffered)),
	}
	s.ids = &localIDs{raise: func(ctx context.Context, to time.Time) (time.Time, error) {
		return s.driver.Mark(ctx, "", idMark, to)
	}}
	s.dequeueOnly.Store(opts.DequeueOnly)
	host, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("making a PinLater server: %w", err)
	}
	start := fmt.Sprintf("%s:0:%d", host, time.Now().UnixMilli())
	s.claimStart.Store(&start)
	files, err := s.loadFiles()
	if err != nil {
		return nil, fmt.Errorf("making a PinLater server: %w", err)
	}
	s.conns = connserver.New(connserver.Options{
		Protocol: "PinLater", AllowRemote: opts.AllowRemote, MaxConnections: opts.MaxConnections, MaxPerClient: opts.MaxConnectionsPerClient,
		IdleTimeout: opts.IdleTimeout, ReadTimeout: opts.ReadTimeout, WriteTimeout: opts.WriteTimeout,
	}, func(raw *connserver.Conn) { newConnection(s, raw).serve() })
	s.conns.Go(func() { s.maintain(files) })
	return s, nil
}

// SetDequeueOnly sets whether new jobs are refused, as Options.DequeueOnly does.
func (s *Server) SetDequeueOnly(only bool) { s.dequeueOnly.Store(only) }

// ListenAndServe listens on a TCP address, and serves. See Serve. An address without a host
// listens on 127.0.0.1.
func (s *Server) ListenAndServe(ctx context.Context, address string) error {
	if strings.HasPrefix(address, ":") {
		address = "127.0.0.1" + address
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("serving PinLater: %w", err)
	}
	return s.Serve(listener) //nolint:contextcheck // The server ends with Close.
}

// Serve accepts connections until the Server or the listener is closed, and closes the
// listener. It may be called for several listeners. It returns an error that wraps ErrClosed
// when the Server is closed, one that wraps ErrNotLoopback for a listener that is not
// allowed, and otherwise the error of the listener.
func (s *Server) Serve(listener net.Listener) error {
	if tcp, ok := listener.Addr().(*net.TCPAddr); ok {
		start := s.claimStart.Load()
		named := strings.Replace(*start, ":0:", fmt.Sprintf(":%d:", tcp.Port), 1)
		s.claimStart.CompareAndSwap(start, &named) // claims name the first listener
	}
	return s.conns.Serve(listener)
}

// Close stops accepting connections, closes idle ones, and waits until the calls that are
// being served are answered. When ctx ends, it cuts their connections, and returns an error
// that wraps that of ctx. Closing a closed Server only waits.
func (s *Server) Close(ctx context.Context) error { return s.conns.Close(ctx) }

// admit waits until a call may read the bodies of jobs. leave must be called at its end.
func admit(ctx context.Context, to *semaphore.Weighted) (leave func(), err error) {
	if err = to.Acquire(ctx, 1); err != nil {
		return nil, fmt.Errorf("waiting for other calls: %w", err)
	}
	return func() { to.Release(1) }, nil
}
