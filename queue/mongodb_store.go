package queue

import (
	"context"
	"fmt"
	"time"

	"github.com/mongodb/amboy/queue/driver/mongodb"
	"github.com/mongodb/amboy/queue/internal/engine"
)

// OpenMongoDBStore opens the store of queues in MongoDB, without opening a queue. The
// store covers the queue that the options name, or all queues in the collection if
// UseGroups is set and GroupName is not. The caller must close its driver.
//
// It blocks as NewMongoDBQueue does, and returns the same errors.
func OpenMongoDBStore(ctx context.Context, opts MongoDBOptions) (*Store, error) {
	if err := opts.validateStore(); err != nil {
		return nil, fmt.Errorf("opening a MongoDB store: %w", err)
	}
	store, err := mongodb.Open(ctx, opts.storeOptions())
	if err != nil {
		return nil, fmt.Errorf("opening a MongoDB store: %w", err)
	}
	s := driverStore{
		driver:    store,
		now:       time.Now,
		queue:     noQueue,
		retention: opts.retention(),
		form:      engine.StoredForm{Format: opts.Format, Codec: opts.Codec},
	}.withQueues(opts.LockTimeout)
	if name := opts.queueName(); name != "" || !opts.UseGroups {
		s.queues = []string{name}
	}
	return s, nil
}
