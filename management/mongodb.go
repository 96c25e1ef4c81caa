package management

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mongodb/grip/message"

	"github.com/mongodb/amboy/internal/logging"
	"github.com/mongodb/amboy/queue"
)

// DBQueueManagerOptions tell of what jobs in a MongoDB a manager is. Where neither
// SingleGroup nor ByGroups is set, it is of the queue that Options name.
type DBQueueManagerOptions struct {
	// Options tell where the jobs are, and how they are kept. A manager does not
	// look at what concerns the running of jobs.
	Options queue.MongoDBOptions
	// SingleGroup makes it a manager of one queue of those that share a collection:
	// that whose name is Options.GroupName, which is required then.
	SingleGroup bool
	// ByGroups makes it a manager of all queues that share a collection. Counts and
	// IDs tell the queue. CompleteJob completes the job with the ID in each queue
	// that has one.
	ByGroups bool
}

// Validate returns an error that names every field that is missing or out of range. It
// changes nothing.
func (o *DBQueueManagerOptions) Validate() error {
	var errs []error
	if o.SingleGroup && o.ByGroups {
		errs = append(errs, errors.New("invalid queue manager options: SingleGroup and ByGroups must not both be set"))
	}
	opts := o.storeOptions()
	if o.ByGroups {
		opts.GroupName = "any" // which a store of all queues needs none of
	}
	if err := opts.Validate(); err != nil {
		errs = append(errs, fmt.Errorf("invalid queue manager options: Options: %w", err))
	}
	return errors.Join(errs...)
}

// storeOptions are those of the store.
func (o *DBQueueManagerOptions) storeOptions() queue.MongoDBOptions {
	opts := o.Options
	opts.UseGroups = cmp.Or(opts.UseGroups, o.SingleGroup, o.ByGroups)
	if o.ByGroups {
		opts.GroupName = ""
	}
	return opts
}

// NewDBQueueManager returns a manager of jobs in a MongoDB, which needs no queue. It
// works with Options.Client, or else connects to Options.URI.
//
// It lives until ctx ends, and has a method Close(context.Context) error for those who
// want to end it earlier, or to wait for its end. The connection ends with it where it
// is its own. It blocks while it connects, and finds or builds the indexes, as
// queue.NewMongoDBQueue does, and returns an error for options that are not valid, and
// where no server answers.
func NewDBQueueManager(ctx context.Context, opts DBQueueManagerOptions) (Manager, error) {
	m, err := newDBManager(ctx, opts)
	if err != nil {
		return nil, fmt.Errorf("making a queue manager: %w", err)
	}
	return m, nil
}

func newDBManager(ctx context.Context, opts DBQueueManagerOptions) (*dbManager, error) {
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	store, err := queue.OpenMongoDBStore(ctx, opts.storeOptions())
	if err != nil {
		return nil, err
	}
	m := &dbManager{store: store}
	m.manager = manager{inspector: &inspector{store: store}, jobs: stored{store}, name: fmt.Sprintf("collection %q", opts.Options.Collection)}
	m.stop = context.AfterFunc(ctx, m.closeAfter)
	return m, nil
}

// MakeDBQueueManager is NewDBQueueManager for those who have a connection:
// Options.Client is required, and stays the caller's.
func MakeDBQueueManager(ctx context.Context, opts DBQueueManagerOptions) (Manager, error) {
	if opts.Options.Client == nil {
		return nil, errors.New("invalid queue manager options: Options.Client must be set")
	}
	return NewDBQueueManager(ctx, opts)
}

// dbManager is a manager that has opened its store.
type dbManager struct {
	manager
	store *queue.Store
	stop  func() bool
}

// Close frees what the manager holds. Its calls fail from then on.
func (m *dbManager) Close(ctx context.Context) error {
	m.stop()
	return m.store.Driver().Close(ctx)
}

// closeTimeout bounds the end that nobody waits for.
const closeTimeout = 10 * time.Second

// closeAfter closes the manager when its context has ended.
func (m *dbManager) closeAfter() {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	if err := m.store.Driver().Close(ctx); err != nil {
		logging.Error(ctx, message.Fields{"message": "could not close the store of a queue manager", "error": err.Error()})
	}
}
