package pinlater

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mongodb/grip/message"
	"golang.org/x/sync/semaphore"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/logging"
	"github.com/mongodb/amboy/outside"
	"github.com/mongodb/amboy/queue"
	"github.com/mongodb/amboy/queue/driver"
)

// ErrClosed is returned by Serve when the Server is closed.
var ErrClosed = errors.New("PinLater server is closed")

// ErrNotLoopback is wrapped by the error of Serve for a listener that other machines can
// reach, unless Options.AllowRemote is set.
var ErrNotLoopback = errors.New("address is not a loopback address, and the protocol has no login; Options.AllowRemote allows it")

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

	// open ends with the Server, after the last call.
	open       context.Context
	end        context.CancelFunc
	background sync.WaitGroup
	// maintained ends when Close begins.
	maintained      context.Context
	stopMaintenance context.CancelFunc

	mu          sync.Mutex
	closing     bool
	listeners   map[net.Listener]bool
	connections map[*connection]bool
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
		names:       &queueNames{admin: store.Admin(), prefix: opts.QueuePrefix, now: store.Now, until: map[string]time.Time{}},
		limits:      &limits{now: time.Now, servers: 1},
		work:        semaphore.NewWeighted(maxWork),
		reads:       semaphore.NewWeighted(maxReads),
		buffered:    semaphore.NewWeighted(int64(opts.MaxBuffered)),
		listeners:   map[net.Listener]bool{},
		connections: map[*connection]bool{},
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
	s.open, s.end = context.WithCancel(context.Background())
	s.maintained, s.stopMaintenance = context.WithCancel(s.open)
	s.background.Go(func() { s.maintain(files) })
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

// Serve accepts connections of a listener until the Server or the listener is closed, and
// closes the listener. It may be called for several listeners. It returns ErrClosed when the
// Server is closed, an error that wraps ErrNotLoopback for a listener that is not allowed,
// and otherwise the error of the listener.
func (s *Server) Serve(listener net.Listener) error {
	if err := s.addListener(listener); err != nil {
		return errors.Join(err, listener.Close())
	}
	defer s.background.Done()
	err := s.accept(listener)
	s.mu.Lock()
	delete(s.listeners, listener)
	closing := s.closing
	s.mu.Unlock()
	_ = listener.Close() // it may be closed already
	if closing {
		return ErrClosed
	}
	return fmt.Errorf("serving PinLater on %s: %w", listener.Addr(), err)
}

func (s *Server) addListener(listener net.Listener) error {
	if !s.opts.AllowRemote && !isLocal(listener.Addr()) {
		return fmt.Errorf("serving PinLater on %s: %w", listener.Addr(), ErrNotLoopback)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing {
		return ErrClosed
	}
	s.background.Add(1)
	s.listeners[listener] = true
	if tcp, ok := listener.Addr().(*net.TCPAddr); ok {
		start := strings.Replace(*s.claimStart.Load(), ":0:", fmt.Sprintf(":%d:", tcp.Port), 1)
		s.claimStart.Store(&start)
	}
	return nil
}

// isLocal reports whether only this machine can reach an address.
func isLocal(address net.Addr) bool {
	switch a := address.(type) {
	case *net.TCPAddr:
		return a.IP.IsLoopback()
	case *net.UnixAddr:
		return true
	default:
		return address.Network() == "pipe"
	}
}

// The pauses after an Accept that failed, for instance because there are too many open files.
const (
	minAcceptPause = 5 * time.Millisecond
	maxAcceptPause = time.Second
)

func (s *Server) accept(listener net.Listener) error {
	pause := minAcceptPause
	for {
		conn, err := listener.Accept()
		switch {
		case err == nil:
			pause = minAcceptPause
			s.start(conn)
		case errors.Is(err, net.ErrClosed):
			return err
		default:
			if !s.isTemporary(err) {
				return err
			}
			logging.Warning(s.open, message.Fields{"message": "could not accept a PinLater connection; trying again", "error": err.Error()})
			select {
			case <-s.open.Done():
				return err
			case <-time.After(pause):
			}
			pause = min(2*pause, maxAcceptPause)
		}
	}
}

// isTemporary reports whether Accept may succeed later.
func (s *Server) isTemporary(err error) bool {
	var opErr *net.OpError
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.closing && errors.As(err, &opErr)
}

// start serves a connection, or closes it if there are too many.
func (s *Server) start(conn net.Conn) {
	c := newConnection(s, conn)
	s.mu.Lock()
	admitted := !s.closing && len(s.connections) < s.opts.MaxConnections
	if admitted {
		s.connections[c] = true
		s.background.Add(1)
	}
	s.mu.Unlock()
	if !admitted {
		_ = conn.Close() // the client learns of it, or is gone
		return
	}
	go func() {
		defer s.background.Done()
		c.serve()
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.connections, c)
	}()
}

// Close stops accepting connections, closes idle ones, and waits until the calls that are
// being served are answered. When ctx ends, it closes the connections of those, and returns
// an error that names their number if they have not returned by then. Closing a closed Server
// only waits.
func (s *Server) Close(ctx context.Context) error {
	s.mu.Lock()
	s.closing = true
	for listener := range s.listeners {
		_ = listener.Close() // Serve reports it
	}
	for c := range s.connections {
		c.stopReading()
	}
	s.mu.Unlock()
	s.stopMaintenance()
	done := make(chan struct{})
	go func() { // It ends with the goroutines that it waits for.
		s.background.Wait()
		s.end()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
	}
	s.end()
	s.mu.Lock()
	left := len(s.connections)
	for c := range s.connections {
		_ = c.conn.Close() // its call has been given up
	}
	s.mu.Unlock()
	select {
	case <-done:
		return nil
	default:
		return fmt.Errorf("closing a PinLater server with %d calls that have not returned: %w", left, ctx.Err())
	}
}
