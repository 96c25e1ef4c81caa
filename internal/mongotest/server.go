// Package mongotest is a MongoDB server inside the test process. It speaks the
// wire protocol to the real, unmodified driver, and holds what a job queue
// uses of MongoDB: commands, operators, indexes, transactions, change streams
// and fail points, with the replies and errors of real servers.
//
// It is strict: a command, a field, an operator or a stage that it does not
// know is an error that names it, and never ignored. It uses indexes as servers
// do in simple cases, so that large collections are no obstacle, but it does
// not choose between them as servers do: what it says about the cost of a query
// (Examined) holds where one index fits. It has no replication: what is written
// is committed by the majority at once.
//
// Tests that can run on a real server too get theirs from Open.
package mongotest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"go.mongodb.org/mongo-driver/bson"
	"go.mongodb.org/mongo-driver/bson/primitive"
	"go.mongodb.org/mongo-driver/mongo/options"
)

// replicaSetName is the name of the set of which the server is the primary.
const replicaSetName = "rs0"

// memoryAddress is the name of a server that has no port.
const memoryAddress = "mongotest.invalid:27017"

// Options are what a server is started with. The zero value is the primary of
// a replica set of one member, on a free port of 127.0.0.1.
type Options struct {
	// Standalone makes it a server without a replica set: no transactions,
	// no retryable writes, no change streams.
	Standalone bool
	// InMemory makes it listen on no port. Clients reach it through
	// ClientOptions or DialContext only, and their connections are pipes, so
	// that both sides can run in one bubble of testing/synctest.
	InMemory bool
	// TransactionLifetime is the age at which a transaction is aborted with the
	// next command, as transactionLifetimeLimitSeconds is on a server. Default: one
	// minute.
	TransactionLifetime time.Duration
}

// Server is a MongoDB server in the process of the test. All its methods are
// safe for concurrent use. Close must be called.
type Server struct {
	options  Options
	address  string
	listener net.Listener // nil when it is in memory
	closed   chan struct{}
	joined   sync.WaitGroup

	connMu   sync.Mutex
	conns    map[net.Conn]struct{}
	refusing bool // new connections

	failMu sync.Mutex
	fail   *failPoint

	// mu guards the data: one lock for all of it.
	mu          sync.Mutex
	clock       uint64 // of the last commit
	topology    topology
	collections map[string]*collection
	open        map[*transaction]struct{}
	stale       []staleRecord // for which an open transaction is too old
	sessions    map[string]*session
	cursors     map[int64]cursor
	lastCursor  int64
	examined    Examined
	events      []*changeEvent
	forgotten   int           // how many events are no longer in events
	changed     chan struct{} // closed and replaced when an event is added
}

// New starts a server.
func New(opts Options) (*Server, error) {
	if opts.TransactionLifetime < 0 {
		return nil, fmt.Errorf("mongotest: TransactionLifetime is %s, it must not be negative", opts.TransactionLifetime)
	}
	if opts.TransactionLifetime == 0 {
		opts.TransactionLifetime = time.Minute
	}
	s := &Server{
		options:     opts,
		address:     memoryAddress,
		closed:      make(chan struct{}),
		topology:    newTopology(),
		conns:       map[net.Conn]struct{}{},
		collections: map[string]*collection{},
		open:        map[*transaction]struct{}{},
		sessions:    map[string]*session{},
		cursors:     map[int64]cursor{},
		changed:     make(chan struct{}),
	}
	if opts.InMemory {
		return s, nil
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("mongotest: listening: %w", err)
	}
	s.listener = listener
	s.address = listener.Addr().String()
	s.joined.Add(1)
	go s.accept()
	return s, nil
}

// URI is the connection string of the server. A client of a server in memory
// needs the dialer of ClientOptions besides it.
func (s *Server) URI() string {
	if s.options.Standalone {
		return "mongodb://" + s.address + "/?directConnection=true"
	}
	return "mongodb://" + s.address + "/?replicaSet=" + replicaSetName
}

// ClientOptions returns new options of a client of this server.
func (s *Server) ClientOptions() *options.ClientOptions {
	opts := options.Client().ApplyURI(s.URI())
	if s.options.InMemory {
		opts.SetDialer(s)
	}
	return opts
}

// DialContext opens a connection to the server, whatever the address says. It
// makes the server a dialer of the driver.
func (s *Server) DialContext(ctx context.Context, network, _ string) (net.Conn, error) {
	if !s.options.InMemory {
		var d net.Dialer
		return d.DialContext(ctx, network, s.address)
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("mongotest: dialing: %w", err)
	}
	client, server := net.Pipe()
	if !s.start(server) {
		return nil, errors.Join(errors.New("mongotest: connection refused"), client.Close())
	}
	return client, nil
}

// Disconnect cuts all connections there are. New ones are accepted, unless
// Refuse was called before.
func (s *Server) Disconnect() {
	s.connMu.Lock()
	defer s.connMu.Unlock()
	for conn := range s.conns {
		_ = conn.Close() // its goroutine sees that it is closed, and ends
	}
}

// Connections returns the number of connections.
func (s *Server) Connections() int {
	s.connMu.Lock()
	defer s.connMu.Unlock()
	return len(s.conns)
}

// Refuse makes the server refuse new connections, as one does that clients can't
// reach. Those there are stay.
func (s *Server) Refuse() { s.setRefusing(true) }

// Accept makes the server accept connections again.
func (s *Server) Accept() { s.setRefusing(false) }

func (s *Server) setRefusing(refusing bool) {
	s.connMu.Lock()
	defer s.connMu.Unlock()
	s.refusing = refusing
}

// Close cuts all connections, ends all waits, and returns when no goroutine of
// the server is left. More calls do nothing.
func (s *Server) Close() {
	s.connMu.Lock()
	select {
	case <-s.closed:
	default:
		close(s.closed)
		if s.listener != nil {
			_ = s.listener.Close() // accept sees that it is closed, and ends
		}
	}
	s.connMu.Unlock()
	s.Disconnect()
	s.joined.Wait()
}

func (s *Server) accept() {
	defer s.joined.Done()
	for {
		conn, err := s.listener.Accept()
		if err != nil {
			return
		}
		s.start(conn)
	}
}

// start serves a connection on a goroutine of its own. It reports whether the
// server does.
func (s *Server) start(conn net.Conn) bool {
	s.connMu.Lock()
	defer s.connMu.Unlock()
	closed := s.refusing
	select {
	case <-s.closed:
		closed = true
	default:
	}
	if closed {
		_ = conn.Close() // nobody uses it
		return false
	}
	s.conns[conn] = struct{}{}
	s.joined.Add(1)
	go s.serve(conn)
	return true
}

// serve answers the commands of one connection, one after another.
func (s *Server) serve(conn net.Conn) {
	defer s.joined.Done()
	defer func() {
		s.connMu.Lock()
		delete(s.conns, conn)
		s.connMu.Unlock()
		_ = conn.Close() // it may be closed already
	}()
	client := &peer{messages: make(chan *message), gone: make(chan struct{})}
	served := make(chan struct{})
	defer close(served)
	s.joined.Go(func() { client.read(conn, served) })
	for {
		var m *message
		select {
		case m = <-client.messages:
		case <-client.gone:
			return
		}
		document, err := s.answer(client, m.command)
		if err != nil {
			return
		}
		if m.moreToCome {
			continue
		}
		if _, err = conn.Write(m.reply(document)); err != nil {
			return
		}
	}
}

// peer is what a server knows of the client of a connection.
type peer struct {
	appName  string
	messages chan *message
	gone     chan struct{} // closed when there will be no more messages
}

// read reads messages until there are no more, or served is closed, so that a command
// that waits sees when its client has hung up.
func (p *peer) read(conn net.Conn, served <-chan struct{}) {
	defer close(p.gone)
	for {
		// An error here is a peer that left or that speaks another protocol;
		// servers close the connection in both cases.
		m, err := readMessage(conn)
		if err != nil {
			return
		}
		select {
		case p.messages <- m:
		case <-served:
			return
		}
	}
}

// answer runs a command and returns the reply. An error means that the
// connection is to be closed without one.
func (s *Server) answer(client *peer, command bson.Raw) (bson.Raw, error) {
	req, err := newRequest(s, client, command)
	var reply bson.D
	if err == nil {
		reply, err = s.runWithFaults(req)
	}
	if errors.Is(err, errCloseConnection) {
		return nil, err
	}
	if err != nil {
		e := *asCommandError(err)
		if req != nil && e.labels == nil {
			e.label(req)
		}
		reply = s.withTopology(e.reply(), e.code)
	} else {
		reply = append(reply, bson.E{Key: "ok", Value: 1.0})
	}
	encoded, err := encodeDocument(append(reply, s.times()...))
	if err != nil {
		return nil, fmt.Errorf("encoding a reply: %w", err)
	}
	return encoded, nil
}

// times are the fields by which a replica set tells its clients the time.
func (s *Server) times() bson.D {
	if s.options.Standalone {
		return nil
	}
	s.mu.Lock()
	now := timestamp(s.clock)
	s.mu.Unlock()
	signature := bson.D{{Key: "hash", Value: make([]byte, 20)}, {Key: "keyId", Value: int64(0)}}
	return bson.D{
		{Key: "$clusterTime", Value: bson.D{{Key: "clusterTime", Value: now}, {Key: "signature", Value: signature}}},
		{Key: "operationTime", Value: now},
	}
}

// timestamp is the cluster time of a commit: the seconds stand still, so that
// it does not depend on the test's clock.
func timestamp(clock uint64) primitive.Timestamp {
	return primitive.Timestamp{T: 1, I: uint32(clock)}
}
