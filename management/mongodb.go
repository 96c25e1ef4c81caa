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

// DBQueueManagerOptions select the jobs in a MongoDB that a manager administers. If
// neither SingleGroup nor ByGroups is set, it administers the queue that Options name.
type DBQueueManagerOptions struct {
	// Options select the collection, and set how jobs are stored. Options that concern
	// running jobs are ignored.
	Options queue.MongoDBOptions
	// SingleGroup selects one of the queues that share a collection: the one named
	// Options.GroupName, which is then required.
	SingleGroup bool
	// ByGroups selects all queues that share a collection. Counts and IDs contain the
	// name of the queue. CompleteJob completes the job with the ID in each queue that
	// contains one.
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
		opts.GroupName = "any" // satisfies the check; a store of all queues needs no name
	}
	if err := opts.Validate(); err != nil {
		errs = append(errs, fmt.Errorf("invalid queue manager options: Options: %w", err))
	}
	return errors.Join(errs...)
}

// storeOptions returns the options of the store.
func (o *DBQueueManagerOptions) storeOptions() queue.MongoDBOptions {
	opts := o.Options
	opts.UseGroups = cmp.Or(opts.UseGroups, o.SingleGroup, o.ByGroups)
	if o.ByGroups {
		opts.GroupName = ""
	}
	return opts
}

// NewDBQueueManager returns a manager of jobs in a MongoDB, without opening a queue. It
// uses Options.Client, or connects to Options.URI if that is nil.
//
// The manager lives until ctx ends. It has a method Close(context.Context) error to end
// it earlier, or to wait for its end. A connection that it made is closed with it.
// NewDBQueueManager blocks while it connects, and checks or builds the indexes as
// queue.NewMongoDBQueue does. It returns an error if the options are invalid or no server
// answers.
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
	m.manager = manager{inspector: &inspector{store: store}, jobs: storeSource{store}, name: fmt.Sprintf("collection %q", opts.Options.Collection)}
	m.stop = context.AfterFunc(ctx, m.closeAfter)
	return m, nil
}

// MakeDBQueueManager is like NewDBQueueManager for an existing connection: Options.Client
// is required, and the caller remains responsible for closing it.
func MakeDBQueueManager(ctx context.Context, opts DBQueueManagerOptions) (Manager, error) {
	if opts.Options.Client == nil {
		return nil, errors.New("invalid queue manager options: Options.Client must be set")
	}
	return NewDBQueueManager(ctx, opts)
}

// dbManager is a manager that has opened its own store.
type dbManager struct {
	manager
	store *queue.Store
	stop  func() bool
}

// Close closes the store of the manager. Later calls fail.
func (m *dbManager) Close(ctx context.Context) error {
	m.stop()
	return m.store.Driver().Close(ctx)
}

// closeTimeout bounds closing in the background, after the context has ended.
const closeTimeout = 10 * time.Second

// closeAfter closes the manager when its context has ended.
func (m *dbManager) closeAfter() {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	if err := m.store.Driver().Close(ctx); err != nil {
		logging.Error(ctx, message.Fields{"message": "could not close the store of a queue manager", "error": err.Error()})
	}
}
