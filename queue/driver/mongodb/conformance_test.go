package mongodb_test

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/bson"
	"go.mongodb.org/mongo-driver/mongo"
	"go.mongodb.org/mongo-driver/mongo/options"

	"github.com/mongodb/amboy/internal/mongotest"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/drivertest"
	"github.com/mongodb/amboy/queue/driver/mongodb"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	conform(t, newBreakable, false)
}

func TestConformanceOfAStandalone(t *testing.T) {
	t.Parallel()
	conform(t, func(t *testing.T) *breakable {
		return newBreakableOf(t, mongotest.Options{InMemory: true, Standalone: true})
	}, true)
}

// conform runs the suite on new stores.
func conform(t *testing.T, newStore func(t *testing.T) *breakable, variant bool) {
	t.Helper()
	var mu sync.Mutex
	stores := map[driver.Driver]*breakable{}
	clients := map[driver.Driver]*mongo.Client{}
	open := func(t *testing.T, s *breakable, client *mongo.Client) driver.Driver {
		t.Helper()
		d, err := mongodb.Open(t.Context(), mongodb.Options{
			Client:       client,
			DB:           s.db,
			Collection:   "work",
			Grouped:      true,
			PollInterval: 5 * time.Millisecond,
		})
		require.NoError(t, err)
		mu.Lock()
		defer mu.Unlock()
		stores[d], clients[d] = s, client
		return d
	}
	storeOf := func(d driver.Driver) *breakable {
		mu.Lock()
		defer mu.Unlock()
		return stores[d]
	}
	again := func(t *testing.T, d driver.Driver) driver.Driver {
		t.Helper()
		s := storeOf(d)
		return open(t, s, s.connect())
	}
	drivertest.Run(t, drivertest.Harness{
		Variant: variant,
		Open: func(t *testing.T) driver.Driver {
			s := newStore(t)
			return open(t, s, s.client)
		},
		Elapse: func(t *testing.T, d driver.Driver, by time.Duration) {
			endLeases(t, storeOf(d).jobs(true), by)
			fillBuckets(t, storeOf(d).control(), by)
		},
		StepClock:  func(t *testing.T, d driver.Driver, by time.Duration) { fillBuckets(t, storeOf(d).control(), by) },
		Reopen:     again,
		Share:      again,
		ReadLittle: func(d driver.Driver, n int) { d.(*mongodb.Driver).TimedAtOnce(n) },
		Break: func(t *testing.T, d driver.Driver) (repair func()) {
			mu.Lock()
			client := clients[d]
			mu.Unlock()
			connect := storeOf(d).cut()
			return func() {
				connect()
				// Until a new connection works, calls may fail because others drop the
				// client's connections.
				for client.Ping(t.Context(), nil) != nil && t.Context().Err() == nil {
					<-time.After(time.Millisecond)
				}
			}
		},
		IsUnknown: func(err error) bool { return errors.Is(err, driver.ErrOutcomeUnknown) },
		Begin: func(ctx context.Context, t *testing.T, d driver.Driver) drivertest.Transaction {
			mu.Lock()
			client := clients[d]
			mu.Unlock()
			session, err := client.StartSession()
			require.NoError(t, err)
			t.Cleanup(func() { session.EndSession(context.WithoutCancel(ctx)) })
			require.NoError(t, session.StartTransaction())
			return drivertest.Transaction{
				Context:  mongo.NewSessionContext(ctx, session),
				Commit:   func() error { return session.CommitTransaction(context.WithoutCancel(ctx)) },
				Rollback: func() error { return session.AbortTransaction(context.WithoutCancel(ctx)) },
			}
		},
	})
}

// endLeases makes leases end earlier, because the clock of the server can't be moved.
func endLeases(t testing.TB, jobs *mongo.Collection, by time.Duration) {
	t.Helper()
	earlier := func(path string) bson.D {
		return bson.D{{Key: "$subtract", Value: bson.A{"$" + path, by.Milliseconds()}}}
	}
	_, err := jobs.UpdateMany(t.Context(), bson.D{{Key: "status.in_prog", Value: true}}, mongo.Pipeline{{{Key: "$set", Value: bson.D{
		{Key: "status.mod_ts", Value: earlier("status.mod_ts")},
		{Key: "lease_until", Value: earlier("lease_until")},
	}}}})
	require.NoError(t, err)
}

// fillBuckets makes tokens of rates come earlier, because the clock of the server can't be moved.
func fillBuckets(t testing.TB, control *mongo.Collection, by time.Duration) {
	t.Helper()
	for _, prefix := range []string{"rate", "type-rate"} {
		_, err := control.UpdateMany(t.Context(), bson.D{{Key: "_id", Value: bson.D{{Key: "$gte", Value: prefix + "/"}, {Key: "$lt", Value: prefix + "0"}}}},
			bson.D{{Key: "$inc", Value: bson.D{{Key: "from", Value: -float64(by.Milliseconds())}}}})
		require.NoError(t, err)
	}
}

// breakable is a store whose connections can be cut.
type breakable struct {
	*store
	dialer *dialer
}

func newBreakable(t *testing.T) *breakable {
	t.Helper()
	if serverURI != "" {
		return newBreakableOn(t, options.Client().ApplyURI(serverURI), &net.Dialer{})
	}
	return newBreakableOf(t, mongotest.Options{InMemory: true})
}

func newBreakableOf(t *testing.T, opts mongotest.Options) *breakable {
	t.Helper()
	server, err := mongotest.New(opts)
	require.NoError(t, err)
	t.Cleanup(server.Close)
	return newBreakableOn(t, server.ClientOptions(), server)
}

func newBreakableOn(t *testing.T, opts *options.ClientOptions, to options.ContextDialer) *breakable {
	t.Helper()
	d := &dialer{to: to, conns: map[net.Conn]bool{}}
	// The client library may miss the answer of a server if it begins to wait at the same
	// instant (Topology.Subscribe reads the state before it subscribes to changes). It
	// notices at the next heartbeat, which must come before its timeout.
	opts.SetDialer(d).SetServerSelectionTimeout(5 * time.Second).SetHeartbeatInterval(time.Second)
	return &breakable{store: newStoreOn(t, opts), dialer: d}
}

// cut closes all connections and refuses new ones until repair is called.
func (s *breakable) cut() (repair func()) {
	s.dialer.broken.Store(true)
	s.dialer.disconnect()
	return func() { s.dialer.broken.Store(false) }
}

// dialer is a dialer that can be broken.
type dialer struct {
	to     options.ContextDialer
	broken atomic.Bool
	mu     sync.Mutex
	conns  map[net.Conn]bool
}

// DialContext implements options.ContextDialer.
func (d *dialer) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	if d.broken.Load() {
		return nil, errors.New("the network is cut")
	}
	conn, err := d.to.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.conns[conn] = true
	return conn, nil
}

func (d *dialer) disconnect() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for conn := range d.conns {
		_ = conn.Close() // it may be closed already
		delete(d.conns, conn)
	}
}
