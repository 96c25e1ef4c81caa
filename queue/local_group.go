package queue

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mongodb/amboy"
)

// minGroupTTL is the shortest time to live of the queues of a group, 0 aside.
const minGroupTTL = time.Second

// LocalQueueOptions tell how a queue of a local group is made.
type LocalQueueOptions struct {
	// Constructor makes the queue. The group starts it, unless it comes
	// started. Its context is the group's. Required, but in the options of one
	// call of Get.
	Constructor func(ctx context.Context) (amboy.Queue, error)
}

var _ amboy.QueueOptions = (*LocalQueueOptions)(nil)

// Validate returns an error where Constructor is nil.
func (o *LocalQueueOptions) Validate() error {
	if o.Constructor == nil {
		return errors.New("invalid local queue options: Constructor must not be nil")
	}
	return nil
}

// BuildQueue calls Constructor. It returns an error for options that are not
// valid, for the constructor's error or panic, and where that returns nil. It
// does not start the queue, and blocks as long as the constructor does.
func (o *LocalQueueOptions) BuildQueue(ctx context.Context) (q amboy.Queue, err error) {
	err = o.Validate()
	if err != nil {
		return nil, err
	}
	err = errorOfPanic(func() error {
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
	// DefaultQueue tells how a queue is made where Get does not say otherwise.
	// Its Constructor is required.
	DefaultQueue LocalQueueOptions
	// TTL is how long a queue without work stays, counted from its last use.
	// It is at least a second, or 0, the default, for ever. The group looks
	// once in a TTL, so a queue goes within twice its TTL.
	TTL time.Duration
}

// Validate returns an error that names every field that is not valid. It
// changes nothing.
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

// NewLocalQueueGroup makes a group of queues in memory. When ctx ends, the group
// and all of its queues end, as at Close with an ended context; Close then waits
// for that. The contexts of calls of Get do not count.
//
// Get makes a queue as the last of the options say that were given to it and
// set a Constructor, else as the default says; only *LocalQueueOptions are
// accepted. Options do not change a queue that is there. Each queue is made
// once, whatever the number of calls that ask for it at once; a call whose
// context ends stops waiting, and the queue is made all the same.
//
// Put adds a queue as it is, and the group closes it. The cache that holds the
// queues tells what pruning keeps (see GroupCache). Once closed, the group's
// methods return an error that wraps ErrGroupClosed; closing it again only
// waits. NewLocalQueueGroup returns an error for options that are not valid, and
// if ctx has ended already.
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
	g := newQueueGroup(ctx, "local", opts.TTL, merge)
	g.opened = g.watch
	g.begin(ctx, opts.TTL)
	return g, nil
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
