package queue_test

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/mongo"
	"go.mongodb.org/mongo-driver/mongo/readpref"
	"go.uber.org/goleak"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/mongotest"
	"github.com/mongodb/amboy/pool"
	"github.com/mongodb/amboy/queue"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/memory"
	"github.com/mongodb/amboy/queue/driver/sqlite"
)

// home is a place where the jobs of a queue are stored, with constructors of queues
// there.
type home struct {
	// queue returns a queue; nil if the constructor has no context.
	queue func(t *testing.T, ctx context.Context) amboy.Queue
	group func(t *testing.T, ctx context.Context) amboy.QueueGroup
	// outlives is true if the jobs outlive the queue, so that another queue finds them.
	outlives bool
	// leaks returns an error if more goroutines run, or more connections are open, than
	// before the first queue was made.
	leaks func() error
	// unharmed checks that nothing was closed that the queue does not own.
	unharmed func(t *testing.T)
}

// goroutines returns a check that waits until no goroutine runs that did not run when
// goroutines was called. It fails after 30 seconds.
func goroutines(ignored ...[]goleak.Option) func() error {
	opts := append(slices.Concat(ignored...), goleak.IgnoreCurrent())
	return func() error {
		for limit := time.Now().Add(30 * time.Second); ; {
			// Find itself waits for some hundred milliseconds.
			if err := goleak.Find(opts...); err == nil || time.Now().After(limit) {
				return err
			}
		}
	}
}

// ignored returns options that leave out the goroutines of some functions.
func ignored(path string, functions ...string) (opts []goleak.Option) {
	for _, f := range functions {
		opts = append(opts, goleak.IgnoreAnyFunction(path+f))
	}
	return opts
}

func nothing(*testing.T) {}

// homes are all kinds of homes. Each is empty at first.
var homes = map[string]func(t *testing.T) home{
	"local": func(*testing.T) home {
		return localHome(func() (amboy.Queue, error) { return queue.NewLocalLimitedSize(2, 100), nil })
	},
	"serializable": func(*testing.T) home {
		return localHome(func() (amboy.Queue, error) { return queue.NewLocalLimitedSizeSerializable(2, 100) })
	},
	"memory": func(t *testing.T) home {
		store, err := memory.New(memory.Options{KeepFinished: 100})
		require.NoError(t, err)
		h := driverHome(func(*testing.T) driver.Driver { return store }, false)
		h.unharmed = func(t *testing.T) {
			_, err := store.Control(t.Context(), "tenant", driver.ControlChange{})
			require.NoError(t, err, "the driver is not the queue's")
		}
		return h
	},
	"sqlite": func(t *testing.T) home {
		path := filepath.Join(t.TempDir(), "jobs.db")
		return driverHome(func(t *testing.T) driver.Driver {
			store, err := sqlite.Open(context.Background(), sqlite.Options{Path: path})
			require.NoError(t, err)
			return store
		}, true)
	},
	"MongoDB by URI": func(t *testing.T) home {
		server := newServer(t)
		h := mongoHome(queue.MongoDBOptions{URI: server.URI()})
		threads := goroutines()
		h.leaks = func() error {
			err := threads() // it waits until the server has ended the goroutines of each connection
			assert.Zero(t, server.Connections())
			return err
		}
		return h
	},
	"MongoDB by client": func(t *testing.T) home {
		client, err := mongo.Connect(t.Context(), newServer(t).ClientOptions())
		require.NoError(t, err)
		t.Cleanup(func() { assert.NoError(t, client.Disconnect(context.Background())) })
		h := mongoHome(queue.MongoDBOptions{Client: client})
		h.unharmed = func(t *testing.T) { requireConnected(t, client) }
		requireConnected(t, client)
		// The client has its own connections.
		h.leaks = goroutines(ignored(
			"github.com/mongodb/amboy/internal/mongotest.", "(*Server).serve", "(*peer).read",
		), ignored(
			"go.mongodb.org/mongo-driver/x/mongo/driver/topology.",
			"(*Server).update", "(*rttMonitor).connect.func1", "(*pool).maintain", "(*pool).createConnections", "(*cancellListener).Listen",
		))
		return h
	},
}

// newServer starts a server without connections.
func newServer(t *testing.T) *mongotest.Server {
	t.Helper()
	server, err := mongotest.New(mongotest.Options{})
	require.NoError(t, err)
	t.Cleanup(server.Close)
	return server
}

func requireConnected(t *testing.T, client *mongo.Client) {
	t.Helper()
	require.NoError(t, client.Ping(t.Context(), readpref.Primary()))
}

func localHome(build func() (amboy.Queue, error)) home {
	return home{
		group: func(t *testing.T, ctx context.Context) amboy.QueueGroup {
			group, err := queue.NewLocalQueueGroup(ctx, queue.LocalQueueGroupOptions{
				DefaultQueue: queue.LocalQueueOptions{Constructor: func(context.Context) (amboy.Queue, error) { return build() }},
				TTL:          time.Hour,
			})
			require.NoError(t, err)
			return group
		},
		queue: func(t *testing.T, _ context.Context) amboy.Queue {
			q, err := build()
			require.NoError(t, err)
			return q
		},
		leaks:    goroutines(),
		unharmed: nothing,
	}
}

func driverHome(open func(t *testing.T) driver.Driver, owned bool) home {
	options := func(t *testing.T) queue.DriverQueueOptions {
		return queue.DriverQueueOptions{Driver: open(t), CloseDriver: owned, NumWorkers: 2, Format: amboy.JSON}
	}
	return home{
		queue: func(t *testing.T, ctx context.Context) amboy.Queue {
			opts := options(t)
			q, err := opts.BuildQueue(ctx)
			require.NoError(t, err)
			return q
		},
		group: func(t *testing.T, ctx context.Context) amboy.QueueGroup {
			group, err := queue.NewDriverGroup(ctx, queue.DriverGroupOptions{DefaultQueue: options(t), TTL: time.Hour})
			require.NoError(t, err)
			return group
		},
		outlives: true,
		leaks:    goroutines(),
		unharmed: nothing,
	}
}

func mongoHome(opts queue.MongoDBOptions) home {
	opts.DB, opts.Collection = "db", "jobs"
	return home{
		queue: func(t *testing.T, ctx context.Context) amboy.Queue {
			q, err := queue.NewMongoDBQueue(ctx, queue.MongoDBQueueOptions{DB: new(opts), NumWorkers: new(2)})
			require.NoError(t, err)
			return q
		},
		group: func(t *testing.T, ctx context.Context) amboy.QueueGroup {
			group, err := queue.NewMongoDBSingleQueueGroup(ctx, queue.MongoDBQueueGroupOptions{
				DefaultQueue: queue.MongoDBQueueOptions{DB: new(opts), NumWorkers: new(2)},
				// The queue needs its own engine, and so its own connections.
				PerQueue: map[string]queue.MongoDBQueueOptions{
					"apart": {DB: &queue.MongoDBOptions{LockTimeout: time.Hour}},
				},
				TTL: time.Hour, PruneFrequency: time.Hour, BackgroundCreateFrequency: time.Hour,
			})
			require.NoError(t, err)
			return group
		},
		outlives: true,
		unharmed: nothing,
	}
}

// onEachHome runs a test on each kind of home.
func onEachHome(t *testing.T, test func(t *testing.T, h home)) {
	t.Helper()
	for name, build := range homes {
		t.Run(name, func(t *testing.T) { test(t, build(t)) })
	}
}

func TestAHardStopOfAGroupHadTheWrongCause(t *testing.T) {
	onEachHome(t, func(t *testing.T, h home) {
		group := h.group(t, context.Background())
		running, cause := make(chan struct{}), make(chan error, 1)
		q, err := group.Get(t.Context(), "tenant")
		require.NoError(t, err)
		put(t, q, newJob(t, "held", func(ctx context.Context, _ *funcJob) {
			close(running)
			<-ctx.Done()
			cause <- context.Cause(ctx)
		}))
		<-running

		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		err = group.Close(ctx)
		if !errors.Is(err, context.Canceled) {
			require.NoError(t, err)
		}
		assert.ErrorIs(t, <-cause, pool.ErrClosed)
	})
}

// endOf returns a channel that is closed when a queue has ended.
func endOf(q amboy.Queue) <-chan struct{} {
	events, _ := q.(amboy.EventSource).SubscribeEvents(0)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for range events {
		}
	}()
	return ended
}

func await(t *testing.T, what string, done <-chan struct{}) {
	t.Helper()
	select {
	case <-done:
	case <-within(t).Done():
		require.Fail(t, "timed out", "waiting for %s", what)
	}
}

// assertClosed checks that a queue behaves as after Close.
func assertClosed(t *testing.T, q amboy.Queue) {
	t.Helper()
	require.ErrorIs(t, q.Put(t.Context(), noop(t, "too late")), amboy.ErrQueueClosed)
	require.ErrorIs(t, q.Start(t.Context()), amboy.ErrQueueClosed)
	assert.False(t, q.Info().Started)
	assert.Nil(t, q.Next(t.Context()))
	q.Close(t.Context())
	q.Close(t.Context())
}

// interrupted puts a job that runs until its context ends, and waits until it runs. run
// returns the number of its runs.
func interrupted(t *testing.T, q amboy.Queue) (run func() int) {
	t.Helper()
	var mu sync.Mutex
	started, n := make(chan struct{}), 0
	put(t, q, retryable(newJob(t, "interrupted", func(ctx context.Context, _ *funcJob) {
		mu.Lock()
		n++
		first := n == 1
		mu.Unlock()
		if first {
			close(started)
			<-ctx.Done()
		}
	}), 2))
	await(t, "the job to run", started)
	return func() int {
		mu.Lock()
		defer mu.Unlock()
		return n
	}
}

// assertRunsAgain checks that an interrupted run is not counted as an attempt, and that
// the job runs again.
func assertRunsAgain(t *testing.T, q amboy.Queue, runs func() int) {
	t.Helper()
	drain(t, q)
	assert.Equal(t, 2, runs())
	info := infoOf(t, q, "interrupted")
	assert.Equal(t, amboy.StateSucceeded, info.State)
	assert.Zero(t, info.Retry.CurrentAttempt)
	assert.Empty(t, info.Status.Attempts)
}

func TestEngineOutlivedTheContextOfStart(t *testing.T) {
	onEachHome(t, func(t *testing.T, h home) {
		constructed, endConstructor := context.WithCancel(context.Background())
		ctx, cancel := context.WithCancel(context.Background())
		q := h.queue(t, constructed)
		require.NoError(t, q.Start(ctx))
		endConstructor()
		ended := endOf(q)
		runs := interrupted(t, q)

		waited := make(chan bool, 1)
		go func() { waited <- amboy.Wait(context.Background(), q) }()
		cancel()
		await(t, "the queue to end", ended)
		assert.False(t, <-waited)
		require.NoError(t, h.leaks())
		assertClosed(t, q)
		h.unharmed(t)
		if !h.outlives {
			assert.Equal(t, amboy.QueueStats{Pending: 1, Total: 1}, q.Stats(t.Context()))
			return
		}

		again := h.queue(t, context.Background())
		defer again.Close(context.Background())
		require.NoError(t, again.Start(context.Background()))
		assertRunsAgain(t, again, runs)
	})
}

func TestEnginesOutlivedTheContextOfTheirGroup(t *testing.T) {
	onEachHome(t, func(t *testing.T, h home) {
		ctx, cancel := context.WithCancel(context.Background())
		group := h.group(t, ctx)
		getting, endGet := context.WithCancel(context.Background())
		q, err := group.Get(getting, "tenant")
		require.NoError(t, err)
		apart, err := group.Get(getting, "apart")
		require.NoError(t, err)
		endGet()
		put(t, apart, noop(t, "one"))
		drain(t, apart) // after the context of the Get has ended
		ended, apartEnded := endOf(q), endOf(apart)
		runs := interrupted(t, q)

		cancel()
		await(t, "the queue to end", ended)
		await(t, "the other queue to end", apartEnded)
		require.NoError(t, h.leaks())
		for _, q := range []amboy.Queue{q, apart} {
			assertClosed(t, q)
		}
		_, err = group.Get(t.Context(), "tenant")
		require.ErrorIs(t, err, queue.ErrGroupClosed)
		require.ErrorIs(t, err, context.Canceled)
		require.NoError(t, group.Close(t.Context()))
		require.NoError(t, group.Close(t.Context()))
		h.unharmed(t)
		if !h.outlives {
			return
		}

		group = h.group(t, context.Background())
		q, err = group.Get(t.Context(), "tenant")
		require.NoError(t, err)
		assertRunsAgain(t, q, runs)
		require.NoError(t, group.Close(context.Background()))
	})
}

func TestQueueThatWasNeverStartedOutlivedItsConstructorsContext(t *testing.T) {
	onEachHome(t, func(t *testing.T, h home) {
		if !h.outlives {
			t.Skip("its constructor has no context, and nothing goes on in it")
		}
		ctx, cancel := context.WithCancel(context.Background())
		q := h.queue(t, ctx)
		ran := make(chan struct{})
		put(t, q, newJob(t, "one", func(context.Context, *funcJob) { close(ran) }))
		ended := endOf(q)
		cancel()
		await(t, "the queue to end", ended)
		require.NoError(t, h.leaks())
		assertClosed(t, q)
		h.unharmed(t)

		again := h.queue(t, context.Background())
		defer again.Close(context.Background())
		require.NoError(t, again.Start(context.Background()))
		await(t, "the job to run", ran)
	})
}

func TestGroupWithoutQueuesOutlivedItsContext(t *testing.T) {
	onEachHome(t, func(t *testing.T, h home) {
		ctx, cancel := context.WithCancel(context.Background())
		group := h.group(t, ctx)
		cancel()
		require.NoError(t, h.leaks())
		require.NoError(t, group.Close(t.Context()))
		h.unharmed(t)
	})
}

// TestConstructorWithAnEndedContextLeftAnEngine makes queues that only Close could end.
func TestConstructorWithAnEndedContextLeftAnEngine(t *testing.T) {
	db := &queue.MongoDBOptions{URI: newServer(t).URI(), DB: "db", Collection: "jobs"}
	store := newStore(t)
	leaks := goroutines()
	mongoDB := queue.MongoDBQueueOptions{DB: db, NumWorkers: new(1)}
	onDriver := queue.DriverQueueOptions{Driver: store, NumWorkers: 1}
	for name, build := range map[string]func(context.Context) (any, error){
		"MongoDB queue": func(ctx context.Context) (any, error) { return queue.NewMongoDBQueue(ctx, mongoDB) },
		"MongoDB group": func(ctx context.Context) (any, error) {
			return queue.NewMongoDBSingleQueueGroup(ctx, queue.MongoDBQueueGroupOptions{DefaultQueue: mongoDB})
		},
		"driver queue": func(ctx context.Context) (any, error) { return onDriver.BuildQueue(ctx) },
		"driver group": func(ctx context.Context) (any, error) {
			return queue.NewDriverGroup(ctx, queue.DriverGroupOptions{DefaultQueue: onDriver})
		},
		"local group": func(ctx context.Context) (any, error) {
			return queue.NewLocalQueueGroup(ctx, queue.LocalQueueGroupOptions{DefaultQueue: makesNew()})
		},
	} {
		t.Run(name, func(t *testing.T) {
			made, err := build(ended())
			require.ErrorIs(t, err, context.Canceled)
			assert.Nil(t, made)
			require.NoError(t, leaks())
		})
	}
	_, err := store.Control(t.Context(), "q", driver.ControlChange{})
	require.NoError(t, err, "the driver stays open")
}

// failingRunner fails to start at first.
type failingRunner struct {
	amboy.Runner
	fail func() error
}

func (r *failingRunner) Start(ctx context.Context) error {
	if err := r.fail(); err != nil {
		return err
	}
	return r.Runner.Start(ctx)
}

// TestConstructorsContextEndedWhileAStartFailed checks that a queue whose Start failed
// still ends with the context of its constructor.
func TestConstructorsContextEndedWhileAStartFailed(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	opts := queue.DriverQueueOptions{Driver: newStore(t), CloseDriver: true, NumWorkers: 1}
	q, err := opts.BuildQueue(ctx)
	require.NoError(t, err)
	ended := endOf(q)
	require.NoError(t, q.SetRunner(&failingRunner{q.Runner(), func() error {
		cancel()
		return context.DeadlineExceeded
	}}))
	require.ErrorIs(t, q.Start(context.Background()), context.DeadlineExceeded)
	await(t, "the queue to end", ended)
	assertClosed(t, q)
}

// TestContextsEndAtStart ends both contexts while a queue starts. The queue must end in
// whatever order that happens.
func TestContextsEndAtStart(t *testing.T) {
	leaks := goroutines()
	for range 100 {
		constructed, endConstructor := context.WithCancel(context.Background())
		ctx, cancel := context.WithCancel(context.Background())
		store, err := memory.New(memory.Options{KeepFinished: 1})
		require.NoError(t, err)
		q, err := (&queue.DriverQueueOptions{Driver: store, CloseDriver: true, NumWorkers: 1}).BuildQueue(constructed)
		require.NoError(t, err)
		ended := endOf(q)
		var all sync.WaitGroup
		all.Go(endConstructor)
		all.Go(cancel)
		all.Go(func() { _ = q.Start(ctx) })
		all.Wait()
		await(t, "the queue to end", ended)
		assertClosed(t, q)
	}
	require.NoError(t, leaks())
}
