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
	"github.com/mongodb/amboy/pool"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/internal/notes"
)

// queueGroup is what groups of queues have in common: it makes each queue once,
// keeps it, and prunes those without work.
type queueGroup struct {
	kind string // of its queues, for messages
	// owner is the context of the constructor, with which the group ends.
	owner  context.Context
	ending ending
	// ctx is what the queues run under: they outlive the calls that make them.
	ctx    context.Context
	cancel context.CancelCauseFunc
	ttl    time.Duration
	cache  GroupCache
	// prune closes the queues without work whose time to live is over.
	prune func(context.Context) error
	// merge makes of the options of a call what builds the queue of that name.
	merge func(name string, call []amboy.QueueOptions) (queueBuilder, error)

	background     context.Context // ends before the queues are closed
	stopBackground context.CancelFunc
	routines       tasks // the pruning, the creations and others

	// closeShared closes what the queues share, after them, as engine.close does; nil if
	// that is nothing.
	closeShared func(late context.Context) leftover

	// opened is told of each queue that is in the group from then on; nil for nobody.
	opened  func(q amboy.Queue)
	changes driver.Subscribers // of the jobs of a group of queues in memory
	notes   notes.Store        // of such a group
	// announcer is that of such a group.
	announcer groupAnnouncer
	meter     groupMeter

	mu        sync.Mutex
	creations map[string]*queueCreation
	closed    bool

	closing  closing
	closeErr error // of the closing; set before that is through
}

// queueBuilder makes a queue that need not be started.
type queueBuilder func(ctx context.Context) (amboy.Queue, error)

// queueCreation makes one queue, for which all wait who ask for it. Its result
// may be read once done is closed.
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
		cache:          NewGroupCache(ttl),
		merge:          merge,
		background:     background,
		stopBackground: stopBackground,
		announcer:      newGroupAnnouncer(),
		creations:      map[string]*queueCreation{},
	}
	g.prune = g.cache.Prune
	return g
}

// Get returns the queue with that name, and makes and starts it where there is
// none.
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
	build, err := g.merge(name, opts)
	if err != nil {
		return nil, err
	}
	q, creation, err := g.findOrCreate(name, build)
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

// findOrCreate returns the queue with that name, or else its creation, which it
// begins where it is not under way.
func (g *queueGroup) findOrCreate(name string, build queueBuilder) (amboy.Queue, *queueCreation, error) {
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
	g.routines.Go(func() { g.create(name, build, creation) })
	return nil, creation, nil
}

// usable returns an error once the group or its context has ended. The caller
// holds the lock.
func (g *queueGroup) usable() error {
	if g.owner.Err() != nil {
		return fmt.Errorf("%w: its context ended: %w", ErrGroupClosed, context.Cause(g.owner))
	}
	if g.closed {
		return ErrGroupClosed
	}
	return nil
}

// begin makes the group prune itself if it has a time to live, and close when ctx ends. It
// comes when the group is complete.
func (g *queueGroup) begin(ctx context.Context, pruneEvery time.Duration) {
	if g.ttl > 0 {
		g.routines.Go(func() { g.pruneRegularly(g.background, pruneEvery) })
	}
	g.endWith(ctx)
}

// endWith closes the group when the context of its constructor ends, as Close with an
// ended context does. It comes when the group is complete.
func (g *queueGroup) endWith(ctx context.Context) {
	g.ending.with(ctx, g.kind+" group", func(ctx context.Context) {
		if err := g.closeAll(ctx); err != nil && !errors.Is(err, ctx.Err()) {
			logging.Error(context.WithoutCancel(ctx), message.Fields{
				"message": "could not close the queues of a group whose context ended",
				"kind":    g.kind,
				"error":   err.Error(),
			})
		}
	})
}

// create makes a queue and adds it to the group.
func (g *queueGroup) create(name string, build queueBuilder, creation *queueCreation) {
	defer close(creation.done)
	g.cache.(*groupCache).awaitLeaving(name)
	if creation.queue = g.stayed(name); creation.queue != nil {
		return
	}
	q, err := g.build(build)

	g.mu.Lock()
	delete(g.creations, name)
	if err == nil {
		err = g.cache.Set(name, q, g.ttl)
	}
	g.mu.Unlock()
	if err != nil && q != nil {
		// The group was closed meanwhile, and did not wait for the constructor.
		err = errors.Join(err, errorOfPanic(func() error { q.Close(g.ctx); return nil }))
	}
	if err != nil {
		creation.err = err
		return
	}
	creation.queue = q
	g.obeyFor(name)
	g.tellOpened(q)
}

// stayed returns the queue with that name if it was to be pruned and has stayed, for
// which nothing is to be created.
func (g *queueGroup) stayed(name string) amboy.Queue {
	g.mu.Lock()
	defer g.mu.Unlock()
	q := g.cache.Get(name)
	if q != nil {
		delete(g.creations, name)
	}
	return q
}

func (g *queueGroup) tellOpened(q amboy.Queue) {
	if g.opened != nil {
		g.opened(q)
	}
}

// build makes a queue and starts it.
func (g *queueGroup) build(build queueBuilder) (amboy.Queue, error) {
	q, err := build(g.ctx)
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
func (g *queueGroup) Put(_ context.Context, name string, q amboy.Queue) error {
	if err := g.add(name, q); err != nil {
		return err
	}
	g.obeyFor(name)
	g.tellOpened(q)
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

// Len is the number of queues.
func (g *queueGroup) Len() int { return g.cache.Len() }

// Queues names the queues, sorted.
func (g *queueGroup) Queues(context.Context) []string { return g.cache.Names() }

// Prune closes the queues that have no work and were not used for the group's
// time to live; none where that is 0.
func (g *queueGroup) Prune(ctx context.Context) error { return g.prune(ctx) }

// pruneRegularly prunes the group until ctx ends. It is the group's one timer.
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

// Close closes all queues at once, each as Queue.Close does, and then what they share.
// A queue that is just made is waited for and closed too; when ctx ends, so does the
// context of its constructor. A second call waits for the first, and so does one after
// the group's context has ended. Each returns within a second of the end of its ctx; what
// was left behind then is in the error of the first, which wraps amboy.ErrLeftBehind.
func (g *queueGroup) Close(ctx context.Context) error {
	err := g.closeAll(ctx)
	g.ending.cancel()
	g.ending.wait()
	return err
}

func (g *queueGroup) closeAll(ctx context.Context) error {
	g.mu.Lock()
	first := !g.closed
	g.closed = true
	g.mu.Unlock()
	ended := g.closing.run(ctx, func(ctx context.Context) { g.closeErr = g.closeParts(ctx) })
	switch {
	case !first:
		return nil
	case !ended:
		return fmt.Errorf("closing a %s group: %w", g.kind, amboy.ErrLeftBehind)
	default:
		return g.closeErr
	}
}

// closeParts closes the queues and what they share. The queues run under the group's
// context, so it ends after them, or with ctx.
func (g *queueGroup) closeParts(ctx context.Context) error {
	late, cancel := afterEnd(ctx, closeGrace)
	defer cancel()
	// It ends the runs of jobs too, which are to see the cause of every hard stop.
	stop := func() { g.cancel(pool.ErrClosed) }
	defer stop()
	defer context.AfterFunc(ctx, stop)()
	g.stopBackground()
	g.routines.wait(ctx) // whatever makes a queue later than that closes it
	err := g.cache.(*groupCache).closeAll(ctx, late)
	var left leftover
	if !g.routines.wait(late) {
		left.add("opening or pruning of queues", amboy.ErrLeftBehind)
	}
	if g.closeShared != nil {
		left.parts = append(left.parts, g.closeShared(late).parts...)
	}
	if leftErr := left.err(); leftErr != nil {
		err = errors.Join(err, fmt.Errorf("closing a %s group: %w", g.kind, leftErr))
	}
	return err
}
