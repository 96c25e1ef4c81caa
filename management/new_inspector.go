package management

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/registry"
)

// store is what an Inspector needs of a *queue.Store.
type store interface {
	Admin() driver.Admin
	ByReference() bool
	Queues() []string
	LeaseTime() time.Duration
	Now() time.Time
	MarkComplete(ctx context.Context, records []*driver.Record) []error
	Abandon(ctx context.Context, records []*driver.Record) []error
	KeepCanceled(r *driver.Record) time.Duration
	Queue(name string) (amboy.Queue, bool)
	OpenQueue(ctx context.Context, name string) (amboy.Queue, error)
	QueueInfos(ctx context.Context, req driver.QueueRequest) ([]driver.QueueInfo, error)
	Refresh(ctx context.Context) error
	SetWorkers(ctx context.Context, queue string, n int) error
	SinceTurn(ctx context.Context) (time.Duration, error)
	Measure() queue.ProcessMeasures
	TypeCounts(ctx context.Context) (queue.TypeCounts, error)
	Decode(r *driver.Record) (*driver.Record, error)
	HasCodec(queue string) bool
	CheckArgs(r *driver.Record) error
	ReplaceArgs(r *driver.Record, args json.RawMessage) (registry.Body, error)
}

// inspector is the Inspector of this package.
type inspector struct {
	store store
	// unready is why store is nil.
	unready error
	seal    cursorSeal
	// refusals counts the refused calls.
	refusals refusals
}

var (
	_ Inspector = (*inspector)(nil)
	_ Inspector = (*manager)(nil)
	_ Inspector = (*dbManager)(nil)
)

// NewInspector returns an Inspector of one queue of package queue, of any kind. It can be
// used as long as the queue can. It returns an *InvalidArgumentError for a nil queue, and
// an error that wraps ErrUnsupported for a queue of another package.
func NewInspector(q amboy.Queue) (Inspector, error) {
	i := inspectorOf(q)
	if i.unready != nil {
		return nil, fmt.Errorf("making an inspector of a queue: %w", i.unready)
	}
	return i, nil
}

// inspectorOf returns an inspector, which is unready if the queue has no store.
func inspectorOf(q amboy.Queue) *inspector {
	if q == nil {
		return &inspector{unready: errNilQueue}
	}
	s, ok := queue.StoreOf(q)
	if !ok {
		return &inspector{unready: fmt.Errorf("queue %q is a %T, which is not a queue of package queue: %w", q.ID(), q, ErrUnsupported)}
	}
	return &inspector{store: s}
}

var errNilQueue = invalid("queue", "nil", "must not be nil")

// NewGroupInspector returns an Inspector of all queues of a group of package queue. It
// can be used as long as the group can. It returns an *InvalidArgumentError for a nil
// group, and an error that wraps ErrUnsupported for a group of another package.
func NewGroupInspector(group amboy.QueueGroup) (Inspector, error) {
	if group == nil {
		return nil, fmt.Errorf("making an inspector of a group: %w", invalid("group", "nil", "must not be nil"))
	}
	s, ok := queue.StoreOfGroup(group)
	if !ok {
		return nil, fmt.Errorf("making an inspector of a group: a %T is not a group of package queue: %w", group, ErrUnsupported)
	}
	return &inspector{store: s}, nil
}

// NewStoreInspector returns an Inspector of all queues in the store of a driver, without opening
// a queue. The caller must close the driver, and must not use the Inspector afterwards. It
// returns an *InvalidArgumentError for a nil driver.
func NewStoreInspector(d driver.Driver) (Inspector, error) {
	if d == nil {
		return nil, fmt.Errorf("making an inspector of a store: %w", invalid("driver", "nil", "must not be nil"))
	}
	return &inspector{store: queue.StoreOfDriver(d)}, nil
}

// NewDBInspector returns an Inspector of jobs in a MongoDB, without opening a queue. It
// connects, blocks and returns errors as NewDBQueueManager does. The Inspector can be used until ctx
// ends, or until its method Close(context.Context) error is called.
func NewDBInspector(ctx context.Context, opts DBQueueManagerOptions) (Inspector, error) {
	m, err := newDBManager(ctx, opts)
	if err != nil {
		return nil, fmt.Errorf("making an inspector: %w", err)
	}
	return m, nil
}

// check joins the errors of the arguments of a call, and the reason why there is no store.
func (i *inspector) check(errs ...error) error {
	return errors.Join(append([]error{i.unready}, errs...)...)
}

// resolveQueues returns the queues of a request that names some queues, or none. An empty result
// stands for all queues of the store. It returns an error for a queue outside this inspector.
func (i *inspector) resolveQueues(named []string) ([]string, error) {
	allowed := i.store.Queues()
	if len(named) == 0 {
		return allowed, nil
	}
	for _, name := range named {
		if len(allowed) > 0 && !slices.Contains(allowed, name) {
			return nil, unknownQueue(name)
		}
	}
	return slices.Compact(slices.Sorted(slices.Values(named))), nil
}

func unknownQueue(name string) error { return fmt.Errorf("queue %q: %w", name, ErrUnknownQueue) }

// validQueue returns an error for a name that no queue can have.
func validQueue(name string) error { return validateText("queue", name) }

// validJobID returns an error for an ID that no job can have.
func validJobID(id string) error {
	switch {
	case id == "":
		return invalid("id", id, "must not be empty")
	case len(id) > amboy.MaxIDLength:
		return invalid("id", id, fmt.Sprintf("must be at most %d bytes long, and has %d", amboy.MaxIDLength, len(id)))
	default:
		return validateText("id", id)
	}
}

// checkQueueExists returns an error that wraps ErrUnknownQueue if a queue is outside this inspector, or
// if it is not open in this process and the store has never contained it.
func (i *inspector) checkQueueExists(ctx context.Context, name string) error {
	if allowed := i.store.Queues(); len(allowed) > 0 {
		if slices.Contains(allowed, name) {
			return nil
		}
		return unknownQueue(name)
	}
	if _, isOpen := i.store.Queue(name); isOpen {
		return nil
	}
	stats, err := i.store.Admin().Stats(ctx, name)
	if err != nil || stats.Total > 0 {
		return err
	}
	infos, err := i.store.Admin().Queues(ctx, driver.QueueRequest{From: name, Limit: 1})
	if err != nil {
		return err
	}
	if len(infos) == 0 || infos[0].Name != name {
		return unknownQueue(name)
	}
	return nil
}
