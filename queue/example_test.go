package queue_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync/atomic"
	"time"

	"go.mongodb.org/mongo-driver/bson"
	"go.mongodb.org/mongo-driver/mongo"
	"go.mongodb.org/mongo-driver/mongo/options"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/mongotest"
	"github.com/mongodb/amboy/job"
	"github.com/mongodb/amboy/management"
	"github.com/mongodb/amboy/pool"
	"github.com/mongodb/amboy/queue"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/memory"
	"github.com/mongodb/amboy/queue/driver/mongodb"
	"github.com/mongodb/amboy/queue/driver/postgres"
	"github.com/mongodb/amboy/queue/driver/sqlite"
	"github.com/mongodb/amboy/registry"
	"github.com/mongodb/amboy/retry"
)

// must stands for the handling of an error.
func must(err error) {
	if err != nil {
		panic(err)
	}
}

// note is a job that fails if it has nothing to print.
var note = job.Define("example.note", 1, func(_ context.Context, text string) error {
	if text == "" {
		return errors.New("nothing to print")
	}
	_, err := fmt.Println(text)
	return err
})

// Run a job.
func Example() {
	ctx := context.Background()
	q := queue.NewLocalLimitedSize(4, 1000) // workers, capacity
	must(q.Start(ctx))
	defer q.Close(ctx)

	_, err := note.Put(ctx, q, "hello")
	must(err)
	fmt.Println(amboy.Wait(ctx, q), q.Stats(ctx))
	// Output:
	// hello
	// true running='0', completed='1', retrying='0', pending='0', blocked='0', total='1'
}

// openStore opens the store that a flag names, such as "memory" or "sqlite:jobs.db".
func openStore(ctx context.Context, address string) (driver.Driver, error) {
	kind, file, _ := strings.Cut(address, ":")
	switch kind {
	case "memory":
		return memory.New(memory.Options{KeepFinished: 1000})
	case "sqlite":
		return sqlite.Open(ctx, sqlite.Options{Path: file})
	case "postgres", "postgresql":
		return postgres.Open(ctx, postgres.Options{URL: address})
	case "mongodb", "mongodb+srv":
		return mongodb.Open(ctx, mongodb.Options{URI: address, DB: "shop", Collection: "jobs"})
	default:
		return nil, fmt.Errorf("unknown store %q", address)
	}
}

// A flag chooses the store; the rest of the program is the same.
func ExampleNewDriverQueue() {
	ctx := context.Background()
	store, err := openStore(ctx, "memory") // the value of the flag
	must(err)
	q, err := queue.NewDriverQueue(queue.DriverQueueOptions{Driver: store, CloseDriver: true, NumWorkers: 4})
	must(err)
	defer q.Close(ctx)
	must(q.Start(ctx))

	_, err = note.Put(ctx, q, "hello")
	must(err)
	fmt.Println(amboy.Wait(ctx, q))
	_, err = openStore(ctx, "paper")
	fmt.Println(err)
	// Output:
	// hello
	// true
	// unknown store "paper"
}

// runNothing makes the runner of a process that only puts jobs.
func runNothing(amboy.Queue) (amboy.Runner, error) { return pool.NewNoop(), nil }

// remind is declared in a package that every process imports. Only the workers bind it.
var remind = job.Declare[string]("example.remind", 1)

// One process puts jobs and runs none; another one runs them.
func ExampleDriverQueueOptions_onlyPut() {
	ctx := context.Background()
	store, err := memory.New(memory.Options{KeepFinished: 1000})
	must(err)
	front, err := queue.NewDriverQueue(queue.DriverQueueOptions{Driver: store, NewRunner: runNothing})
	must(err)
	defer front.Close(ctx)
	must(front.Start(ctx))
	id, err := remind.Put(ctx, front, "call ann")
	must(err)
	j, _ := front.Get(ctx, id)
	fmt.Println(amboy.NewJobInfo(j).State)

	must(remind.Bind(func(_ context.Context, text string) error {
		_, printErr := fmt.Println(text)
		return printErr
	}))
	back, err := queue.NewDriverQueue(queue.DriverQueueOptions{Driver: store, NumWorkers: 4})
	must(err)
	defer back.Close(ctx)
	must(back.Start(ctx))
	fmt.Println(amboy.Wait(ctx, back))
	// Output:
	// pending
	// call ann
	// true
}

// A group that only puts jobs: it opens a queue when it is asked for it, and runs nothing.
func ExampleDriverGroupOptions_onlyPut() {
	ctx := context.Background()
	store, err := memory.New(memory.Options{KeepFinished: 1000})
	must(err)
	group, err := queue.NewDriverGroup(ctx, queue.DriverGroupOptions{
		DefaultQueue:              queue.DriverQueueOptions{Driver: store, NewRunner: runNothing},
		BackgroundCreateFrequency: queue.NoBackgroundCreate,
	})
	must(err)
	q, err := group.Get(ctx, "acme")
	must(err)
	_, err = note.Put(ctx, q, "welcome")
	must(err)
	fmt.Println(q.Stats(ctx).Pending, "pending")
	must(group.Close(ctx))
	// Output: 1 pending
}

// Give each tenant a queue.
func ExampleNewDriverGroup() {
	ctx := context.Background()
	store, err := memory.New(memory.Options{KeepFinished: 1000}) // or sqlite.Open
	must(err)
	group, err := queue.NewDriverGroup(ctx, queue.DriverGroupOptions{
		DefaultQueue: queue.DriverQueueOptions{
			Driver:      store,
			CloseDriver: true,
			NumWorkers:  4, // the most that one tenant can have
		},
		Patterns: []queue.DriverQueuePattern{
			{Regexp: regexp.MustCompile("^paying-"), Options: queue.DriverQueueOptions{NumWorkers: 16}},
		},
		PerQueue: map[string]queue.DriverQueueOptions{
			"paying-acme": {MaxRunning: 8}, // over all processes
		},
		Workers: 32,               // of all tenants
		TTL:     10 * time.Minute, // a queue without work is closed after that
	})
	must(err)

	for _, tenant := range []string{"paying-acme", "globex"} {
		q, err := group.Get(ctx, tenant) // made and started
		must(err)
		_, err = note.Put(ctx, q, "welcome "+tenant)
		must(err)
		amboy.Wait(ctx, q)
		control, err := amboy.ControlOf(ctx, q)
		must(err)
		fmt.Println(tenant, amboy.Workers(q), control.MaxRunning)
	}
	fmt.Println(group.Queues(ctx))
	must(group.Close(ctx))
	// Output:
	// welcome paying-acme
	// paying-acme 16 8
	// welcome globex
	// globex 4 0
	// [globex paying-acme]
}

// Only Get makes a queue, so a name from a request is looked up.
func ExampleLookup() {
	ctx := context.Background()
	store, err := memory.New(memory.Options{KeepFinished: 1000})
	must(err)
	group, err := queue.NewDriverGroup(ctx, queue.DriverGroupOptions{
		DefaultQueue: queue.DriverQueueOptions{Driver: store, CloseDriver: true, NumWorkers: 4},
	})
	must(err)
	_, err = group.Get(ctx, "acme")
	must(err)

	for _, tenant := range []string{"acme", "globex"} {
		_, exists, lookupErr := queue.Lookup(ctx, group, tenant)
		must(lookupErr)
		fmt.Println(tenant, exists)
	}
	must(group.Close(ctx))
	// Output:
	// acme true
	// globex false
}

// Keep finished jobs for as long as they are useful.
func ExampleRetention() {
	ctx := context.Background()
	store, err := memory.New(memory.Options{KeepFinished: 1000}) // in memory, a number is kept at most
	must(err)
	q, err := queue.NewDriverQueue(queue.DriverQueueOptions{
		Driver:     store,
		NumWorkers: 1,
		Retention: queue.Retention{
			Succeeded: time.Hour,
			Failed:    queue.KeepForever,
			// Canceled and Expired: seven days
		},
	})
	must(err)
	must(q.Start(ctx))
	defer q.Close(ctx)

	_, err = note.Put(ctx, q, "hello", job.ID("good"))
	must(err)
	_, err = note.Put(ctx, q, "", job.ID("bad"))
	must(err)
	amboy.Wait(ctx, q)
	for _, id := range []string{"good", "bad"} {
		r, err := store.Get(ctx, "", id)
		must(err)
		if r.ForgetAt.IsZero() {
			fmt.Println(id, "is kept")
			continue
		}
		fmt.Println(id, "is kept for", r.ForgetAt.Sub(r.TimeInfo.End))
	}
	// Output:
	// hello
	// good is kept for 1h0m0s
	// bad is kept
}

// A stored job that can't be decoded is parked. It is released once it can be decoded.
func ExampleNewDriverQueue_parked() {
	ctx := context.Background()
	q, err := queue.NewLocalLimitedSizeSerializable(1, 1000)
	must(err)
	must(q.Start(ctx))
	defer q.Close(ctx)
	var repaired atomic.Bool
	must(registry.AddJobUpgrade("example.note", 0, func(map[string]any) error {
		if !repaired.Load() {
			return errors.New("the text is missing")
		}
		return nil
	}))

	older, err := note.New("older", job.ID("older"))
	must(err)
	older.(interface{ SetType(amboy.JobType) }).SetType(amboy.JobType{Name: "example.note", Version: 0})
	must(q.Put(ctx, older))
	_, err = note.Put(ctx, q, "next", job.ID("next"))
	must(err)
	must(note.Wait(ctx, q, "next"))
	for info := range q.JobInfo(ctx) {
		if info.State == amboy.StateParked {
			fmt.Println(info.Status.Reason)
		}
	}

	repaired.Store(true)
	inspector, err := management.NewInspector(q)
	must(err)
	_, err = inspector.ActOn(ctx, "", "older", management.Action{Kind: management.Release})
	must(err)
	fmt.Println(amboy.Wait(ctx, q))
	// Output:
	// next
	// stored form of job "older" of type "example.note" can't be read: upgrading it from version 0: the text is missing
	// older
	// true
}

// Choose the options of a queue that holds jobs by reference.
func ExampleNewLocal() {
	ctx := context.Background()
	q, err := queue.NewLocal(queue.LocalOptions{
		NumWorkers:     1,
		Capacity:       1000, // of waiting jobs
		KeepFinished:   50,
		PutBeforeStart: true,
	})
	must(err)
	_, err = note.Put(ctx, q, "first")
	must(err)
	_, err = note.Put(ctx, q, "second")
	must(err)
	must(q.Start(ctx))
	defer q.Close(ctx)
	amboy.Wait(ctx, q)

	_, err = queue.NewLocal(queue.LocalOptions{})
	fmt.Println(err)
	// Output:
	// first
	// second
	// invalid local queue options: NumWorkers must be at least 1 (is 0)
}

var (
	begun  = make(chan struct{})
	finish = make(chan struct{}, 1)
)

// slow is a job that ends when the example says so.
var slow = job.Define("example.slow", 1, func(context.Context, string) error {
	begun <- struct{}{}
	<-finish
	return nil
})

// Put blocks while the queue is full.
func ExampleNewLocalLimitedSize() {
	ctx := context.Background()
	q := queue.NewLocalLimitedSize(1, 1) // a worker, and room for a waiting job
	must(q.Start(ctx))
	defer q.Close(ctx)
	_, err := slow.Put(ctx, q, "")
	must(err)
	<-begun
	_, err = note.Put(ctx, q, "waiting")
	must(err)

	patience, cancel := context.WithTimeout(ctx, 10*time.Millisecond)
	defer cancel()
	_, err = note.Put(patience, q, "one too many", job.ID("one-too-many"))
	fmt.Println(err)

	finish <- struct{}{}
	_, err = note.Put(ctx, q, "another")
	must(err)
	amboy.Wait(ctx, q)
	// Output:
	// putting job "one-too-many": waiting for room in the queue: context deadline exceeded
	// waiting
	// another
}

// Run the important jobs first.
func ExampleNewLocalPriority() {
	ctx := context.Background()
	q := queue.NewLocalPriority(1, 1000)
	for text, priority := range map[string]int{"newsletter": -1, "receipt": 0, "password reset": 10} {
		_, err := note.Put(ctx, q, text, job.Priority(priority))
		must(err)
	}
	must(q.Start(ctx))
	defer q.Close(ctx)
	amboy.Wait(ctx, q)
	// Output:
	// password reset
	// receipt
	// newsletter
}

// Put jobs one by one, before the jobs that they depend on.
func ExampleNewLocalOrdered() {
	ctx := context.Background()
	q := queue.NewLocalOrdered(1, 1000)
	_, err := note.Put(ctx, q, "second", job.After("first"))
	must(err)
	fmt.Println(q.Start(ctx) != nil) // "first" is missing

	_, err = note.Put(ctx, q, "first", job.ID("first"))
	must(err)
	must(q.Start(ctx))
	defer q.Close(ctx)
	amboy.Wait(ctx, q)
	// Output:
	// true
	// first
	// second
}

// In a queue that stores jobs, earlier attempts stay as finished jobs.
func ExampleNewLocalLimitedSizeSerializable() {
	ctx := context.Background()
	q, err := queue.NewLocalLimitedSizeSerializable(4, 1000) // workers, capacity
	must(err)
	must(q.Start(ctx))
	defer q.Close(ctx)

	id, err := note.Put(ctx, q, "", job.MaxAttempts(2)) // will fail
	must(err)
	amboy.Wait(ctx, q)
	attempts, err := q.GetAllAttempts(ctx, id)
	must(err)
	for _, attempt := range attempts {
		fmt.Println(attempt.RetryInfo().CurrentAttempt, amboy.NewJobInfo(attempt).State, attempt.Status().Errors)
	}
	// Output:
	// 0 failed [nothing to print]
	// 1 failed [nothing to print]
}

// Give a queue a retry policy for the jobs that have none.
func ExampleRetryableQueueOptions() {
	ctx := context.Background()
	q, err := queue.NewLocalLimitedSizeSerializableWithOptions(queue.LocalLimitedSizeSerializableOptions{
		NumWorkers: 4,
		Capacity:   1000,
		Retryable: queue.RetryableQueueOptions{
			RetryHandler: amboy.RetryHandlerOptions{RetryPolicy: retry.Polynomial{Unit: time.Millisecond}},
		},
	})
	must(err)
	must(q.Start(ctx))
	defer q.Close(ctx)

	_, err = note.Put(ctx, q, "", job.MaxAttempts(3)) // will fail
	must(err)
	amboy.Wait(ctx, q)
	fmt.Println(q.Stats(ctx).Completed, "attempts")
	// Output: 3 attempts
}

// timing returns middleware that reports how jobs end.
func timing(tell func(id string, took time.Duration, err error)) amboy.Middleware {
	return amboy.Middleware{
		Run: func(next amboy.RunFunc) amboy.RunFunc {
			return func(ctx context.Context, j amboy.Job) error {
				begin := time.Now()
				err := next(ctx, j)
				tell(j.ID(), time.Since(begin), err)
				return err
			}
		},
	}
}

// onlySmall returns middleware that refuses large batches.
func onlySmall(limit int) amboy.Middleware {
	return amboy.Middleware{
		Put: func(next amboy.PutFunc) amboy.PutFunc {
			return func(ctx context.Context, jobs []amboy.Job) error {
				if len(jobs) > limit {
					return fmt.Errorf("%d jobs at once are too many", len(jobs))
				}
				return next(ctx, jobs)
			}
		},
	}
}

func ExampleLocalOptions_middleware() {
	ctx := context.Background()
	q, err := queue.NewLocal(queue.LocalOptions{
		NumWorkers: 1,
		Middleware: []amboy.Middleware{
			timing(func(id string, took time.Duration, err error) { fmt.Println(id, took >= 0, err) }),
			onlySmall(2),
		},
	})
	must(err)
	must(q.Start(ctx))
	defer q.Close(ctx)

	var jobs []amboy.Job
	for _, name := range []string{"one", "two", "three"} {
		j, newErr := note.New(name, job.ID(name))
		must(newErr)
		jobs = append(jobs, j)
	}
	must(q.PutMany(ctx, jobs[:2]))
	amboy.Wait(ctx, q)
	fmt.Println(q.PutMany(ctx, jobs))
	// Output:
	// one
	// one true <nil>
	// two
	// two true <nil>
	// 3 jobs at once are too many
}

// A group of queues in memory makes each queue with a function.
func ExampleNewLocalQueueGroup() {
	ctx := context.Background()
	group, err := queue.NewLocalQueueGroup(ctx, queue.LocalQueueGroupOptions{
		DefaultQueue: queue.LocalQueueOptions{
			Constructor: func(context.Context) (amboy.Queue, error) {
				return queue.NewLocalLimitedSizeSerializable(2, 1000)
			},
		},
		TTL: 10 * time.Minute, // a queue without work goes after that
	})
	must(err)
	large := &queue.LocalQueueOptions{
		Constructor: func(context.Context) (amboy.Queue, error) {
			return queue.NewLocalLimitedSizeSerializable(16, 100_000)
		},
	}

	acme, err := group.Get(ctx, "acme", large) // made and started
	must(err)
	globex, err := group.Get(ctx, "globex")
	must(err)
	for _, q := range []amboy.Queue{acme, globex} {
		_, err = note.Put(ctx, q, "welcome", job.ID("welcome")) // the same ID in another queue
		must(err)
		amboy.Wait(ctx, q)
	}
	fmt.Println(group.Queues(ctx))
	must(group.Close(ctx))
	// Output:
	// welcome
	// welcome
	// [acme globex]
}

// startServer starts a stand-in of MongoDB in this process.
func startServer() (uri string, stop func()) {
	server, err := mongotest.New(mongotest.Options{})
	must(err)
	return server.URI(), server.Close
}

// Store jobs in MongoDB.
func ExampleNewMongoDBQueue() {
	ctx := context.Background()
	uri, stop := startServer()
	defer stop()

	q, err := queue.NewMongoDBQueue(ctx, queue.MongoDBQueueOptions{
		DB: &queue.MongoDBOptions{
			URI:         uri, // such as mongodb://localhost:27017/?replicaSet=rs0
			DB:          "shop",
			Collection:  "mail",
			LockTimeout: time.Minute,
			TTL:         24 * time.Hour,
		},
		NumWorkers: new(8),
	})
	must(err)
	must(q.Start(ctx))
	_, err = note.Put(ctx, q, "hello")
	must(err)
	fmt.Println(amboy.Wait(ctx, q))
	q.Close(ctx) // and disconnects
	// Output:
	// hello
	// true
}

// Give each tenant a queue, all in one collection.
func ExampleNewMongoDBSingleQueueGroup() {
	ctx := context.Background()
	uri, stop := startServer()
	defer stop()

	group, err := queue.NewMongoDBSingleQueueGroup(ctx, queue.MongoDBQueueGroupOptions{
		DefaultQueue: queue.MongoDBQueueOptions{
			DB:         &queue.MongoDBOptions{URI: uri, DB: "shop", Collection: "tenants", LockTimeout: time.Minute},
			NumWorkers: new(4),
		},
		RegexpQueue: []queue.RegexpMongoDBQueueOptions{
			{Regexp: *regexp.MustCompile("^paying-"), Options: queue.MongoDBQueueOptions{NumWorkers: new(16)}},
		},
		PerQueue: map[string]queue.MongoDBQueueOptions{
			"paying-acme": {Abortable: new(true)},
		},
		TTL:                       10 * time.Minute, // a queue without work is closed after that
		PruneFrequency:            time.Minute,
		BackgroundCreateFrequency: 10 * time.Second, // what other processes put is run here too
	})
	must(err)
	for _, tenant := range []string{"paying-acme", "globex"} {
		q, err := group.Get(ctx, tenant) // made and started
		must(err)
		_, err = note.Put(ctx, q, "welcome", job.ID("welcome")) // the same ID in another queue
		must(err)
		amboy.Wait(ctx, q)
		fmt.Println(tenant, amboy.Workers(q))
	}
	must(group.Close(ctx))
	// Output:
	// welcome
	// paying-acme 16
	// welcome
	// globex 4
}

// Make a queue on the driver, for settings that MongoDBOptions do not contain.
func ExampleNewDriverQueue_mongoDB() {
	ctx := context.Background()
	uri, stop := startServer()
	defer stop()

	store, err := mongodb.Open(ctx, mongodb.Options{URI: uri, DB: "shop", Collection: "mail"})
	must(err)
	q, err := queue.NewDriverQueue(queue.DriverQueueOptions{
		Driver:      store,
		CloseDriver: true,
		NumWorkers:  8,
		MaxRunning:  20, // over all processes
		LockTimeout: time.Minute,
		Retention:   queue.Retention{Succeeded: time.Hour},
	})
	must(err)
	defer q.Close(ctx)
	must(q.Start(ctx))
	_, err = note.Put(ctx, q, "mail")
	must(err)
	amboy.Wait(ctx, q)
	// Output: mail
}

// Put a job in the same transaction as the data that it belongs to.
func ExampleNewMongoDBQueue_transaction() {
	ctx := context.Background()
	uri, stop := startServer()
	defer stop()

	client, err := mongo.Connect(ctx, options.Client().ApplyURI(uri))
	must(err)
	defer func() { must(client.Disconnect(ctx)) }()
	orders := client.Database("shop").Collection("orders")
	q, err := queue.NewMongoDBQueue(ctx, queue.MongoDBQueueOptions{
		DB:         &queue.MongoDBOptions{Client: client, DB: "shop", Collection: "shipping"},
		NumWorkers: new(8),
	})
	must(err)
	defer q.Close(ctx)
	must(q.Start(ctx))

	session, err := client.StartSession()
	must(err)
	defer session.EndSession(ctx)
	_, err = session.WithTransaction(ctx, func(ctx mongo.SessionContext) (any, error) {
		_, insertErr := orders.InsertOne(ctx, bson.M{"_id": 17})
		if insertErr != nil {
			return nil, insertErr
		}
		_, putErr := note.Put(ctx, q, "ship order 17")
		return nil, putErr
	})
	must(err)
	fmt.Println(amboy.Wait(ctx, q))
	// Output:
	// ship order 17
	// true
}

// End a job in the transaction that does its work: both are stored, or neither.
func ExampleNewMongoDBQueue_completeIn() {
	ctx := context.Background()
	uri, stop := startServer()
	defer stop()

	client, err := mongo.Connect(ctx, options.Client().ApplyURI(uri))
	must(err)
	defer func() { must(client.Disconnect(ctx)) }()
	shipments := client.Database("shop").Collection("shipments")
	ship := job.Define("queue.example.ship", 1, func(ctx context.Context, order string) error {
		session, failure := client.StartSession()
		if failure != nil {
			return failure
		}
		defer session.EndSession(ctx)
		_, failure = session.WithTransaction(ctx, func(ctx mongo.SessionContext) (any, error) { //nolint:contextcheck // It inherits it.
			_, insertErr := shipments.InsertOne(ctx, bson.M{"_id": order})
			if insertErr != nil {
				return nil, insertErr
			}
			return nil, job.CompleteIn(ctx)
		})
		return failure
	})

	q, err := queue.NewMongoDBQueue(ctx, queue.MongoDBQueueOptions{
		DB:         &queue.MongoDBOptions{Client: client, DB: "shop", Collection: "shipping"}, // the client of the sessions
		NumWorkers: new(8),
	})
	must(err)
	defer q.Close(ctx)
	must(q.Start(ctx))
	fmt.Println(ship.PutAndWait(ctx, q, "order-1"))
	shipped, err := shipments.CountDocuments(ctx, bson.M{})
	must(err)
	fmt.Println(shipped, "shipped")
	// Output:
	// <nil>
	// 1 shipped
}

// Run jobs in a test, one after the other, at times of the test's choice.
func ExampleNewInline() {
	ctx := context.Background()
	q, err := queue.NewInline(queue.InlineOptions{Time: time.Date(2030, 1, 1, 9, 0, 0, 0, time.UTC)})
	must(err)
	defer q.Close(ctx)
	_, err = note.Put(ctx, q, "reminder", job.In(time.Hour))
	must(err)

	fmt.Println(q.RunAll(ctx), "ran")
	fmt.Println(q.RunUntil(ctx, q.Now().Add(2*time.Hour)), "ran until", q.Now().Format(time.TimeOnly))
	// Output:
	// 0 ran
	// reminder
	// 1 ran until 11:00:00
}

// Choose the options of a queue in memory that stores its jobs as a database does.
func ExampleNewLocalLimitedSizeSerializableWithOptions() {
	ctx := context.Background()
	q, err := queue.NewLocalLimitedSizeSerializableWithOptions(queue.LocalLimitedSizeSerializableOptions{
		NumWorkers: 4,
		Capacity:   1000,
	})
	must(err)
	must(q.Start(ctx))
	defer q.Close(ctx)
	fmt.Println(note.PutAndWait(ctx, q, "hello"))
	// Output:
	// hello
	// <nil>
}

// After a change of the key, encrypt the waiting jobs with the new one.
func ExampleStoreOf() {
	ctx := context.Background()
	q, err := queue.NewLocalLimitedSizeSerializable(1, 1000)
	must(err)
	defer q.Close(ctx)
	_, err = note.Put(ctx, q, "hello", job.In(time.Hour))
	must(err)

	store, ok := queue.StoreOf(q)
	fmt.Println(ok)
	fmt.Println(store.Reencode(ctx)) // until it returns 0; this queue has no codec
	// Output:
	// true
	// 0 <nil>
}

// The store of a group has the queues of all tenants.
func ExampleStoreOfGroup() {
	ctx := context.Background()
	store, err := memory.New(memory.Options{KeepFinished: 1000})
	must(err)
	group, err := queue.NewDriverGroup(ctx, queue.DriverGroupOptions{
		DefaultQueue: queue.DriverQueueOptions{Driver: store, CloseDriver: true, NumWorkers: 1},
	})
	must(err)
	_, err = group.Get(ctx, "acme")
	must(err)
	s, ok := queue.StoreOfGroup(group)
	_, isOpen := s.Queue("acme")
	fmt.Println(ok, isOpen)
	must(group.Close(ctx))
	// Output: true true
}

// Replace the handler that makes the next attempts of a queue's jobs.
func ExampleNewBasicRetryHandler() {
	ctx := context.Background()
	q, err := queue.NewLocalLimitedSizeSerializable(1, 1000)
	must(err)
	handler, err := queue.NewBasicRetryHandler(q, amboy.RetryHandlerOptions{
		NumWorkers:  2,
		RetryPolicy: retry.Fixed{Wait: 10 * time.Millisecond},
	})
	must(err)
	must(q.SetRetryHandler(handler))
	must(q.Start(ctx))
	defer q.Close(ctx)

	_, err = note.Put(ctx, q, "", job.MaxAttempts(3)) // will fail
	must(err)
	amboy.Wait(ctx, q)
	fmt.Println(q.Stats(ctx).Completed, "attempts")
	// Output: 3 attempts
}

// A group of your own keeps its queues in a cache, which removes only those without work.
func ExampleNewCacheWithCleanupHook() {
	ctx := context.Background()
	cache := queue.NewCacheWithCleanupHook(time.Hour, func(_ context.Context, id string) error {
		fmt.Println("cleaning up after", id)
		return nil
	})
	busy, idle := queue.NewLocalPriority(1, 1000), queue.NewLocalPriority(1, 1000)
	_, err := note.Put(ctx, busy, "hello")
	must(err)
	must(cache.Set("busy", busy, 0))
	must(cache.Set("idle", idle, 0))

	fmt.Println(cache.Remove(ctx, "idle"))
	fmt.Println(cache.Remove(ctx, "busy") != nil, cache.Names())
	busy.Close(ctx)
	// Output:
	// cleaning up after idle
	// <nil>
	// true [busy]
}
