package workq

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mongodb/grip/message"
	"golang.org/x/sync/semaphore"
	"golang.org/x/time/rate"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/logging"
	"github.com/mongodb/amboy/outside"
	"github.com/mongodb/amboy/queue"
)

// ErrClosed is wrapped by the error of Serve on a closed Server.
var ErrClosed = errors.New("server is closed")

// ErrRemote is wrapped by the error of Serve for a listener that clients of other machines
// can reach, without Options.AllowRemote.
var ErrRemote = errors.New("the address is not a loopback address")

// Server serves the protocol. It is safe for concurrent use.
//
// Close must be called before the dispatcher and the group are closed.
type Server struct {
	opts       Options
	jobs       *jobs
	dispatcher *outside.Dispatcher
	clock      *clock
	waiters    waiters
	names      names
	// calling, buffered, unwritten and listing bound the memory of commands: how many call
	// the store, the bytes of large blocks and answers, how many large answers wait for
	// that, and how many commands list jobs.
	calling, buffered, unwritten, listing *semaphore.Weighted

	logs    *rate.Limiter
	started time.Time
	evicted atomic.Int64

	// open ends when the Server is closed, and working when Close has no more time.
	open, working     context.Context
	stop, stopWorking context.CancelFunc
	// background counts the goroutines.
	background sync.WaitGroup

	mu        sync.Mutex
	closed    bool
	listeners map[net.Listener]bool
	conns     map[*conn]bool
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
		logs:       rate.NewLimiter(rate.Every(time.Second), logBurst),
		started:    time.Now(),
		listeners:  map[net.Listener]bool{},
		conns:      map[*conn]bool{},
	}
	s.names.most = opts.MaxNames
	s.waiters.byID = map[string]*waiter{}
	s.open, s.stop = context.WithCancel(context.Background())
	s.working, s.stopWorking = context.WithCancel(context.Background())
	s.clock = newClock(s.passed)
	s.background.Go(func() { s.clock.run(s.open) })
	s.background.Go(s.readTimes)
	return s, nil
}

// Serve accepts connections until the Server is closed, and then returns nil. It closes the
// listener. It returns an error that wraps ErrRemote for a listener that is not on a
// loopback address, unless Options.AllowRemote is set, one that wraps ErrClosed if the
// Server is closed, and otherwise the error of the listener. It may be called for several
// listeners.
func (s *Server) Serve(l net.Listener) error {
	if err := s.add(l); err != nil {
		return errors.Join(fmt.Errorf("serving workq at %s: %w", l.Addr(), err), l.Close())
	}
	defer s.background.Done()
	defer s.removeListener(l)
	for {
		raw, err := l.Accept()
		var temporary interface{ Temporary() bool }
		switch {
		case err == nil:
			s.serve(raw)
		case s.open.Err() != nil:
			return nil
		case errors.As(err, &temporary) && temporary.Temporary():
			s.log("could not accept a workq connection", err)
			s.pause(acceptPause)
		default:
			return fmt.Errorf("serving workq at %s: %w", l.Addr(), err)
		}
	}
}

// acceptPause is how long Serve waits after it could not accept a connection, for instance
// because the process has too many files.
const acceptPause = 100 * time.Millisecond

func (s *Server) pause(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-s.open.Done():
	}
}

func (s *Server) add(l net.Listener) error {
	if !s.opts.AllowRemote && !isLocal(l.Addr()) {
		return ErrRemote
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return ErrClosed
	}
	s.listeners[l] = true
	s.background.Add(1)
	return nil
}

func (s *Server) removeListener(l net.Listener) {
	_ = l.Close() // Serve returns why it ended
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.listeners, l)
}

// isLocal reports whether only this machine can reach an address.
func isLocal(address net.Addr) bool {
	switch a := address.(type) {
	case *net.TCPAddr:
		return a.IP.IsLoopback()
	case *net.UnixAddr:
		return true
	default:
		return false
	}
}

// serve serves a connection in the background, or closes it if there are too many.
func (s *Server) serve(raw net.Conn) {
	c := newConn(s, raw)
	s.mu.Lock()
	admitted := !s.closed && len(s.conns) < s.opts.MaxConnections
	if admitted {
		s.conns[c] = true
		s.background.Add(1)
	}
	s.mu.Unlock()
	if !admitted {
		_ = raw.Close() // nothing was written
		return
	}
	go func() {
		defer s.background.Done()
		defer s.remove(c)
		c.serve()
	}()
}

func (s *Server) remove(c *conn) {
	_ = c.raw.Close() // every answer was written, or can't be
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, c)
}

// connections returns the number of open connections.
func (s *Server) connections() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.conns)
}

// Close stops listening, answers the waiting commands as if their time were over, lets the
// other commands finish, and closes the connections. It waits for that until ctx ends; then
// it cuts the connections, and returns an error that wraps that of ctx. Leases stay
// valid. Closing a closed Server only waits.
func (s *Server) Close(ctx context.Context) error {
	s.mu.Lock()
	s.closed = true
	s.stop()
	for l := range s.listeners {
		_ = l.Close() // Serve returns
	}
	for c := range s.conns {
		c.interrupt()
	}
	s.mu.Unlock()
	done := make(chan struct{})
	go func() { // It ends with the goroutines that it waits for.
		s.background.Wait()
		close(done)
	}()
	select {
	case <-done:
		s.stopWorking()
		return nil
	case <-ctx.Done():
	}
	s.stopWorking()
	s.mu.Lock()
	for c := range s.conns {
		_ = c.raw.Close() // the error is that of ctx
	}
	s.mu.Unlock()
	return fmt.Errorf("closing a workq server: %w", ctx.Err())
}

// logBurst is the number of errors that are logged at once.
const logBurst = 10

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
	ctx, cancel := context.WithTimeout(s.working, callLimit)
	if s.calling.Acquire(ctx, 1) != nil {
		return ctx, cancel // it has ended
	}
	return ctx, func() {
		s.calling.Release(1)
		cancel()
	}
}

// log logs an error, at most logBurst and then one per second, so that clients can't fill the
// log.
func (s *Server) log(what string, err error) {
	if !s.logs.Allow() {
		return
	}
	logging.Error(s.working, message.Fields{"message": what, "error": err.Error()})
}
