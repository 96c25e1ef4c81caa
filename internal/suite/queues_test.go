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
	"github.com/mongodb/amboy/internal/mongotest"
	"github.com/mongodb/amboy/internal/pgtest"
	"github.com/mongodb/amboy/queue"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/memory"
	"github.com/mongodb/amboy/queue/driver/mongodb"
	"github.com/mongodb/amboy/queue/driver/postgres"
	"github.com/mongodb/amboy/queue/driver/sqlite"
)

var variants = flag.Bool("suite.variants", false, "run the whole suite on the variants of stores too")

// queues are those on which the suite runs.
var queues = []kind{
	{name: "local", faked: true, newStore: localStore},
	{name: "memory", faked: true, stored: true, newStore: memoryStore},
	{name: "amboytest", faked: true, stored: true, newStore: inlineStore},
	{name: "sqlite", stored: true, shared: true, newStore: sqliteStore},
	{name: "postgres", stored: true, shared: true, newStore: postgresStore},
	{name: "mongodb", stored: true, shared: true, newStore: mongodbStore(mongotest.ReplicaSet())},
	{name: "mongodb standalone", variant: true, stored: true, shared: true, newStore: mongodbStore(mongotest.Standalone())},
}

// kind is one of the queues.
type kind struct {
	name string
	// faked: it works in a bubble of synctest, so that time passes at once. In
	// one that waits for a system call it does not pass at all.
	faked bool
	// variant: it differs from another kind in its transactions alone, which are tested
	// with the driver. By default it runs the tests of onAll only.
	variant bool
	// stored: jobs are held in their stored form. What a job does to itself is
	// seen when it has ended, and Get returns a copy.
	stored bool
	// shared: two queues may be opened on one store.
	shared bool
	// newStore makes an empty store, and returns what opens a queue on it.
	newStore func(t *testing.T) (open func(options) (amboy.Queue, error))
}

// options are what a test may choose for a queue. The zero value is a queue with
// one worker, whose jobs may be put before it is started.
type options struct {
	workers   int // 0 for one
	retryable queue.RetryableQueueOptions
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
	server, schema := pgtest.URL(t), pgtest.Schema(t)
	return func(o options) (amboy.Queue, error) {
		store, err := postgres.Open(t.Context(), postgres.Options{URL: server, Schema: schema})
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
		// It matters where the store tells of no changes.
		PollInterval: 20 * time.Millisecond,
	})
}

// onEach runs a test on each queue, with an empty store.
func onEach(t *testing.T, test func(*fixture)) {
	t.Helper()
	onThose(t, anyKind, test)
}

// onThose is onEach for the queues of some kinds.
func onThose(t *testing.T, apply func(kind) bool, test func(*fixture)) {
	t.Helper()
	onAll(t, func(k kind) bool { return apply(k) && (!k.variant || *variants) }, test)
}

// onAll is onThose, on the variants too.
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

// The kinds that onThose is asked for.
var (
	anyKind = func(kind) bool { return true }
	faked   = func(k kind) bool { return k.faked }
	stored  = func(k kind) bool { return k.stored }
	shared  = func(k kind) bool { return k.shared }
)
