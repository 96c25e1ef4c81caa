package mongodb_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/event"
	"go.mongodb.org/mongo-driver/mongo"
	"go.mongodb.org/mongo-driver/mongo/options"
	"go.uber.org/goleak"

	"github.com/mongodb/amboy/internal/mongotest"
	"github.com/mongodb/amboy/job"
	"github.com/mongodb/amboy/queue/driver/mongodb"
)

func TestMain(m *testing.M) {
	job.RegisterDefaultJobs()
	goleak.VerifyTestMain(m)
}

// serverURI is the URI of a real server. If it is set, the tests run on that server
// instead of the stand-in.
var serverURI = os.Getenv("AMBOY_TEST_MONGODB_URI")

// store is the database of a test, with a client.
type store struct {
	testing.TB
	options *options.ClientOptions
	client  *mongo.Client
	db      string

	mu   sync.Mutex
	sent []string // the commands that were sent, with their collections
}

// newStore returns an empty database on a replica set, or on the server that the
// environment names.
func newStore(tb testing.TB) *store {
	tb.Helper()
	if serverURI != "" {
		return newStoreOn(tb, options.Client().ApplyURI(serverURI))
	}
	return newStoreOf(tb, mongotest.Options{InMemory: true})
}

// inFakeTime runs a test in the time of a bubble of testing/synctest, except on a real server. What the driver does by
// itself after a while, such as a sweep up to a second after the first claim, then never comes between the calls of
// the test, however slow the machine is.
func inFakeTime(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	if serverURI != "" {
		test(t)
		return
	}
	synctest.Test(t, test)
}

func newStoreOf(tb testing.TB, opts mongotest.Options) *store {
	tb.Helper()
	server, err := mongotest.New(opts)
	require.NoError(tb, err)
	tb.Cleanup(server.Close)
	return newStoreOn(tb, server.ClientOptions())
}

func newStoreOn(tb testing.TB, opts *options.ClientOptions) *store {
	tb.Helper()
	s := &store{TB: tb, options: opts, db: fmt.Sprintf("amboy_test_%x", rand.Uint64())} //nolint:gosec // It is no secret.
	s.options.SetMonitor(&event.CommandMonitor{Started: func(_ context.Context, e *event.CommandStartedEvent) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if name, ok := e.Command.Lookup(e.CommandName).StringValueOK(); ok {
			s.sent = append(s.sent, e.CommandName+" "+name)
		}
	}})
	client := s.connect()
	s.client = client // which stays connected until the end, even if a test replaces s.client
	tb.Cleanup(func() { assert.NoError(tb, client.Database(s.db).Drop(context.Background())) })
	return s
}

// commands returns the commands that a call sends.
func (s *store) commands(call func()) []string {
	s.Helper()
	take := func() []string {
		s.mu.Lock()
		defer s.mu.Unlock()
		sent := s.sent
		s.sent = nil
		return sent
	}
	take()
	call()
	return take()
}

// connect returns another client.
func (s *store) connect() *mongo.Client {
	s.Helper()
	client, err := mongo.Connect(s.Context(), s.options)
	require.NoError(s, err)
	s.Cleanup(func() { assert.NoError(s, client.Disconnect(context.Background())) })
	return client
}

// open opens a driver of many queues on the collection "work.group", unless the changes
// set other options.
func (s *store) open(change ...func(*mongodb.Options)) *mongodb.Driver {
	s.Helper()
	return s.openIn(s.Context(), change...)
}

// openIn is open with a context whose values those of the driver's own calls have.
func (s *store) openIn(ctx context.Context, change ...func(*mongodb.Options)) *mongodb.Driver {
	s.Helper()
	opts := mongodb.Options{Client: s.client, DB: s.db, Collection: "work", Grouped: true}
	for _, c := range change {
		c(&opts)
	}
	d, err := mongodb.Open(ctx, opts)
	require.NoError(s, err)
	s.Cleanup(func() { assert.NoError(s, d.Close(context.WithoutCancel(ctx))) })
	return d
}

// own makes the driver open a store with a single queue.
func own(o *mongodb.Options) { o.Grouped = false }

// control returns the collection of the other documents of a store of several queues.
func (s *store) control() *mongo.Collection {
	return s.client.Database(s.db).Collection("work.group.control")
}

// jobs returns the collection of the jobs.
func (s *store) jobs(grouped bool) *mongo.Collection {
	if grouped {
		return s.client.Database(s.db).Collection("work.group")
	}
	return s.client.Database(s.db).Collection("work.jobs")
}
