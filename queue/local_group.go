package queue

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/mongodb/grip/message"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/logging"
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

// localQueueGroup is a group of queues in memory.
type localQueueGroup struct {
	// ctx is what the queues run under: they outlive the calls that make them.
	ctx    context.Context
	cancel context.CancelFunc
	opts   LocalQueueGroupOptions
	cache  GroupCache

	stopPruning context.CancelFunc
	routines    sync.WaitGroup // the pruning and the creations

	mu        sync.Mutex
	creations map[string]*queueCreation
	closed    bool
}

// queueCreation makes one queue, for which all wait who ask for it. Its result
// may be read once done is closed.
type queueCreation struct {
	done  chan struct{}
	queue amboy.Queue
	err   error
}

// NewLocalQueueGroup makes a group of queues in memory. The queues run under
// ctx and end with it; call Close all the same, to wait for them.
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
// waits. NewLocalQueueGroup returns an error for options that are not valid.
func NewLocalQueueGroup(ctx context.Context, opts LocalQueueGroupOptions) (amboy.QueueGroup, error) {
	if err := opts.Validate(); err != nil {
		return nil, fmt.Errorf("making a local queue group: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	pruning, stopPruning := context.WithCancel(ctx)
	g := &localQueueGroup{
		ctx:         ctx,
		cancel:      cancel,
		opts:        opts,
		cache:       NewGroupCache(opts.TTL),
		stopPruning: stopPruning,
		creations:   map[string]*queueCreation{},
	}
	if opts.TTL > 0 {
		g.routines.Go(func() { g.pruneRegularly(pruning) })
	}
	return g, nil
}

// Get returns the queue with that name, and makes and starts it where there is
// none.
func (g *localQueueGroup) Get(ctx context.Context, name string, opts ...amboy.QueueOptions) (amboy.Queue, error) {
	q, err := g.get(ctx, name, opts)
	if err != nil {
		return nil, fmt.Errorf("getting queue %q of a local group: %w", name, err)
	}
	return q, nil
}

func (g *localQueueGroup) get(ctx context.Context, name string, opts []amboy.QueueOptions) (amboy.Queue, error) {
	if name == "" {
		return nil, errors.New("name must not be empty")
	}
	merged, err := g.merge(opts)
	if err != nil {
		return nil, err
	}
	q, creation, err := g.findOrCreate(name, merged)
	if creation == nil {
		return q, err
	}
	select {
	case <-creation.done:
		return creation.queue, creation.err
	case <-ctx.Done():
		return nil, fmt.Errorf("waiting until it is made: %w", ctx.Err())
	}
}

// merge applies the options of a call to the default.
func (g *localQueueGroup) merge(opts []amboy.QueueOptions) (LocalQueueOptions, error) {
	merged := g.opts.DefaultQueue
	for _, opt := range opts {
		local, ok := opt.(*LocalQueueOptions)
		if !ok || local == nil {
			return merged, fmt.Errorf("options must be a *queue.LocalQueueOptions that is not nil (is %T)", opt)
		}
		merged = merged.with(*local)
	}
	return merged, nil
}

// findOrCreate returns the queue with that name, or else its creation, which it
// begins where it is not under way.
func (g *localQueueGroup) findOrCreate(name string, opts LocalQueueOptions) (amboy.Queue, *queueCreation, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := g.usable(); err != nil {
		return nil, nil, err
	}
	if q := g.cache.Get(name); q != nil {
		return q, nil, nil
	}
	if creation, ok := g.creations[name]; ok {
		return nil, creation, nil
	}
	creation := &queueCreation{done: make(chan struct{})}
	g.creations[name] = creation
	g.routines.Go(func() { g.create(name, opts, creation) })
	return nil, creation, nil
}

// usable returns an error once the group or its context has ended. The caller
// holds the lock.
func (g *localQueueGroup) usable() error {
	if g.closed {
		return ErrGroupClosed
	}
	if g.ctx.Err() != nil {
		return fmt.Errorf("the group's context ended: %w", context.Cause(g.ctx))
	}
	return nil
}

// create makes a queue and adds it to the group.
func (g *localQueueGroup) create(name string, opts LocalQueueOptions, creation *queueCreation) {
	defer close(creation.done)
	q, err := g.build(opts)

	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.creations, name)
	if err == nil {
		err = g.cache.Set(name, q, g.opts.TTL)
	}
	if err != nil {
		creation.err = err
		return
	}
	creation.queue = q
}

// build makes a queue and starts it.
func (g *localQueueGroup) build(opts LocalQueueOptions) (amboy.Queue, error) {
	q, err := opts.BuildQueue(g.ctx)
	if err != nil {
		return nil, err
	}
	err = errorOfPanic(func() error {
		if q.Info().Started {
			return nil
		}
		return q.Start(g.ctx)
	})
	if err != nil {
		// A queue may have begun to start before it failed.
		closeErr := errorOfPanic(func() error { q.Close(g.ctx); return nil })
		return nil, errors.Join(fmt.Errorf("starting it: %w", err), closeErr)
	}
	return q, nil
}

// Put adds a queue under a name.
func (g *localQueueGroup) Put(_ context.Context, name string, q amboy.Queue) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := g.usable(); err != nil {
		return fmt.Errorf("putting queue %q in a local group: %w", name, err)
	}
	if _, ok := g.creations[name]; ok {
		return fmt.Errorf("putting queue %q in a local group: the name is taken", name)
	}
	return g.cache.Set(name, q, g.opts.TTL)
}

// Len is the number of queues.
func (g *localQueueGroup) Len() int { return g.cache.Len() }

// Queues names the queues, sorted.
func (g *localQueueGroup) Queues(context.Context) []string { return g.cache.Names() }

// Prune closes the queues that have no work and were not used for the group's
// time to live; none where that is 0.
func (g *localQueueGroup) Prune(ctx context.Context) error { return g.cache.Prune(ctx) }

// pruneRegularly prunes the group until ctx ends. It is the group's one timer.
func (g *localQueueGroup) pruneRegularly(ctx context.Context) {
	ticker := time.NewTicker(g.opts.TTL)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if err := g.cache.Prune(ctx); err != nil && ctx.Err() == nil {
			logging.Error(ctx, message.Fields{
				"message": "could not prune a local queue group",
				"error":   err.Error(),
			})
		}
	}
}

// Close closes all queues at once, each as Queue.Close does. A queue that is
// just made is waited for and closed too; when ctx ends, so does the context of
// its constructor.
func (g *localQueueGroup) Close(ctx context.Context) error {
	g.mu.Lock()
	g.closed = true
	g.mu.Unlock()

	g.stopPruning()
	defer g.cancel()
	defer context.AfterFunc(ctx, g.cancel)()
	// The queues run under the group's context, so it ends after them.
	g.routines.Wait()
	return g.cache.Close(ctx)
}
