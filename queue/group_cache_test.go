package queue_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue"
)

// groupedQueue is a queue in a group. It counts the calls on it.
type groupedQueue struct {
	amboy.Queue
	// onStats, onClose and onStart are called by the methods of these names, if they are
	// set.
	onStats func()
	onClose func(ctx context.Context)
	onStart func(ctx context.Context) error

	mu     sync.Mutex
	stats  amboy.QueueStats
	starts int
	closes int
}

func (q *groupedQueue) Info() amboy.QueueInfo {
	q.mu.Lock()
	defer q.mu.Unlock()
	return amboy.QueueInfo{Started: q.starts > q.closes}
}

func (q *groupedQueue) Start(ctx context.Context) error {
	q.mu.Lock()
	q.starts++
	q.mu.Unlock()
	if q.onStart != nil {
		return q.onStart(ctx)
	}
	return nil
}

func (q *groupedQueue) Stats(context.Context) amboy.QueueStats {
	if q.onStats != nil {
		q.onStats()
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.stats
}

func (q *groupedQueue) setStats(stats amboy.QueueStats) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.stats = stats
}

func (q *groupedQueue) Close(ctx context.Context) {
	q.mu.Lock()
	q.closes++
	q.mu.Unlock()
	if q.onClose != nil {
		q.onClose(ctx)
	}
}

func (q *groupedQueue) started() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.starts
}

func (q *groupedQueue) closed() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.closes
}

// hookCalls records the names that a cleanup hook is called with.
type hookCalls struct {
	mu    sync.Mutex
	names []string
	err   error
}

func (h *hookCalls) hook(_ context.Context, name string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.names = append(h.names, name)
	return h.err
}

func (h *hookCalls) sorted() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Sorted(slices.Values(h.names))
}

func TestGroupCacheSetRefuses(t *testing.T) {
	cache := queue.NewGroupCache(0)
	require.NoError(t, cache.Set("taken", &groupedQueue{}, 0))
	for name, test := range map[string]struct {
		name  string
		queue amboy.Queue
		ttl   time.Duration
		err   string
	}{
		"empty name":   {queue: &groupedQueue{}, err: "adding a queue to a group: name must not be empty"},
		"nil queue":    {name: "new", err: `adding queue "new" to a group: queue must not be nil`},
		"taken name":   {name: "taken", queue: &groupedQueue{}, err: `adding queue "taken" to a group: the name is taken`},
		"negative ttl": {name: "new", queue: &groupedQueue{}, ttl: -time.Second, err: `adding queue "new" to a group: time to live must not be negative (is -1s)`},
	} {
		t.Run(name, func(t *testing.T) {
			require.EqualError(t, cache.Set(test.name, test.queue, test.ttl), test.err)
			assert.Equal(t, []string{"taken"}, cache.Names())
		})
	}
}

func TestGroupCacheHoldsQueues(t *testing.T) {
	cache := queue.NewGroupCache(0)
	assert.Nil(t, cache.Get("b"))
	b := &groupedQueue{}
	require.NoError(t, cache.Set("b", b, 0))
	require.NoError(t, cache.Set("a", &groupedQueue{}, 0))
	require.NoError(t, cache.Set("c", &groupedQueue{}, 0))
	assert.Same(t, b, cache.Get("b"))
	assert.Equal(t, []string{"a", "b", "c"}, cache.Names())
	assert.Equal(t, 3, cache.Len())
}

func TestGroupCacheRemovesBeforeItClosesAndCleansUp(t *testing.T) {
	// Each step calls the cache, which shows that no lock is held.
	var cache queue.GroupCache
	var steps []string
	step := func(name string) { steps = append(steps, fmt.Sprint(name, " ", cache.Len())) }
	cache = queue.NewCacheWithCleanupHook(0, func(context.Context, string) error { step("hook"); return nil })
	q := &groupedQueue{
		onStats: func() { step("stats") },
		onClose: func(context.Context) { step("close") },
	}
	require.NoError(t, cache.Set("q", q, 0))

	require.NoError(t, cache.Remove(t.Context(), "q"))
	assert.Equal(t, []string{"stats 1", "close 0", "hook 0"}, steps)
	require.NoError(t, cache.Remove(t.Context(), "q"), "no queue has that name")
	assert.Equal(t, 1, q.closed())
}

func TestGroupCacheKeepsQueuesWithWork(t *testing.T) {
	for name, stats := range map[string]amboy.QueueStats{
		"pending":  {Total: 2, Completed: 1, Pending: 1},
		"blocked":  {Total: 2, Completed: 1, Pending: 1, Blocked: 1},
		"running":  {Total: 2, Completed: 1, Running: 1},
		"retrying": {Total: 2, Completed: 2, Retrying: 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var calls hookCalls
				cache := queue.NewCacheWithCleanupHook(time.Second, calls.hook)
				q := &groupedQueue{stats: stats}
				require.NoError(t, cache.Set("q", q, 0))
				pass(time.Minute)

				require.ErrorContains(t, cache.Remove(t.Context(), "q"), `removing queue "q" from its group: has work`)
				require.NoError(t, cache.Prune(t.Context()))
				assert.Equal(t, 1, cache.Len())
				assert.Zero(t, q.closed())
				assert.Empty(t, calls.names)

				q.setStats(amboy.QueueStats{Total: 2, Completed: 2})
				require.NoError(t, cache.Prune(t.Context()))
				assert.Zero(t, cache.Len())
				assert.Equal(t, 1, q.closed())
			})
		})
	}
}

func TestGroupCacheKeepsQueuesThatWereUsedMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cache := queue.NewGroupCache(time.Second)
		q := &groupedQueue{onStats: func() { cache.Get("q") }}
		require.NoError(t, cache.Set("q", q, 0))
		pass(time.Second)

		require.NoError(t, cache.Prune(t.Context()))
		require.EqualError(t, cache.Remove(t.Context(), "q"), `removing queue "q" from its group: used meanwhile`)
		assert.Equal(t, 1, cache.Len())
		assert.Zero(t, q.closed())
	})
}

func TestGroupCacheKeepsQueuesWhoseStatsAreUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cache := queue.NewGroupCache(time.Second)
		q := &groupedQueue{onStats: cancel} // The context ends while Stats runs.
		require.NoError(t, cache.Set("q", q, 0))
		pass(time.Second)

		require.ErrorIs(t, cache.Prune(ctx), context.Canceled)
		require.ErrorIs(t, cache.Remove(ctx, "q"), context.Canceled)
		require.ErrorIs(t, cache.Prune(ctx), context.Canceled, "the context had ended before")
		assert.Equal(t, 1, cache.Len())
		assert.Zero(t, q.closed())
	})
}

func TestGroupCachePrunesQueuesThatAreIdleForTheirTTL(t *testing.T) {
	for name, test := range map[string]struct {
		cache, queue time.Duration
		pruned       time.Duration // 0 for never
	}{
		"the queue's":          {queue: time.Minute, pruned: time.Minute},
		"the cache's":          {cache: time.Hour, pruned: time.Hour},
		"the queue's, of both": {cache: time.Hour, queue: time.Minute, pruned: time.Minute},
		"none":                 {},
		"a negative one":       {cache: -time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var calls hookCalls
				cache := queue.NewCacheWithCleanupHook(test.cache, calls.hook)
				require.NoError(t, cache.Set("q", &groupedQueue{}, test.queue))
				if test.pruned == 0 {
					pass(10_000 * time.Hour)
					require.NoError(t, cache.Prune(t.Context()))
					assert.Equal(t, 1, cache.Len())
					return
				}
				pass(test.pruned / 2)
				require.NotNil(t, cache.Get("q"))

				pass(test.pruned - 1)
				require.NoError(t, cache.Prune(t.Context()))
				assert.Equal(t, 1, cache.Len())
				assert.Empty(t, calls.names)

				pass(1)
				require.NoError(t, cache.Prune(t.Context()))
				assert.Zero(t, cache.Len())
				assert.Equal(t, []string{"q"}, calls.names)
			})
		})
	}
}

func TestGroupCacheReturnsHookErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := hookCalls{err: errors.New("disk is full")}
		cache := queue.NewCacheWithCleanupHook(time.Second, calls.hook)
		for _, name := range []string{"a", "b", "c", "d", "e"} {
			require.NoError(t, cache.Set(name, &groupedQueue{}, 0))
		}
		require.EqualError(t, cache.Remove(t.Context(), "a"), `removing queue "a" from its group: cleanup hook: disk is full`)

		pass(time.Second)
		require.NotNil(t, cache.Get("d"))
		require.NotNil(t, cache.Get("e"))
		err := cache.Prune(t.Context())
		require.ErrorContains(t, err, `pruning queue "b" of a group: cleanup hook: disk is full`)
		require.ErrorContains(t, err, `pruning queue "c" of a group: cleanup hook: disk is full`)

		err = cache.Close(t.Context())
		require.ErrorContains(t, err, `closing queue "d" of a group: cleanup hook: disk is full`)
		require.ErrorContains(t, err, `closing queue "e" of a group: cleanup hook: disk is full`)
		assert.Equal(t, []string{"a", "b", "c", "d", "e"}, calls.sorted())
	})
}

func TestGroupCacheCloseClosesAllAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls hookCalls
		cache := queue.NewCacheWithCleanupHook(0, calls.hook)
		var queues []*groupedQueue
		for i := range 10 {
			q := &groupedQueue{
				stats:   amboy.QueueStats{Total: 1, Running: 1},
				onClose: func(ctx context.Context) { <-ctx.Done() },
			}
			queues = append(queues, q)
			require.NoError(t, cache.Set(strconv.Itoa(i), q, 0))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()

		require.NoError(t, cache.Close(ctx))

		assert.Equal(t, time.Second, time.Since(start))
		assert.Len(t, calls.names, 10)
		for _, q := range queues {
			assert.Equal(t, 1, q.closed())
		}
	})
}

func TestGroupCacheSurvivesPanicOfQueue(t *testing.T) {
	cache := queue.NewGroupCache(0)
	broken := func(context.Context) { panic("close is broken") }
	require.NoError(t, cache.Set("a", &groupedQueue{onClose: broken}, 0))
	require.NoError(t, cache.Set("b", &groupedQueue{onClose: broken}, 0))

	require.EqualError(t, cache.Remove(t.Context(), "a"), `removing queue "a" from its group: panic: close is broken`)
	require.EqualError(t, cache.Close(t.Context()), `closing queue "b" of a group: panic: close is broken`)
}

func TestGroupCacheRefusesCallsOnceClosed(t *testing.T) {
	cache := queue.NewGroupCache(time.Second)
	q := &groupedQueue{}
	require.NoError(t, cache.Set("q", q, 0))
	require.NoError(t, cache.Close(t.Context()))

	require.ErrorIs(t, cache.Set("other", &groupedQueue{}, 0), queue.ErrGroupClosed)
	require.ErrorIs(t, cache.Remove(t.Context(), "q"), queue.ErrGroupClosed)
	require.ErrorIs(t, cache.Prune(t.Context()), queue.ErrGroupClosed)
	assert.Nil(t, cache.Get("q"))
	assert.Empty(t, cache.Names())
	assert.Zero(t, cache.Len())
	require.NoError(t, cache.Close(t.Context()))
	assert.Equal(t, 1, q.closed())
}

func TestGroupCacheRemovesOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cache := queue.NewGroupCache(0)
		q := &groupedQueue{onStats: func() { <-time.After(time.Second) }}
		require.NoError(t, cache.Set("q", q, 0))

		removed := make(chan error, 2)
		for range 2 {
			go func() { removed <- cache.Remove(t.Context(), "q") }()
		}
		pass(time.Second)

		require.NoError(t, <-removed)
		require.NoError(t, <-removed, "the other call was first")
		assert.Equal(t, 1, q.closed())
	})
}

func TestGroupCacheClosedDuringRemove(t *testing.T) {
	cache := queue.NewGroupCache(0)
	q := &groupedQueue{onStats: func() { assert.NoError(t, cache.Close(t.Context())) }}
	require.NoError(t, cache.Set("q", q, 0))

	require.ErrorIs(t, cache.Remove(t.Context(), "q"), queue.ErrGroupClosed)
	assert.Equal(t, 1, q.closed())
}

func TestGroupCacheClosesEachQueueOnce(t *testing.T) {
	const rounds = 200
	cache := queue.NewGroupCache(1) // A nanosecond, so that all may be pruned.
	var mu sync.Mutex
	var queues []*groupedQueue
	var callers sync.WaitGroup
	for i := range 3 {
		name := strconv.Itoa(i)
		callers.Go(func() {
			for range rounds {
				q := &groupedQueue{}
				if cache.Set(name, q, 0) == nil {
					mu.Lock()
					queues = append(queues, q)
					mu.Unlock()
				}
				cache.Get(name)
			}
		})
		callers.Go(func() {
			for range rounds {
				// Remove fails if the queue is not in the cache or was used.
				_ = cache.Remove(t.Context(), name)
			}
		})
		callers.Go(func() {
			for range rounds {
				assert.NoError(t, cache.Prune(t.Context()))
			}
		})
	}
	callers.Wait()
	callers.Go(func() { assert.NoError(t, cache.Close(t.Context())) })
	callers.Go(func() { _ = cache.Prune(t.Context()) })
	callers.Go(func() { _ = cache.Remove(t.Context(), "0") })
	callers.Wait()

	require.NotEmpty(t, queues)
	for _, q := range queues {
		assert.Equal(t, 1, q.closed())
	}
}

func TestGroupCacheReturnsTheErrorOfAnEndedContext(t *testing.T) {
	cache := queue.NewGroupCache(time.Hour)
	q := &groupedQueue{}
	require.NoError(t, cache.Set("q", q, 0))
	require.ErrorIs(t, cache.Prune(ended()), context.Canceled)
	assert.Equal(t, 1, cache.Len())
	require.ErrorIs(t, cache.Close(ended()), context.Canceled)
	assert.Equal(t, 1, q.closed(), "the queue is closed all the same")
}
