// Package connserver accepts connections for protocols without a login: it refuses listeners
// that other machines can reach, limits the connections of all clients and of each, drops
// idle and slow clients, and stops without cutting answers off.
package connserver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/mongodb/grip/message"
	"golang.org/x/time/rate"

	"github.com/mongodb/amboy/internal/logging"
)

// ErrClosed is wrapped by the errors of Serve, and of reads of a connection, after Close.
var ErrClosed = errors.New("server is closed")

// ErrNotLoopback is wrapped by the error of Serve for a listener that other machines can
// reach, unless Options.AllowRemote is set.
var ErrNotLoopback = errors.New("address is not a loopback address, and the protocol has no login")

// Options configure a Server. All are required but AllowRemote.
type Options struct {
	// Protocol names the protocol in errors and in the log.
	Protocol string
	// AllowRemote allows listeners that other machines can reach.
	AllowRemote bool
	// MaxConnections is the maximum number of open connections, and MaxPerClient that of one
	// client: of an IPv4 address, or of the /64 network of an IPv6 address. Clients on this
	// machine are not limited by it. Further connections are closed at once.
	MaxConnections, MaxPerClient int
	// IdleTimeout is how long a client may take to begin a request, ReadTimeout how long it
	// may take to send the rest, and WriteTimeout how long it may take to receive an answer.
	IdleTimeout, ReadTimeout, WriteTimeout time.Duration
}

// Server serves connections. It is safe for concurrent use.
type Server struct {
	opts   Options
	handle func(*Conn)
	logs   *rate.Limiter

	// open ends when Close begins, and working when nothing is left to do, or the context of
	// Close ends.
	open, working     context.Context
	stop, stopWorking context.CancelFunc
	// background counts the goroutines and the calls of Serve.
	background sync.WaitGroup

	places *places

	mu        sync.Mutex
	closed    bool
	listeners map[net.Listener]bool
	conns     map[*Conn]bool
}

// New returns a Server that calls handle for each connection, in a goroutine of its own.
// The connection is closed when handle returns.
func New(opts Options, handle func(*Conn)) *Server {
	s := &Server{
		opts: opts, handle: handle, logs: rate.NewLimiter(rate.Every(time.Second), logBurst),
		listeners: map[net.Listener]bool{}, conns: map[*Conn]bool{}, places: newPlaces(opts.MaxConnections, opts.MaxPerClient),
	}
	s.open, s.stop = context.WithCancel(context.Background())
	s.working, s.stopWorking = context.WithCancel(context.Background())
	return s
}

// Open returns a context that ends when Close begins.
func (s *Server) Open() context.Context { return s.open }

// Working returns a context for work that a request began: it ends when Close has waited for
// all connections, or has no more time.
func (s *Server) Working() context.Context { return s.working }

// Go runs a function in the background. Close waits for it. It must end with Open, and must
// not be called after Close.
func (s *Server) Go(run func()) { s.background.Go(run) }

// Connections returns the number of open connections.
func (s *Server) Connections() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.conns)
}

// Serve accepts connections until the Server or the listener is closed, and closes the
// listener. It returns an error that wraps ErrClosed when the Server is closed, one that
// wraps ErrNotLoopback for a listener that is not allowed, and otherwise the error of the
// listener. It may be called for several listeners.
func (s *Server) Serve(l net.Listener) error {
	err := s.addListener(l)
	if err != nil {
		return errors.Join(fmt.Errorf("serving %s at %s: %w", s.opts.Protocol, l.Addr(), err), l.Close())
	}
	defer s.background.Done()
	defer s.removeListener(l)
	err = s.accept(l)
	if s.open.Err() != nil {
		err = ErrClosed
	}
	return fmt.Errorf("serving %s at %s: %w", s.opts.Protocol, l.Addr(), err)
}

func (s *Server) addListener(l net.Listener) error {
	if !s.opts.AllowRemote && !isLocal(l.Addr()) {
		return ErrNotLoopback
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
		return address.Network() == "pipe" // of net.Pipe
	}
}

// The pauses after an Accept that failed, for instance because the process has too many open
// files.
const (
	minAcceptPause = 5 * time.Millisecond
	maxAcceptPause = time.Second
)

func (s *Server) accept(l net.Listener) error {
	pause := minAcceptPause
	for {
		raw, err := l.Accept()
		var temporary interface{ Temporary() bool }
		switch {
		case err == nil:
			pause = minAcceptPause
			s.start(raw)
		case s.open.Err() == nil && errors.As(err, &temporary) && temporary.Temporary():
			s.Log("could not accept a connection of "+s.opts.Protocol+"; trying again", err)
			s.Pause(pause)
			pause = min(2*pause, maxAcceptPause)
		default:
			return err
		}
	}
}

// Pause waits for a time, or until Close begins.
func (s *Server) Pause(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-s.open.Done():
	}
}

// start serves a connection in the background, or closes it if there are too many.
func (s *Server) start(raw net.Conn) {
	leave, ok := s.places.take(raw.RemoteAddr())
	if !ok {
		_ = raw.Close() // nothing was written
		return
	}
	c := &Conn{Conn: raw, server: s}
	if !s.admit(c) {
		_ = raw.Close() // the same
		leave()
		return
	}
	go func() {
		defer s.background.Done()
		defer leave()
		defer s.remove(c)
		s.handle(c)
	}()
}

func (s *Server) admit(c *Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.conns[c] = true
	s.background.Add(1)
	return true
}

func (s *Server) remove(c *Conn) {
	_ = c.Close() // every answer was written, or can't be
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, c)
}

// Close stops listening, ends Open, lets requests that have begun be answered, and closes the
// connections. It waits for that until ctx ends; then it cuts the connections, and returns
// an error that wraps that of ctx. Closing a closed Server only waits.
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
	defer s.stopWorking()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
	}
	s.mu.Lock()
	left := len(s.conns)
	for c := range s.conns {
		_ = c.Close() // the error is that of ctx
	}
	s.mu.Unlock()
	return fmt.Errorf("closing a server of %s with %d open connections: %w", s.opts.Protocol, left, ctx.Err())
}

// logBurst is the number of errors that are logged at once.
const logBurst = 10

// Log logs an error: a few at once, and then one per second, so that clients can't fill the
// log.
func (s *Server) Log(what string, err error) {
	if s.logs.Allow() {
		logging.Error(s.working, message.Fields{"message": what, "error": err.Error()})
	}
}
