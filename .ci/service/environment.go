package main

import (
	"context"
	"regexp"
	"sync"
	"time"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/job"
	"github.com/mongodb/amboy/logger"
	"github.com/mongodb/amboy/management"
	"github.com/mongodb/amboy/pool"
	"github.com/mongodb/amboy/queue"
	"github.com/mongodb/grip"
	"github.com/mongodb/grip/level"
	"github.com/mongodb/grip/send"
	"github.com/pkg/errors"
	"go.mongodb.org/mongo-driver/bson"
	"go.mongodb.org/mongo-driver/mongo"
	"go.mongodb.org/mongo-driver/mongo/options"
)

// Settings configure the service.
type Settings struct {
	// MongoDBURI is the URI of the server that stores the jobs of the regions. If it is
	// empty, they are in memory.
	MongoDBURI string
	DB         string
	// Log receives the log messages, from a queue. Default: grip's own sender.
	Log send.Sender
}

const (
	collection   = "remote"
	localWorkers = 4
)

// Environment contains the dependencies of the service's jobs.
type Environment struct {
	Local   amboy.Queue      // jobs of this process
	Remote  amboy.QueueGroup // a queue for each region
	Manager management.Manager
	Log     grip.Journaler
	Hosts   *Hosts

	client *mongo.Client
	sender send.Sender
}

var (
	environmentMu sync.RWMutex
	environment   *Environment
)

// SetEnvironment sets the environment of all jobs, because factories can't pass it to them.
func SetEnvironment(env *Environment) {
	environmentMu.Lock()
	defer environmentMu.Unlock()
	environment = env
}

// GetEnvironment returns the environment.
func GetEnvironment() *Environment {
	environmentMu.RLock()
	defer environmentMu.RUnlock()
	return environment
}

// NewEnvironment starts the queues.
func NewEnvironment(ctx context.Context, settings Settings) (*Environment, error) {
	env := &Environment{Hosts: NewHosts(), sender: settings.Log}
	job.RegisterDefaultJobs()
	for _, step := range []struct {
		name string
		run  func(context.Context, Settings) error
	}{
		{"logging", env.startLogging},
		{"local queue", env.startLocal},
		{"remote queues", env.startRemote},
	} {
		if err := step.run(ctx, settings); err != nil {
			return nil, errors.Wrapf(err, "starting the %s", step.name)
		}
	}
	return env, nil
}

// startLogging sends log messages through a queue, so that logging does not block.
func (e *Environment) startLogging(ctx context.Context, settings Settings) error {
	base := settings.Log
	if base == nil {
		base = grip.GetSender()
	}
	sender, err := logger.NewQueueBackedSender(ctx, base, 2, 1000)
	if err != nil {
		return errors.WithStack(err)
	}
	if err = sender.SetLevel(send.LevelInfo{Default: level.Info, Threshold: level.Info}); err != nil {
		return errors.WithStack(err)
	}
	e.sender = sender
	e.Log = grip.NewJournaler("fleet")
	return errors.WithStack(e.Log.SetSender(sender))
}

// startLocal starts the queue whose jobs run in this process and can be aborted.
func (e *Environment) startLocal(ctx context.Context, _ Settings) error {
	e.Local = queue.NewLocalLimitedSize(localWorkers, 1024)
	if err := e.Local.SetRunner(pool.NewAbortablePool(localWorkers, e.Local)); err != nil {
		return errors.WithStack(err)
	}
	return errors.WithStack(e.Local.Start(ctx))
}

func (e *Environment) startRemote(ctx context.Context, settings Settings) error {
	if settings.MongoDBURI == "" {
		return e.startRemoteInMemory(ctx)
	}
	return e.startRemoteInMongoDB(ctx, settings)
}

// nextJobIndex is the index that operators built for the query that finds jobs. For a group
// its keys begin with the group, which the hint leaves out.
var nextJobIndex = bson.D{
	{Key: "status.completed", Value: 1},
	{Key: "status.in_prog", Value: 1},
	{Key: "status.mod_ts", Value: 1},
}

func (e *Environment) startRemoteInMongoDB(ctx context.Context, settings Settings) error {
	client, err := mongo.Connect(ctx, options.Client().ApplyURI(settings.MongoDBURI))
	if err != nil {
		return errors.WithStack(err)
	}
	e.client = client
	index := mongo.IndexModel{Keys: append(bson.D{{Key: "group", Value: 1}}, nextJobIndex...)}
	if _, err = client.Database(settings.DB).Collection(collection+".group").Indexes().CreateOne(ctx, index); err != nil {
		return errors.Wrap(err, "building the index for the next job")
	}

	db := queue.DefaultMongoDBOptions()
	db.URI = ""
	db.Client = client
	db.DB = settings.DB
	db.Collection = collection
	db.UseGroups = true
	db.Format = amboy.BSON2
	db.LockTimeout = time.Minute
	db.WaitInterval = 250 * time.Millisecond
	db.SampleSize = 100
	db.PreferredIndexes = queue.PreferredIndexOptions{NextJob: nextJobIndex}
	workers, large, abortable := 2, 8, true
	e.Remote, err = queue.NewMongoDBSingleQueueGroup(ctx, queue.MongoDBQueueGroupOptions{
		DefaultQueue: queue.MongoDBQueueOptions{
			DB:         &db,
			NumWorkers: &workers,
			Abortable:  &abortable,
			Retryable:  retryOptions(),
		},
		RegexpQueue: []queue.RegexpMongoDBQueueOptions{
			{Regexp: *regexp.MustCompile("^large-"), Options: queue.MongoDBQueueOptions{NumWorkers: &large}},
		},
		TTL:                       time.Hour,
		PruneFrequency:            time.Hour,
		BackgroundCreateFrequency: 10 * time.Minute,
	})
	if err != nil {
		return errors.WithStack(err)
	}
	manager := management.DBQueueManagerOptions{Options: db, ByGroups: true}
	e.Manager, err = management.MakeDBQueueManager(ctx, manager)
	return errors.WithStack(err)
}

func (e *Environment) startRemoteInMemory(ctx context.Context) error {
	group, err := queue.NewLocalQueueGroup(ctx, queue.LocalQueueGroupOptions{
		DefaultQueue: queue.LocalQueueOptions{Constructor: newQueueInMemory},
		TTL:          time.Hour,
	})
	if err != nil {
		return errors.WithStack(err)
	}
	e.Remote = group
	e.Manager = management.NewQueueManager(e.Local)
	return nil
}

func newQueueInMemory(context.Context) (amboy.Queue, error) {
	q, err := queue.NewLocalLimitedSizeSerializableWithOptions(queue.LocalLimitedSizeSerializableOptions{
		NumWorkers: 2,
		Capacity:   1024,
		Retryable:  *retryOptions(),
	})
	if err != nil {
		return nil, errors.WithStack(err)
	}
	return q, errors.WithStack(q.SetRunner(pool.NewAbortablePool(2, q)))
}

func retryOptions() *queue.RetryableQueueOptions {
	return &queue.RetryableQueueOptions{
		RetryHandler: amboy.RetryHandlerOptions{
			NumWorkers:       2,
			MaxCapacity:      4096,
			MaxRetryAttempts: 10,
			MaxRetryTime:     time.Minute,
			RetryBackoff:     time.Second,
		},
		StaleRetryingMonitorInterval: time.Minute,
	}
}

// Close stops everything that NewEnvironment started. It stops the log last, so that it
// receives all messages.
func (e *Environment) Close(ctx context.Context) error {
	err := e.Remote.Close(ctx)
	e.Local.Close(ctx)
	if e.client != nil && err == nil {
		err = e.client.Disconnect(ctx)
	}
	if closeErr := e.sender.Close(); err == nil {
		err = closeErr
	}
	return errors.WithStack(err)
}
