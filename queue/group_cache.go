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
)

// ErrGroupClosed is wrapped by the errors of calls on a queue group, or a group
// cache, that was closed.
var ErrGroupClosed = amboy.ErrGroupClosed

// GroupCache holds the queues of a group that this process has open, by name.
// Implementations are safe for concurrent use, close no queue twice, and hold
// no lock while they call a queue.
//
// A queue with pending, running or retrying jobs never leaves the cache before
// Close. The queues of this package are closed on condition that they have no work
// (see amboy.IdleCloser), so that a Put is either refused or keeps the queue open.
// With a queue of another package that is no amboy.IdleCloser one case remains: a
// caller that got the queue earlier puts a job after its stats were found empty and
// before its Close takes effect. Callers that get the queue anew for each Put are safe
// from that: the cache keeps a queue that was got since its stats were asked for.
type GroupCache interface {
	// Set adds a queue. Its time to live, counted from the last Get, is that of
	// the cache where ttl is 0. It returns an error for a nil queue, an empty
	// name, a name that is taken, a negative ttl, and once the cache is closed.
	// It does not block.
	Set(name string, q amboy.Queue, ttl time.Duration) error
	// Get returns a queue, and counts as use of it. It returns nil where there
	// is none. It does not block.
	Get(name string) amboy.Queue
	// Remove takes a queue out of the cache, closes it and calls the cleanup
	// hook. It blocks as Queue.Stats and Queue.Close do. It does nothing if there
	// is no queue with that name. It returns an error for a queue that has work
	// or that was got meanwhile, if ctx ends before its stats are known, and once
	// the cache is closed; then the queue stays. The hook's error is returned too; the
	// queue is gone all the same.
	Remove(ctx context.Context, name string) error
	// Prune removes the queues that have no work and were not got for their
	// time to live. It tries one after the other until ctx ends, and returns
	// the errors of all, with that of ctx if it had ended. It blocks as Remove
	// does.
	Prune(ctx context.Context) error
	// Close closes all queues at once, each as Queue.Close does, calls the
	// cleanup hook for each, and returns the hook's errors, with that of ctx if
	// it had ended before. It returns within a second of the end of ctx; then its
	// error wraps amboy.ErrLeftBehind if jobs, queues or hooks have not ended. A
	// queue that another call is just removing is left to that call. Later calls
	// return an error that wraps ErrGroupClosed; closing again does nothing.
	Close(ctx context.Context) error
	// Names are the names of the queues, sorted.
	Names() []string
	// Len is the number of queues.
	Len() int
}

// groupCache is the GroupCache of this package.
type groupCache struct {
	ttl  time.Duration
	hook func(ctx context.Context, id string) error

	mu     sync.Mutex
	queues map[string]*cachedQueue
	// leaving are those that are being closed if they are idle. Their channels are
	// closed when they are gone, or back.
	leaving map[string]chan struct{}
	closed  bool
}

// cachedQueue is a queue in a cache. Its last two fields are under the cache's
// lock.
type cachedQueue struct {
	amboy.Queue
	name string
	ttl  time.Duration
	used time.Time
	uses int
}

// NewGroupCache makes an empty cache. ttl is how long a queue without work
// stays, counted from its last use; 0 or less means for ever.
func NewGroupCache(ttl time.Duration) GroupCache { return NewCacheWithCleanupHook(ttl, nil) }

// NewCacheWithCleanupHook is NewGroupCache with a function that is called with
// the name of each queue that left the cache and was closed, by whatever call.
// It may be called from several goroutines at once.
func NewCacheWithCleanupHook(ttl time.Duration, hook func(ctx context.Context, id string) error) GroupCache {
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
	cached, ok := c.queues[name]
	if !ok {
		return nil
	}
	cached.used = time.Now()
	cached.uses++
	return cached.Queue
}

// has reports whether there is a queue with that name, which is no use of it.
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

// find returns a queue and how often it was used, without using it.
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
	errNotInGroup   = errors.New("it is not there")
	errQueueInUse   = errors.New("it was used meanwhile")
	errQueueHasWork = errors.New("it has work")
)

// remove removes and closes a queue that has no work, unless it was used since
// uses was read.
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

// removeIf removes a queue that was not used since uses was read, if it closes.
func (c *groupCache) removeIf(ctx context.Context, cached *cachedQueue, uses int, closeIfIdle func(context.Context) (bool, error)) error {
	if err := c.takeOut(cached, uses); err != nil {
		return err
	}
	var gone bool
	err := errorOfPanic(func() (err error) {
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

// checkIdle returns an error for a queue that has work.
func checkIdle(ctx context.Context, q amboy.Queue) error {
	var stats amboy.QueueStats
	err := errorOfPanic(func() error {
		stats = q.Stats(ctx)
		return nil
	})
	if err == nil {
		err = ctx.Err() // The stats may be empty because they could not be read.
	}
	if err != nil {
		return fmt.Errorf("reading its stats: %w", err)
	}
	if !stats.IsIdle() {
		return fmt.Errorf("%w: %s", errQueueHasWork, stats.String())
	}
	return nil
}

// takeOut makes a queue one that leaves the cache. One call at most succeeds for a
// queue; its caller closes it, and calls left, or else putBack.
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

// left makes the name of a queue free that was taken out.
func (c *groupCache) left(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.endLeaving(name)
}

func (c *groupCache) endLeaving(name string) {
	close(c.leaving[name])
	delete(c.leaving, name)
}

// putBack puts a queue back that was taken out and has work. If the cache was closed
// meanwhile it closes the queue.
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

// awaitLeaving waits until a queue that leaves the cache is gone, or back.
func (c *groupCache) awaitLeaving(name string) {
	c.mu.Lock()
	leaving := c.leaving[name]
	c.mu.Unlock()
	if leaving != nil {
		<-leaving
	}
}

// shut closes a queue that is out of the cache, and calls the hook.
func (c *groupCache) shut(ctx context.Context, cached *cachedQueue) error {
	err := errorOfPanic(func() error { cached.Close(ctx); return nil })
	if err != nil {
		return err
	}
	return c.cleanUp(ctx, cached)
}

// cleanUp calls the hook for a queue that was closed.
func (c *groupCache) cleanUp(ctx context.Context, cached *cachedQueue) error {
	return errorOfPanic(func() error {
		if c.hook == nil {
			return nil
		}
		if err := c.hook(ctx, cached.name); err != nil {
			return fmt.Errorf("cleaning up after it: %w", err)
		}
		return nil
	})
}

func (c *groupCache) Prune(ctx context.Context) error {
	idle, err := c.idle(time.Now())
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return fmt.Errorf("pruning a group: %w", err)
	}
	var errs []error
	for cached, uses := range idle {
		if ctx.Err() != nil {
			errs = append(errs, fmt.Errorf("pruning a group: %w", ctx.Err()))
			break
		}
		err = c.remove(ctx, cached, uses)
		if err != nil && !isKept(err) {
			errs = append(errs, fmt.Errorf("pruning queue %q of a group: %w", cached.name, err))
		}
	}
	return errors.Join(errs...)
}

// pruneUnused is Prune for a group that opens queues again when their jobs can run: queues
// may have jobs that wait. hasWork names those that have others.
func (c *groupCache) pruneUnused(ctx context.Context, hasWork func(context.Context) (map[string]bool, error)) error {
	idle, err := c.idle(time.Now())
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return fmt.Errorf("pruning a group: %w", err)
	}
	puts := map[*cachedQueue]int64{}
	for cached := range idle {
		if q, ok := cached.Queue.(*driverQueue); ok {
			puts[cached] = q.putCalls.Load()
		}
	}
	if len(idle) == 0 {
		return nil
	}
	busy, err := hasWork(ctx)
	if err != nil {
		return fmt.Errorf("pruning a group: looking which queues have work: %w", err)
	}
	var errs []error
	for cached, uses := range idle {
		if ctx.Err() != nil {
			errs = append(errs, fmt.Errorf("pruning a group: %w", ctx.Err()))
			break
		}
		q, isOurs := cached.Queue.(*driverQueue)
		switch {
		case !isOurs:
			err = c.remove(ctx, cached, uses)
		case busy[cached.name]:
			continue
		default:
			err = c.removeIf(ctx, cached, uses, func(ctx context.Context) (bool, error) { return q.closeIfUnused(ctx, puts[cached]), nil })
		}
		if err != nil && !isKept(err) {
			errs = append(errs, fmt.Errorf("pruning queue %q of a group: %w", cached.name, err))
		}
	}
	return errors.Join(errs...)
}

// isKept is true for the errors of a removal that tell that the queue is not
// one to prune.
func isKept(err error) bool {
	return errors.Is(err, errQueueHasWork) || errors.Is(err, errQueueInUse) || errors.Is(err, errNotInGroup)
}

// idle returns the queues whose time to live is over, and how often each was
// used.
func (c *groupCache) idle(now time.Time) (map[*cachedQueue]int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, ErrGroupClosed
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
	late, cancel := afterEnd(ctx, closeGrace)
	defer cancel()
	return errors.Join(ended, c.closeAll(ctx, late))
}

// closeAll is Close, but an ended context is no error. When late ends, what has not
// returned is left behind.
func (c *groupCache) closeAll(ctx, late context.Context) error {
	c.mu.Lock()
	queues := c.queues
	c.queues, c.closed = nil, true
	c.mu.Unlock()

	var closing sync.WaitGroup
	failed := make(chan error, len(queues))
	for _, cached := range queues {
		closing.Go(func() {
			err := inTime(late, func() error { return errors.Join(c.shut(ctx, cached), leftIn(cached.Queue)) })
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
