package workq

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/connserver"
	"github.com/mongodb/amboy/internal/lazycontext"
	"github.com/mongodb/amboy/outside"
	"github.com/mongodb/amboy/queue"
)

// ErrClosed is wrapped by the error of Serve when the Server is closed.
var ErrClosed = connserver.ErrClosed

// ErrNotLoopback is wrapped by the error of Serve for a listener that other machines can
// reach, without Options.AllowRemote.
var ErrNotLoopback = connserver.ErrNotLoopback

// Server serves the protocol. It is safe for concurrent use.
//
// Close must be called before the dispatcher and the group are closed.
type Server struct {
	opts       Options
	jobs       *jobs
	dispatcher *outside.Dispatcher
	clock      *clock
	ids        idLocks
	waiters    waiters
	names      names
	// calling, buffered, unwritten and listing bound the memory of commands: how many call
	// the store, the bytes of large blocks and answers, how many large answers wait for
	// that, and how many commands list jobs.
	calling, buffered, unwritten, listing *semaphore.Weighted

	conns   *connserver.Server
	started time.Time
	evicted atomic.Int64
}

// New returns a Server for the queues of a group, which must be a group of package queue
// over a driver, with the dispatcher of that group. It returns an error if the options are
// not valid, and one that wraps outside.ErrUnsupported for another group. It reads the times
// of the stored jobs in the background.
func New(group amboy.QueueGroup, d *outside.Dispatcher, opts Options) (*Server, error) {
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	leases, ok := queue.LeasesOfGroup(group)
	store, isStore := queue.StoreOfGroup(group)
	if !ok || !isStore {
		return nil, fmt.Errorf("making a workq server of a %T: %w", group, outside.ErrUnsupported)
	}
	if d == nil {
		return nil, errors.New("making a workq server: the dispatcher must not be nil")
	}
	s := &Server{
		opts:       opts,
		dispatcher: d,
		jobs:       &jobs{prefix: opts.Prefix, group: group, leases: leases, store: store, dispatcher: d},
		buffered:   semaphore.NewWeighted(int64(opts.MaxBuffered)),
		calling:    semaphore.NewWeighted(atOnceCalling),
		unwritten:  semaphore.NewWeighted(maxUnwritten),
		listing:    semaphore.NewWeighted(atOnceListing),
		started:    time.Now(),
	}
	s.conns = connserver.New(connserver.Options{
		Protocol: "workq", AllowRemote: opts.AllowRemote, MaxConnections: opts.MaxConnections, MaxPerClient: opts.MaxConnectionsPerClient,
		IdleTimeout: opts.IdleTimeout, ReadTimeout: opts.ReadTimeout, WriteTimeout: opts.WriteTimeout,
	}, func(raw *connserver.Conn) { newConn(s, raw).serve() })
	s.names.most = opts.MaxNames
	s.waiters.byID = map[string]*waiter{}
	s.ids.held = map[string]chan struct{}{}
	s.clock = newClock(s.passed)
	s.conns.Go(func() { s.clock.run(s.conns.Open()) })
	s.conns.Go(s.readTimes)
	return s, nil
}

// Serve accepts connections until the Server or the listener is closed, and closes the
// listener. It returns an error that wraps ErrClosed when the Server is closed, one that
// wraps ErrNotLoopback for a listener that other machines can reach, unless
// Options.AllowRemote is set, and otherwise the error of the listener. It may be called for
// several listeners.
func (s *Server) Serve(l net.Listener) error { return s.conns.Serve(l) }

// Close stops listening, answers the waiting commands as if their time were over, lets the
// other commands finish, and closes the connections. It waits for that until ctx ends; then
// it cuts the connections, and returns an error that wraps that of ctx. Leases stay
// valid. Closing a closed Server only waits.
func (s *Server) Close(ctx context.Context) error { return s.conns.Close(ctx) }

// callLimit bounds the calls of the store for a command.
const callLimit = 30 * time.Second

const (
	// atOnceCalling is the number of commands that call the store at the same time.
	atOnceCalling = 128
	// atOnceListing is the number of commands that list jobs at the same time.
	atOnceListing = 2
)

// call returns the context of calls of the store. It waits while too many commands call the
// store. A command must not begin a call within another one.
func (s *Server) call() (ctx context.Context, end func()) {
	ctx, cancel := lazycontext.WithTimeout(s.conns.Working(), callLimit)
	if !s.calling.TryAcquire(1) && s.calling.Acquire(ctx, 1) != nil {
		return ctx, cancel // it has ended
	}
	return ctx, func() {
		s.calling.Release(1)
		cancel()
	}
}
