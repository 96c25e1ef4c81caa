package queue

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/contain"
	"github.com/mongodb/amboy/queue/internal/engine"
	"github.com/mongodb/amboy/queue/internal/lifecycle"
)

// ErrGroupClosed is wrapped by the errors of calls on a closed queue group or group
// cache.
var ErrGroupClosed = amboy.ErrGroupClosed

// GroupCache holds the queues of a group that are open in this process, by name.
// Implementations are safe for concurrent use, close no queue twice, and hold no lock
// while they call a queue.
//
// A queue with pending, running or retrying jobs never leaves the cache before Close,
// except that a driver group closes queues whose jobs all wait (see NewDriverGroup). The
// queues of this package are closed on condition that they have no work (see
// amboy.IdleCloser), so a Put is either refused or keeps the queue open. One race remains
// with a queue of another package that does not implement amboy.IdleCloser: a caller that
// got the queue earlier may put a job after the stats of the queue were read as empty and
// before its Close takes effect. Callers that call Get before each Put are safe: the
// cache keeps a queue if Get returned it since its stats were read.
type GroupCache interface {
	// Set adds a queue. ttl is the queue's time to live, counted from the last Get; 0
	// means that of the cache. Set returns an error for a nil queue, an empty name, a
	// name that is taken or a negative ttl, and once the cache is closed. It does not
	// block.
	Set(name string, q amboy.Queue, ttl time.Duration) error
	// Get returns a queue, and counts as a use of it. It returns nil if the queue is not
	// in the cache. It does not block.
	Get(name string) amboy.Queue
	// Remove takes a queue out of the cache, closes it and calls the cleanup hook. It
	// does nothing if no queue has that name. It returns an error, and keeps the queue,
	// if the queue has work, if it was used meanwhile, if ctx ends before its stats are
	// known, or if the cache is closed. It also returns the hook's error; the queue is
	// removed all the same. It blocks as Queue.Stats and Queue.Close do.
	Remove(ctx context.Context, name string) error
	// Prune removes the queues that have no work and were not used for their time to
	// live. It removes them one after the other until ctx ends, and returns all errors,
	// joined with that of ctx if it ended. It blocks as Remove does.
	Prune(ctx context.Context) error
	// Close closes all queues at once, each as Queue.Close does, and calls the cleanup
	// hook for each. It returns the hook's errors, joined with that of ctx if ctx had
	// ended before the call. It returns within a second after ctx ends; its error wraps
	// amboy.ErrLeftBehind if jobs, queues or hooks have not ended by then. A queue that
	// another call is removing is left to that call. After Close, other calls return an
	// error that wraps ErrGroupClosed; closing again does nothing.
	Close(ctx context.Context) error
	// Names returns the names of the queues, sorted.
	Names() []string
	// Len returns the number of queues.
	Len() int
}

// groupCache is the GroupCache returned by NewGroupCache and NewCacheWithCleanupHook.
type groupCache struct {
	ttl  time.Duration
	hook func(ctx context.Context, id string) error

	mu     sync.Mutex
	queues map[string]*cachedQueue
	// leaving holds a channel for each queue that is being closed if it is idle. The
	// channel is closed when the queue is gone or was put back.
	leaving map[string]chan struct{}
	closed  bool
	// closing holds the queues that Close is closing.
	closing map[string]*cachedQueue
}

// cachedQueue is a queue in a cache. The cache's lock guards used and uses.
type cachedQueue struct {
	amboy.Queue
	name string
	ttl  time.Duration
	used time.Time
	uses int
}

// NewGroupCache returns an empty cache. ttl is how long a queue without work stays,
// counted from its last use. 0 or less means for ever.
func NewGroupCache(ttl time.Duration) GroupCache { return NewCacheWithCleanupHook(ttl, nil) }

// NewCacheWithCleanupHook is NewGroupCache with a function that is called with the name
// of each queue that left the cache and was closed, by any method. The hook may be called
// from several goroutines at once.
func NewCacheWithCleanupHook(ttl time.Duration, hook func(ctx context.Context, id string) error) GroupCache {
	return newGroupCache(ttl, hook)
}

func newGroupCache(ttl time.Duration, hook func(ctx context.Context, id string) error) *groupCache {
	return &groupCache{ttl: max(ttl, 0), hook: hook, queues: map[string]*cachedQueue{}, leaving: map[string]chan struct{}{}}
}

func (c *groupCache) Set(name string, q amboy.Queue, ttl time.Duration) error {
	switch {
	case name == "":
		return errors.New("adding a queue to a group: name must not be empty")
	case q == nil:
		return fmt.Errorf("adding queue %q to a group: queue must not be nil", name)
	case ttl < 0:
		return fmt.Errorf("adding queue %q to a group: time to live must not be negative (is %s)", name, ttl)
	case ttl == 0:
		ttl = c.ttl
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return fmt.Errorf("adding queue %q to a group: %w", name, ErrGroupClosed)
	}
	if c.queues[name] != nil || c.leaving[name] != nil {
		return fmt.Errorf("adding queue %q to a group: the name is taken", name)
	}
	c.queues[name] = &cachedQueue{Queue: q, name: name, ttl: ttl, used: time.Now()}
	return nil
}

func (c *groupCache) Get(name string) amboy.Queue {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.use(name)
}

// use is Get for a caller that holds the lock.
func (c *groupCache) use(name string) amboy.Queue {
	cached, ok := c.queues[name]
	if !ok {
		return nil
	}
	cached.used = time.Now()
	cached.uses++
	return cached.Queue
}

// has reports whether the cache contains a queue. It does not count as a use.
func (c *groupCache) has(name string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.queues[name] != nil
}

func (c *groupCache) Remove(ctx context.Context, name string) error {
	cached, uses, err := c.find(name)
	if err == nil {
		err = c.remove(ctx, cached, uses)
	}
	if err != nil && !errors.Is(err, errNotInGroup) {
		return fmt.Errorf("removing queue %q from its group: %w", name, err)
	}
	return nil
}

// find returns a queue and its number of uses. It does not count as a use.
func (c *groupCache) find(name string) (cached *cachedQueue, uses int, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, 0, ErrGroupClosed
	}
	cached, ok := c.queues[name]
	if !ok {
		return nil, 0, errNotInGroup
	}
	return cached, cached.uses, nil
}

var (
	errNotInGroup   = errors.New("not in the group")
	errQueueInUse   = errors.New("used meanwhile")
	errQueueHasWork = errors.New("has work")
)

// remove removes and closes a queue if it has no work, and was not used since uses was
// read.
func (c *groupCache) remove(ctx context.Context, cached *cachedQueue, uses int) error {
	if err := checkIdle(ctx, cached); err != nil {
		return err
	}
	closer, ok := cached.Queue.(amboy.IdleCloser)
	if ok {
		return c.removeIf(ctx, cached, uses, closer.CloseIfIdle)
	}
	if err := c.takeOut(cached, uses); err != nil {
		return err
	}
	c.left(cached.name)
	return c.shut(ctx, cached)
}

// removeIf removes a queue if closeIfIdle closes it, and it was not used since uses was
// read.
func (c *groupCache) removeIf(ctx context.Context, cached *cachedQueue, uses int, closeIfIdle func(context.Context) (bool, error)) error {
	if err := c.takeOut(cached, uses); err != nil {
		return err
	}
	var gone bool
	err := contain.Alone(func() (err error) {
		gone, err = closeIfIdle(ctx)
		return err
	})
	if gone {
		c.left(cached.name)
		return c.cleanUp(ctx, cached)
	}
	if err == nil {
		err = errQueueHasWork
	}
	return errors.Join(err, c.putBack(ctx, cached))
}

// checkIdle returns an error if the queue has work.
func checkIdle(ctx context.Context, q amboy.Queue) error {
	var stats amboy.QueueStats
	err := contain.Alone(func() error {
		stats = q.Stats(ctx)
		return nil
	})
	if err == nil {
		err = ctx.Err() // The stats may be empty because they could not be read.
	}
	if err != nil {
		return fmt.Errorf("reading stats: %w", err)
	}
	if !stats.IsIdle() {
		return fmt.Errorf("%w: %s", errQueueHasWork, stats.String())
	}
	return nil
}

// takeOut moves a queue from the cache to c.leaving. At most one concurrent call succeeds
// for a queue. The caller of that one closes the queue and calls left, or calls putBack.
func (c *groupCache) takeOut(cached *cachedQueue, uses int) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.closed:
		return ErrGroupClosed
	case c.queues[cached.name] != cached:
		return errNotInGroup
	case cached.uses != uses:
		return errQueueInUse
	}
	delete(c.queues, cached.name)
	c.leaving[cached.name] = make(chan struct{})
	return nil
}

// left frees the name of a queue that was taken out and closed.
func (c *groupCache) left(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.endLeaving(name)
}

func (c *groupCache) endLeaving(name string) {
	close(c.leaving[name])
	delete(c.leaving, name)
}

// putBack puts a queue with work back that was taken out. It closes the queue if the
// cache was closed meanwhile.
func (c *groupCache) putBack(ctx context.Context, cached *cachedQueue) error {
	c.mu.Lock()
	closed := c.closed
	if !closed {
		c.queues[cached.name] = cached
	}
	c.endLeaving(cached.name)
	c.mu.Unlock()
	if closed {
		return c.shut(ctx, cached)
	}
	return nil
}

// getSettled is Get, except that it waits while the queue is leaving the cache: it is gone
// then, or was put back.
func (c *groupCache) getSettled(name string) amboy.Queue {
	for {
		c.mu.Lock()
		q, leaving := c.use(name), c.leaving[name]
		c.mu.Unlock()
		if leaving == nil {
			return q
		}
		<-leaving
	}
}

// shut closes a queue that was taken out, and calls the hook.
func (c *groupCache) shut(ctx context.Context, cached *cachedQueue) error {
	err := contain.Alone(func() error { cached.Close(ctx); return nil })
	if err != nil {
		return err
	}
	return c.cleanUp(ctx, cached)
}

// cleanUp calls the hook for a queue that was closed.
func (c *groupCache) cleanUp(ctx context.Context, cached *cachedQueue) error {
	return contain.Alone(func() error {
		if c.hook == nil {
			return nil
		}
		if err := c.hook(ctx, cached.name); err != nil {
			return fmt.Errorf("cleanup hook: %w", err)
		}
		return nil
	})
}

func (c *groupCache) Prune(ctx context.Context) error {
	idle, err := c.idle(ctx, time.Now())
	if err != nil {
		return err
	}
	return removeEach(ctx, idle, c.remove)
}

// pruneUnused is Prune for a group that reopens queues when their jobs can run. It also
// removes queues that have only waiting jobs. hasWork returns the names of the queues that
// have other jobs.
func (c *groupCache) pruneUnused(ctx context.Context, hasWork func(context.Context) (map[string]bool, error)) error {
	idle, err := c.idle(ctx, time.Now())
	if err != nil || len(idle) == 0 {
		return err
	}
	puts := map[*cachedQueue]int64{}
	for cached := range idle {
		if q, ok := cached.Queue.(*engine.Queue); ok {
			puts[cached] = q.PutCalls.Load()
		}
	}
	busy, err := hasWork(ctx)
	if err != nil {
		return fmt.Errorf("pruning a group: listing queues with work: %w", err)
	}
	return removeEach(ctx, idle, func(ctx context.Context, cached *cachedQueue, uses int) error {
		q, isOurs := cached.Queue.(*engine.Queue)
		switch {
		case !isOurs:
			return c.remove(ctx, cached, uses)
		case busy[cached.name]:
			return errQueueHasWork
		default:
			return c.removeIf(ctx, cached, uses, func(ctx context.Context) (bool, error) { return q.CloseIfUnused(ctx, puts[cached]), nil })
		}
	})
}

// removeEach removes queues one after the other until ctx ends. It returns all errors, except
// for queues that are not to be pruned.
func removeEach(ctx context.Context, idle map[*cachedQueue]int, remove func(ctx context.Context, cached *cachedQueue, uses int) error) error {
	var errs []error
	for cached, uses := range idle {
		if ctx.Err() != nil {
			errs = append(errs, fmt.Errorf("pruning a group: %w", ctx.Err()))
			break
		}
		err := remove(ctx, cached, uses)
		if err != nil && !isKept(err) {
			errs = append(errs, fmt.Errorf("pruning queue %q of a group: %w", cached.name, err))
		}
	}
	return errors.Join(errs...)
}

// isKept reports whether the error of a removal only means that the queue is not to be
// pruned.
func isKept(err error) bool {
	return errors.Is(err, errQueueHasWork) || errors.Is(err, errQueueInUse) || errors.Is(err, errNotInGroup)
}

// idle returns the queues that were not used for their time to live, and the number of
// uses of each. It returns an error if ctx has ended or the cache is closed.
func (c *groupCache) idle(ctx context.Context, now time.Time) (map[*cachedQueue]int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.closed:
		return nil, fmt.Errorf("pruning a group: %w", ErrGroupClosed)
	case ctx.Err() != nil:
		return nil, fmt.Errorf("pruning a group: %w", ctx.Err())
	}
	idle := map[*cachedQueue]int{}
	for _, cached := range c.queues {
		if cached.ttl > 0 && now.Sub(cached.used) >= cached.ttl {
			idle[cached] = cached.uses
		}
	}
	return idle, nil
}

func (c *groupCache) Close(ctx context.Context) error {
	ended := ctx.Err()
	if ended != nil {
		ended = fmt.Errorf("closing the queues of a group: %w", ended)
	}
	return errors.Join(ended, c.closeAll(ctx))
}

// closeAll is Close, except that an ended context is no error. It leaves behind what has
// not returned QueuesGrace after the end of ctx.
func (c *groupCache) closeAll(ctx context.Context) error {
	late, cancel := lifecycle.AfterEnd(ctx, lifecycle.QueuesGrace)
	defer cancel()
	c.mu.Lock()
	queues := c.queues
	c.queues, c.closing, c.closed = nil, queues, true
	c.mu.Unlock()
	defer c.endClosing()

	var closing sync.WaitGroup
	failed := make(chan error, len(queues))
	for _, cached := range queues {
		closing.Go(func() {
			err := lifecycle.InTime(late, func() error { return errors.Join(c.shut(ctx, cached), lifecycle.LeftIn(cached.Queue)) })
			if err != nil {
				failed <- fmt.Errorf("closing queue %q of a group: %w", cached.name, err)
			}
		})
	}
	closing.Wait()
	close(failed)
	var errs []error
	for err := range failed {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func (c *groupCache) endClosing() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closing = nil
}

// ending returns a queue that Close is closing, or nil.
func (c *groupCache) ending(name string) amboy.Queue {
	c.mu.Lock()
	defer c.mu.Unlock()
	if cached, ok := c.closing[name]; ok {
		return cached.Queue
	}
	return nil
}

// isEnding reports whether a queue of a group that closes has not been closed yet.
func (c *groupCache) isEnding(q *engine.Queue) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, all := range []map[string]*cachedQueue{c.queues, c.closing} {
		if cached, ok := all[q.Name]; ok && cached.Queue == amboy.Queue(q) {
			return true
		}
	}
	return false
}

func (c *groupCache) Names() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Sorted(maps.Keys(c.queues))
}

func (c *groupCache) Len() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.queues)
}
