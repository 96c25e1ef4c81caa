package suite_test

import (
	"flag"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/amboytest"
	"github.com/mongodb/amboy/codec"
	"github.com/mongodb/amboy/internal/mongotest"
	"github.com/mongodb/amboy/internal/pgtest"
	"github.com/mongodb/amboy/queue"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/memory"
	"github.com/mongodb/amboy/queue/driver/mongodb"
	"github.com/mongodb/amboy/queue/driver/postgres"
	"github.com/mongodb/amboy/queue/driver/sqlite"
)

var variants = flag.Bool("suite.variants", false, "also run the whole suite on the variants of stores")

// queues are the kinds of queues that the suite runs on.
var queues = []kind{
	{name: "local", faked: true, newStore: localStore},
	{name: "memory", faked: true, stored: true, newStore: memoryStore},
	{name: "memory with codec", faked: true, stored: true, newStore: codecStore},
	{name: "amboytest", faked: true, stored: true, newStore: inlineStore},
	{name: "sqlite", stored: true, shared: true, newStore: sqliteStore},
	{name: "postgres", stored: true, shared: true, newStore: postgresStore},
	{name: "mongodb", stored: true, shared: true, newStore: mongodbStore(mongotest.ReplicaSet())},
	{name: "mongodb standalone", variant: true, stored: true, shared: true, newStore: mongodbStore(mongotest.Standalone())},
}

// kind is a kind of queue.
type kind struct {
	name string
	// faked: the queue works in a bubble of synctest, so that time passes at once. It
	// does not pass while the queue waits for a system call.
	faked bool
	// variant: the kind differs from another only in its transactions, which are tested
	// with the driver. By default it runs only the tests of onAll.
	variant bool
	// stored: jobs are held in their stored form. Changes that a job makes to itself are
	// visible when it has ended, and Get returns a copy.
	stored bool
	// shared: two queues may be opened on one store.
	shared bool
	// newStore creates an empty store and returns a function that opens a queue on it.
	newStore func(t *testing.T) (open func(options) (amboy.Queue, error))
}

// options are the settings of a queue. The zero value is a queue with one worker, whose
// jobs may be put before it is started.
type options struct {
	workers   int // 0 for one
	retryable queue.RetryableQueueOptions
	codec     codec.Codec
}

func (o options) numWorkers() int { return max(1, o.workers) }

func localStore(*testing.T) func(options) (amboy.Queue, error) {
	return func(o options) (amboy.Queue, error) {
		return queue.NewLocal(queue.LocalOptions{
			NumWorkers:     o.numWorkers(),
			PutBeforeStart: true,
			RetryPolicy:    o.retryable.RetryHandler.RetryPolicy,
		})
	}
}

func memoryStore(t *testing.T) func(options) (amboy.Queue, error) {
	store, err := memory.New(memory.Options{KeepFinished: 10_000})
	require.NoError(t, err)
	return func(o options) (amboy.Queue, error) { return openQueue(store, o) }
}

func codecStore(t *testing.T) func(options) (amboy.Queue, error) {
	encrypting, err := codec.NewAESGCM(codec.Key{ID: "suite", Secret: make([]byte, codec.KeyBytes)})
	require.NoError(t, err)
	open := memoryStore(t)
	return func(o options) (amboy.Queue, error) {
		o.codec = encrypting
		return open(o)
	}
}

func inlineStore(t *testing.T) func(options) (amboy.Queue, error) {
	return func(o options) (amboy.Queue, error) {
		return amboytest.NewWithOptions(t, queue.InlineOptions{Retryable: o.retryable}), nil
	}
}

func sqliteStore(t *testing.T) func(options) (amboy.Queue, error) {
	path := filepath.Join(t.TempDir(), "jobs.db")
	return func(o options) (amboy.Queue, error) {
		store, err := sqlite.Open(t.Context(), sqlite.Options{Path: path})
		if err != nil {
			return nil, err
		}
		return openQueue(store, o)
	}
}

func postgresStore(t *testing.T) func(options) (amboy.Queue, error) {
	pool, schema := pgtest.Pool(t), pgtest.EmptySchema(t)
	return func(o options) (amboy.Queue, error) {
		store, err := postgres.Open(t.Context(), postgres.Options{Pool: pool, Schema: schema})
		if err != nil {
			return nil, err
		}
		return openQueue(store, o)
	}
}

func mongodbStore(deployment mongotest.Option) func(*testing.T) func(options) (amboy.Queue, error) {
	return func(t *testing.T) func(options) (amboy.Queue, error) {
		d := mongotest.Open(t, deployment)
		return func(o options) (amboy.Queue, error) {
			store, err := mongodb.Open(t.Context(), mongodb.Options{
				Client:       d.Client(),
				DB:           d.Database(),
				Collection:   "suite",
				Grouped:      true,
				PollInterval: 20 * time.Millisecond,
			})
			if err != nil {
				return nil, err
			}
			return openQueue(store, o)
		}
	}
}

func openQueue(store driver.Driver, o options) (amboy.Queue, error) {
	return queue.NewDriverQueue(queue.DriverQueueOptions{
		Driver:      store,
		CloseDriver: true,
		Name:        "suite",
		NumWorkers:  o.numWorkers(),
		Retryable:   o.retryable,
		Codec:       o.codec,
		// needed if the store does not notify of changes
		PollInterval: 20 * time.Millisecond,
	})
}

// onEach runs a test on each queue, with an empty store.
func onEach(t *testing.T, test func(*fixture)) {
	t.Helper()
	onThose(t, anyKind, test)
}

// onThose is onEach for some kinds of queues.
func onThose(t *testing.T, apply func(kind) bool, test func(*fixture)) {
	t.Helper()
	onAll(t, func(k kind) bool { return apply(k) && (!k.variant || *variants) }, test)
}

// onAll is onThose including the variants.
func onAll(t *testing.T, apply func(kind) bool, test func(*fixture)) {
	t.Helper()
	for _, k := range queues {
		if !apply(k) {
			continue
		}
		t.Run(k.name, func(t *testing.T) {
			if !k.faked {
				test(newFixture(t, k))
				return
			}
			synctest.Test(t, func(t *testing.T) { test(newFixture(t, k)) })
		})
	}
}

// Selections of kinds for onThose.
var (
	anyKind = func(kind) bool { return true }
	faked   = func(k kind) bool { return k.faked }
	stored  = func(k kind) bool { return k.stored }
	shared  = func(k kind) bool { return k.shared }
)
