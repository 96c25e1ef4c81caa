package queue

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/contain"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/internal/notes"
)

// minGroupTTL is the shortest time to live of the queues of a group, except for 0.
const minGroupTTL = time.Second

// LocalQueueOptions configure how a local group makes a queue.
type LocalQueueOptions struct {
	// Constructor makes the queue. The group starts the queue unless it is already
	// started. ctx is the context of the group. Required, except in the options of a call
	// of Get.
	Constructor func(ctx context.Context) (amboy.Queue, error)
}

var _ amboy.QueueOptions = (*LocalQueueOptions)(nil)

// Validate returns an error if Constructor is nil.
func (o *LocalQueueOptions) Validate() error {
	if o.Constructor == nil {
		return errors.New("invalid local queue options: Constructor must not be nil")
	}
	return nil
}

// BuildQueue calls Constructor. It returns an error if the options are not valid, or if
// the constructor fails, panics or returns nil. It does not start the queue, and blocks
// as long as the constructor does.
func (o *LocalQueueOptions) BuildQueue(ctx context.Context) (q amboy.Queue, err error) {
	err = o.Validate()
	if err != nil {
		return nil, err
	}
	err = contain.Panic(func() error {
		q, err = o.Constructor(ctx)
		return err
	})
	switch {
	case err != nil:
		return nil, fmt.Errorf("calling the constructor of a local queue: %w", err)
	case q == nil:
		return nil, errors.New("calling the constructor of a local queue: it returned nil")
	}
	return q, nil
}

// with returns the options with the fields that are set in other.
func (o LocalQueueOptions) with(other LocalQueueOptions) LocalQueueOptions {
	if other.Constructor != nil {
		o.Constructor = other.Constructor
	}
	return o
}

// LocalQueueGroupOptions configure a group of queues in memory.
type LocalQueueGroupOptions struct {
	// DefaultQueue configures how a queue is made unless the options of Get override it.
	// Its Constructor is required.
	DefaultQueue LocalQueueOptions
	// TTL is how long a queue without work stays open, counted from its last use. It must
	// be at least one second, or 0 (the default) for ever. The group checks once per TTL,
	// so a queue is closed within twice its TTL.
	TTL time.Duration
}

// Validate returns an error that names every field that is not valid. It changes nothing.
func (o *LocalQueueGroupOptions) Validate() error {
	var errs []error
	if err := o.DefaultQueue.Validate(); err != nil {
		errs = append(errs, fmt.Errorf("invalid local queue group options: DefaultQueue: %w", err))
	}
	if o.TTL < 0 || (o.TTL > 0 && o.TTL < minGroupTTL) {
		errs = append(errs, fmt.Errorf("invalid local queue group options: TTL must be 0 or at least %s (is %s)", minGroupTTL, o.TTL))
	}
	return errors.Join(errs...)
}

// NewLocalQueueGroup returns a group of queues in memory. When ctx ends, the group and
// all of its queues close, as at Close with an ended context; a call of Close then waits
// for that. The contexts of calls of Get do not end the queues.
//
// Get makes a queue with the last of its options that sets a Constructor, or else with
// the default. Only *LocalQueueOptions are accepted. Options do not change an existing
// queue. Each queue is made once, even if several calls ask for it at once. A call whose
// context ends stops waiting, and the queue is made all the same.
//
// Put adds a queue as it is, and the group closes it. See GroupCache for the queues that
// pruning keeps. Once the group is closed, its methods return an error that wraps
// ErrGroupClosed; closing it again only waits. NewLocalQueueGroup returns an error if the
// options are not valid or ctx has ended.
func NewLocalQueueGroup(ctx context.Context, opts LocalQueueGroupOptions) (amboy.QueueGroup, error) {
	if err := opts.Validate(); err != nil {
		return nil, fmt.Errorf("making a local queue group: %w", err)
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("making a local queue group: %w", err)
	}
	merge := func(_ string, call []amboy.QueueOptions) (queueBuilder, error) {
		merged, err := opts.DefaultQueue.merge(call)
		if err != nil {
			return nil, err
		}
		return merged.BuildQueue, nil
	}
	g := &localGroup{queueGroup: newQueueGroup(ctx, "local", opts.TTL, merge), announcer: newGroupAnnouncer()}
	g.opened = func(name string, q amboy.Queue) {
		g.applyWorkerCount(name)
		g.watch(q)
	}
	g.begin(ctx, opts.TTL)
	return g, nil
}

// localGroup is a group of queues in memory. Each queue has a store of its own; operators see
// them as one store, whose queues have the names that they have in the group.
type localGroup struct {
	*queueGroup
	changes   driver.Subscribers // to the changes of jobs in all queues
	notes     notes.Store
	announcer groupAnnouncer
	meter     groupMeter
}

// merge applies the options of a call to the default.
func (o LocalQueueOptions) merge(call []amboy.QueueOptions) (*LocalQueueOptions, error) {
	for _, opt := range call {
		local, ok := opt.(*LocalQueueOptions)
		if !ok || local == nil {
			return nil, fmt.Errorf("options must be a *queue.LocalQueueOptions that is not nil (is %T)", opt)
		}
		o = o.with(*local)
	}
	return &o, nil
}
