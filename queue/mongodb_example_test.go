package queue_test

import (
	"context"
	"fmt"
	"regexp"
	"time"

	"go.mongodb.org/mongo-driver/bson"
	"go.mongodb.org/mongo-driver/mongo"
	"go.mongodb.org/mongo-driver/mongo/options"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/mongotest"
	"github.com/mongodb/amboy/job"
	"github.com/mongodb/amboy/queue"
	"github.com/mongodb/amboy/queue/driver/mongodb"
)

// startServer starts the in-process server for the examples.
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
