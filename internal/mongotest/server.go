// Package mongotest provides a MongoDB server inside the test process. It speaks the wire
// protocol to the real, unmodified driver. It supports what a job queue uses of MongoDB:
// commands, operators, indexes, transactions, change streams and fail points, with the
// replies and errors of real servers.
//
// It is strict: an unsupported command, field, operator or stage is an error that names
// it, and is never ignored. It uses indexes as servers do in simple cases, so that large
// collections are fast, but it does not choose between indexes as servers do: the cost of
// a query that Examined reports is meaningful if only one index fits. It has no other
// members: the majority has each write at once, unless a test says otherwise with
// HoldReplication and FailOver.
//
// Tests that can also run on a real server use Open.
package mongotest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"go.mongodb.org/mongo-driver/bson"
	"go.mongodb.org/mongo-driver/bson/primitive"
	"go.mongodb.org/mongo-driver/mongo/options"

	"github.com/mongodb/amboy/internal/mongotest/codec"
)

// replicaSetName is the name of the server's replica set.
const replicaSetName = "rs0"

// memoryAddress is the address of a server that listens on no port.
const memoryAddress = "mongotest.invalid:27017"

// Options configure a server. The zero value is the primary of a replica set with one
// member, on a free port of 127.0.0.1.
type Options struct {
	// Standalone makes the server one without a replica set: no transactions, no
	// retryable writes, no change streams.
	Standalone bool
	// InMemory makes the server listen on no port. Clients reach it only through
	// ClientOptions or DialContext. Their connections are pipes, so that both sides can
	// run in one bubble of testing/synctest.
	InMemory bool
	// TransactionLifetime is the age at which a transaction is aborted by the next
	// command, like transactionLifetimeLimitSeconds on a server. Default: one minute.
	TransactionLifetime time.Duration
	// WireVersion is the highest version of the wire protocol. Default: that of MongoDB 7.0.
	WireVersion int32
	// SortMemory is how many bytes of documents a sort may keep that no index provides, and how
	// many of its results a $group may that must not use the disk.
	// Default: 100 MiB, as on a server. See
	// https://www.mongodb.com/docs/manual/reference/limits/#mongodb-limit-Sort-Operations.
	SortMemory int
	// ClockAhead is by how much the time that hello shows is ahead of the clock of the test.
	ClockAhead time.Duration
}

// Server is a MongoDB server in the process of the test. All its methods are
// safe for concurrent use. Close must be called.
type Server struct {
	options  Options
	address  string
	listener net.Listener // nil if the server is in memory
	closed   chan struct{}
	joined   sync.WaitGroup

	connMu   sync.Mutex
	conns    map[net.Conn]struct{}
	refusing bool // new connections

	failMu sync.Mutex
	fail   *failPoint
	late   []*request

	intercept atomic.Pointer[func(Intercepted) Fate]

	// mu guards all data.
	mu          sync.Mutex
	clock       uint64 // of the last commit
	topology    topology
	replication replication
	memberBack  chan struct{} // closed when the lost member is back; nil if none is lost
	collections map[string]*collection
	open        map[*transaction]struct{}
	stale       []staleRecord // records with versions that only an old transaction sees
	sessions    map[string]*session
	cursors     map[int64]cursor
	lastCursor  int64
	costs       *costs
	events      []*changeEvent
	forgotten   int           // the number of events that were removed from events
	changed     chan struct{} // closed and replaced when an event is added
}

// localTime returns the time that hello shows.
func (s *Server) localTime() time.Time { return time.Now().Add(s.options.ClockAhead) }

// New starts a server.
func New(opts Options) (*Server, error) {
	if opts.TransactionLifetime < 0 {
		return nil, fmt.Errorf("mongotest: TransactionLifetime must not be negative (is %s)", opts.TransactionLifetime)
	}
	if opts.TransactionLifetime == 0 {
		opts.TransactionLifetime = time.Minute
	}
	if opts.WireVersion == 0 {
		opts.WireVersion = maxWireVersion
	}
	if opts.SortMemory == 0 {
		opts.SortMemory = 100 << 20
	}
	s := &Server{
		options:     opts,
		address:     memoryAddress,
		closed:      make(chan struct{}),
		topology:    newTopology(),
		replication: replication{changed: make(chan struct{})},
		conns:       map[net.Conn]struct{}{},
		collections: map[string]*collection{},
		open:        map[*transaction]struct{}{},
		sessions:    map[string]*session{},
		cursors:     map[int64]cursor{},
		changed:     make(chan struct{}),
		costs:       newCosts(),
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

// URI returns the connection string of the server. A client of an in-memory server also
// needs the dialer of ClientOptions.
func (s *Server) URI() string {
	if s.options.Standalone {
		return "mongodb://" + s.address + "/?directConnection=true"
	}
	return "mongodb://" + s.address + "/?replicaSet=" + replicaSetName
}

// ClientOptions returns new options for a client of this server.
func (s *Server) ClientOptions() *options.ClientOptions {
	opts := options.Client().ApplyURI(s.URI())
	if s.options.InMemory {
		opts.SetDialer(s)
	}
	return opts
}

// DialContext opens a connection to the server, whatever the address is. It implements
// the driver's ContextDialer.
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

// Disconnect closes all current connections. New ones are accepted, unless Refuse was
// called before.
func (s *Server) Disconnect() {
	s.connMu.Lock()
	defer s.connMu.Unlock()
	for conn := range s.conns {
		_ = conn.Close() // its goroutine ends because it is closed
	}
}

// Connections returns the number of connections.
func (s *Server) Connections() int {
	s.connMu.Lock()
	defer s.connMu.Unlock()
	return len(s.conns)
}

// Refuse makes the server refuse new connections, like an unreachable server. Current
// connections stay open.
func (s *Server) Refuse() { s.setRefusing(true) }

// Accept makes the server accept connections again.
func (s *Server) Accept() { s.setRefusing(false) }

func (s *Server) setRefusing(refusing bool) {
	s.connMu.Lock()
	defer s.connMu.Unlock()
	s.refusing = refusing
}

// Close closes all connections, ends all waits, and returns when no goroutine of the
// server is left. Further calls do nothing.
func (s *Server) Close() {
	s.connMu.Lock()
	select {
	case <-s.closed:
	default:
		close(s.closed)
		if s.listener != nil {
			_ = s.listener.Close() // accept ends because it is closed
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

// start serves a connection in a new goroutine. It reports whether the server accepts the
// connection.
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
		_ = conn.Close() // not in use
		return false
	}
	s.conns[conn] = struct{}{}
	s.joined.Add(1)
	go s.serve(conn)
	return true
}

// serve answers the commands of one connection, one after the other.
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

// peer is the client of a connection.
type peer struct {
	appName  string
	messages chan *message
	gone     chan struct{} // closed when there will be no more messages
}

// read reads messages until there are no more or served is closed, so that a waiting
// command learns that its client has hung up.
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

// answer runs a command and returns the reply. An error means that the connection must be
// closed without a reply.
func (s *Server) answer(client *peer, command bson.Raw) (bson.Raw, error) {
	req, err := newRequest(s, client, command)
	var reply bson.D
	if err == nil {
		reply, err = s.serveRequest(req)
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
	encoded, err := codec.Encode(append(reply, s.times()...))
	if err != nil {
		return nil, fmt.Errorf("encoding a reply: %w", err)
	}
	return encoded, nil
}

// times returns the fields by which a replica set tells its clients the cluster time.
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

// timestamp returns the cluster time of a commit. Its seconds are constant, so that it
// does not depend on the test's clock.
func timestamp(clock uint64) primitive.Timestamp {
	return primitive.Timestamp{T: 1, I: uint32(clock)}
}
