package queue

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/mongodb/grip/message"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/contain"
	"github.com/mongodb/amboy/internal/logging"
	"github.com/mongodb/amboy/pool"
	"github.com/mongodb/amboy/queue/internal/engine"
	"github.com/mongodb/amboy/queue/internal/lifecycle"
)

// queueGroup is the common part of all groups: it creates each queue once, keeps it, and
// prunes queues without work.
type queueGroup struct {
	kind string // of queue, for messages
	// owner is the context of the constructor. The group closes when it ends.
	owner  context.Context
	ending lifecycle.Ending
	// ctx is the context of the queues, which outlive the calls that create them.
	ctx    context.Context
	cancel context.CancelCauseFunc
	ttl    time.Duration
	cache  *groupCache
	// prune closes the queues without work whose time to live is over.
	prune func(context.Context) error
	// merge combines the group's options with the options of a call into a builder for
	// the queue with that name.
	merge func(name string, call []amboy.QueueOptions) (queueBuilder, error)

	background     context.Context // ends before the queues are closed
	stopBackground context.CancelFunc
	routines       lifecycle.Tasks // pruning, creations and others

	// closeShared closes what the queues share, after the queues, as Engine.Close does.
	// It is nil if they share nothing.
	closeShared func(late context.Context) lifecycle.Leftover

	// opened is called with each queue that was added to the group. It may be nil.
	opened func(name string, q amboy.Queue)

	mu        sync.Mutex
	creations map[string]*queueCreation
	closed    bool
	// late holds the queues that were made for running jobs while the group closes; lateClosed is true once they are
	// closed.
	late       map[string]amboy.Queue
	lateClosed bool

	closing  lifecycle.Closing
	closeErr error // result of closeParts; read it only after closing.Run returned true
}

// queueBuilder makes a queue, which may be started or not.
type queueBuilder func(ctx context.Context) (amboy.Queue, error)

// queueCreation is the creation of one queue. All callers that ask for the queue wait for
// it. Its result may be read once done is closed.
type queueCreation struct {
	done  chan struct{}
	queue amboy.Queue
	err   error
}

// newQueueGroup makes an empty group.
func newQueueGroup(ctx context.Context, kind string, ttl time.Duration, merge func(string, []amboy.QueueOptions) (queueBuilder, error)) *queueGroup {
	owner := ctx
	ctx, cancel := context.WithCancelCause(owner)
	background, stopBackground := context.WithCancel(ctx)
	g := &queueGroup{
		kind:           kind,
		owner:          owner,
		ctx:            ctx,
		cancel:         cancel,
		ttl:            ttl,
		cache:          newGroupCache(ttl, nil),
		merge:          merge,
		background:     background,
		stopBackground: stopBackground,
		creations:      map[string]*queueCreation{},
	}
	g.prune = g.cache.Prune
	return g
}

// Get returns the queue with that name. It creates and starts the queue if the group does
// not have it. While the group closes, running jobs get queues that do not start any job.
func (g *queueGroup) Get(ctx context.Context, name string, opts ...amboy.QueueOptions) (amboy.Queue, error) {
	q, err := g.get(ctx, name, opts)
	if err != nil {
		return nil, fmt.Errorf("getting queue %q of a %s group: %w", name, g.kind, err)
	}
	return q, nil
}

func (g *queueGroup) get(ctx context.Context, name string, opts []amboy.QueueOptions) (amboy.Queue, error) {
	if name == "" {
		return nil, errors.New("name must not be empty")
	}
	if len(opts) == 0 { // the options of the group are needed only to make the queue
		if q, err := g.cached(ctx, name); q != nil || err != nil {
			return q, err
		}
	}
	build, err := g.merge(name, opts)
	if err != nil {
		return nil, err
	}
	q, creation, err := g.findOrCreate(ctx, name, build)
	if creation == nil {
		return q, err
	}
	select {
	case <-creation.done:
		return creation.queue, creation.err
	case <-ctx.Done():
		return nil, fmt.Errorf("waiting for its creation: %w", ctx.Err())
	}
}

// cached returns the queue with that name, or nil if it is not open.
func (g *queueGroup) cached(ctx context.Context, name string) (amboy.Queue, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := g.usableFor(ctx); err != nil {
		return nil, err
	}
	return g.find(ctx, name), nil
}

// find returns the queue with that name, which may be closing, or nil. The caller holds the lock.
func (g *queueGroup) find(ctx context.Context, name string) amboy.Queue {
	if q := g.cache.Get(name); q != nil {
		return q
	}
	if q, ok := g.cache.ending(name).(*engine.Queue); ok && q.ServesRun(ctx) {
		return q
	}
	return g.late[name]
}

// findOrCreate returns the queue with that name, or else its creation, which it starts
// unless one is under way.
func (g *queueGroup) findOrCreate(ctx context.Context, name string, build queueBuilder) (amboy.Queue, *queueCreation, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := g.usableFor(ctx); err != nil {
		return nil, nil, err
	}
	if q := g.find(ctx, name); q != nil {
		return q, nil, nil
	}
	if creation, ok := g.creations[name]; ok {
		return nil, creation, nil
	}
	creation := &queueCreation{done: make(chan struct{})}
	g.creations[name] = creation
	create := g.create
	if g.closed {
		create = g.createLate
	}
	g.routines.Go(func() { create(name, build, creation) })
	return nil, creation, nil
}

// isCreating reports whether a queue is being created.
func (g *queueGroup) isCreating(name string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.creations[name] != nil
}

// usable returns an error if the group was closed or its context has ended. The caller
// holds the lock.
func (g *queueGroup) usable() error {
	if g.owner.Err() != nil {
		return fmt.Errorf("%w: context ended: %w", ErrGroupClosed, context.Cause(g.owner))
	}
	if g.closed {
		return ErrGroupClosed
	}
	return nil
}

// usableFor is usable, except that a running job may use the queues of a group that closes, as Queue.Close says: it may
// put jobs, which other processes run.
func (g *queueGroup) usableFor(ctx context.Context) error {
	err := g.usable()
	if err == nil || g.owner.Err() != nil {
		return err
	}
	from, ok := amboy.QueueFromContext(ctx).(*engine.Queue)
	if ok && from.GoesOn() && g.cache.isEnding(from) {
		return nil
	}
	return err
}

// begin makes the group prune itself if it has a time to live, and close when ctx ends. It
// is called once the group is complete.
func (g *queueGroup) begin(ctx context.Context, pruneEvery time.Duration) {
	if g.ttl > 0 {
		g.routines.Go(func() { g.pruneRegularly(g.background, pruneEvery) })
	}
	g.endWith(ctx)
}

// endWith closes the group when the context of its constructor ends, as Close with an
// ended context does. It is called once the group is complete.
func (g *queueGroup) endWith(ctx context.Context) {
	g.ending.With(ctx, g.kind+" group", func(ctx context.Context) {
		if err := g.closeAll(ctx); err != nil && !errors.Is(err, ctx.Err()) {
			logging.Error(context.WithoutCancel(ctx), message.Fields{
				"message": "could not close the queues of a group whose context ended",
				"kind":    g.kind,
				"error":   err.Error(),
			})
		}
	})
}

// create makes a queue, adds it to the group, and completes the creation.
func (g *queueGroup) create(name string, build queueBuilder, creation *queueCreation) {
	defer close(creation.done)
	// Pruning may have put the queue back, because it has work.
	creation.queue = g.cache.getSettled(name)
	if creation.queue != nil {
		g.mu.Lock()
		delete(g.creations, name)
		g.mu.Unlock()
		return
	}
	var q amboy.Queue
	err := contain.Alone(func() (err error) {
		q, err = g.build(build)
		return err
	})

	g.mu.Lock()
	delete(g.creations, name)
	if err == nil {
		err = g.cache.Set(name, q, g.ttl)
	}
	g.mu.Unlock()
	if err != nil && q != nil {
		// The group was closed meanwhile, without waiting for the constructor.
		err = errors.Join(err, contain.Alone(func() error { q.Close(g.ctx); return nil }))
	}
	if err != nil {
		creation.err = err
		return
	}
	creation.queue = q
	g.notifyOpened(name, q)
}

// createLate makes a queue for running jobs while the group closes. The queue is not started, so that it runs none of
// the jobs that it takes.
func (g *queueGroup) createLate(name string, build queueBuilder, creation *queueCreation) {
	defer close(creation.done)
	creation.err = contain.Alone(func() (err error) {
		creation.queue, err = build(g.ctx)
		return err
	})
	g.mu.Lock()
	delete(g.creations, name)
	isClosed := g.lateClosed
	if creation.err == nil && !isClosed {
		if g.late == nil {
			g.late = map[string]amboy.Queue{}
		}
		g.late[name] = creation.queue
	}
	g.mu.Unlock()
	if creation.err == nil && isClosed { // without waiting for the constructor
		creation.err = errors.Join(ErrGroupClosed, contain.Alone(func() error { creation.queue.Close(g.ctx); return nil }))
	}
}

// closeLate closes what createLate has made.
func (g *queueGroup) closeLate(ctx context.Context) (err error) {
	g.mu.Lock()
	late := g.late
	g.late, g.lateClosed = nil, true
	g.mu.Unlock()
	for name, q := range late {
		if failure := contain.Alone(func() error { q.Close(ctx); return nil }); failure != nil {
			err = errors.Join(err, fmt.Errorf("closing queue %q of a group: %w", name, failure))
		}
	}
	return err
}

func (g *queueGroup) notifyOpened(name string, q amboy.Queue) {
	if g.opened != nil {
		g.opened(name, q)
	}
}

// groupHooks are functions of the user that are called for each queue; they may be nil.
type groupHooks struct {
	onOpen  func(name string, q amboy.Queue)
	onClose func(name string)
}

// use sets the hooks of a group that has no queues yet.
func (g *queueGroup) use(hooks groupHooks) {
	if hooks.onOpen != nil {
		g.opened = func(name string, q amboy.Queue) {
			g.call(g.ctx, "OnOpen", name, func() { hooks.onOpen(name, q) })
		}
	}
	if hooks.onClose != nil {
		g.cache.hook = func(ctx context.Context, name string) error {
			g.call(ctx, "OnClose", name, func() { hooks.onClose(name) })
			return nil
		}
	}
}

// call calls a hook, and logs a panic or a runtime.Goexit.
func (g *queueGroup) call(ctx context.Context, hook, name string, f func()) {
	err := contain.Alone(func() error { f(); return nil })
	if err != nil {
		logging.Error(context.WithoutCancel(ctx), message.Fields{
			"message": "hook of a group did not return",
			"hook":    hook,
			"queue":   name,
			"error":   err.Error(),
		})
	}
}

// build makes a queue, and starts it if it is not started.
func (g *queueGroup) build(build queueBuilder) (amboy.Queue, error) {
	q, err := build(g.ctx)
	if err != nil {
		return nil, err
	}
	err = contain.Alone(func() error {
		if q.Info().Started {
			return nil
		}
		return q.Start(g.ctx)
	})
	if err != nil {
		// Start may have started parts of the queue before it failed.
		closeErr := contain.Alone(func() error { q.Close(g.ctx); return nil })
		return nil, errors.Join(fmt.Errorf("starting the queue: %w", err), closeErr)
	}
	return q, nil
}

// Put adds a queue to the group.
func (g *queueGroup) Put(_ context.Context, name string, q amboy.Queue) error {
	if err := g.add(name, q); err != nil {
		return err
	}
	g.notifyOpened(name, q)
	return nil
}

// add adds a queue to the cache.
func (g *queueGroup) add(name string, q amboy.Queue) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := g.usable(); err != nil {
		return fmt.Errorf("putting queue %q in a %s group: %w", name, g.kind, err)
	}
	if _, ok := g.creations[name]; ok {
		return fmt.Errorf("putting queue %q in a %s group: the name is taken", name, g.kind)
	}
	return g.cache.Set(name, q, g.ttl)
}

// Len returns the number of open queues.
func (g *queueGroup) Len() int { return g.cache.Len() }

// Queues returns the names of the open queues, sorted.
func (g *queueGroup) Queues(context.Context) []string { return g.cache.Names() }

// Prune closes the queues that have no work and were not used for the group's time to
// live. It closes none if that is 0.
func (g *queueGroup) Prune(ctx context.Context) error { return g.prune(ctx) }

// pruneRegularly prunes the group until ctx ends.
func (g *queueGroup) pruneRegularly(ctx context.Context, every time.Duration) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if err := g.prune(ctx); err != nil && ctx.Err() == nil {
			logging.Error(ctx, message.Fields{
				"message": "could not prune a queue group",
				"kind":    g.kind,
				"error":   err.Error(),
			})
		}
	}
}

// Close closes all queues at once, each as Queue.Close does, and then what they share. A
// queue that is being created is waited for and closed too; when ctx ends, so does the
// context of its constructor. A second call waits for the first, and so does a call after
// the group's context has ended. Each call returns within a second after its ctx ends.
// The error of the first call then lists what was left behind, and wraps
// amboy.ErrLeftBehind.
func (g *queueGroup) Close(ctx context.Context) error {
	err := g.closeAll(ctx)
	g.ending.Cancel()
	g.ending.Wait()
	return err
}

func (g *queueGroup) closeAll(ctx context.Context) error {
	g.mu.Lock()
	first := !g.closed
	g.closed = true
	g.mu.Unlock()
	ended := g.closing.Run(ctx, func(ctx context.Context) { g.closeErr = g.closeParts(ctx) })
	switch {
	case !first:
		return nil
	case !ended:
		return fmt.Errorf("closing a %s group: %w", g.kind, amboy.ErrLeftBehind)
	default:
		return g.closeErr
	}
}

// closeParts closes the queues and what they share. The group's context ends after the
// queues have closed, or with ctx: the queues run under it.
func (g *queueGroup) closeParts(ctx context.Context) error {
	late, cancel := lifecycle.AfterEnd(ctx, lifecycle.CloseGrace)
	defer cancel()
	// The group's context also ends the runs of jobs. They get the same cause as at every
	// hard stop.
	stop := func() { g.cancel(pool.ErrClosed) }
	defer stop()
	defer context.AfterFunc(ctx, stop)()
	g.stopBackground()
	g.routines.Wait(ctx) // a creation that ends later closes its queue itself
	err := g.cache.closeAll(ctx)
	var left lifecycle.Leftover
	if !g.routines.Wait(late) {
		left.Add("opening or pruning of queues", amboy.ErrLeftBehind)
	}
	err = errors.Join(err, g.closeLate(ctx))
	if g.closeShared != nil {
		left.Parts = append(left.Parts, g.closeShared(late).Parts...)
	}
	if leftErr := left.Err(); leftErr != nil {
		err = errors.Join(err, fmt.Errorf("closing a %s group: %w", g.kind, leftErr))
	}
	return err
}
