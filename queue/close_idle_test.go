package queue_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/pool"
	"github.com/mongodb/amboy/queue"
)

// prunedQueue is a queue that calls a function of the test while it is pruned.
type prunedQueue struct {
	amboy.Queue
	afterStats  func()
	beforeClose func() error
}

func (q *prunedQueue) Stats(ctx context.Context) amboy.QueueStats {
	stats := q.Queue.Stats(ctx)
	if q.afterStats != nil {
		q.afterStats()
	}
	return stats
}

func (q *prunedQueue) CloseIfIdle(ctx context.Context) (bool, error) {
	if q.beforeClose != nil {
		if err := q.beforeClose(); err != nil {
			return false, err
		}
	}
	return q.Queue.(amboy.IdleCloser).CloseIfIdle(ctx)
}

func TestAJobThatWasPutDuringPruningWasLost(t *testing.T) {
	onEachFaked(t, 10, func(t *testing.T, q amboy.Queue) {
		hold, holding := make(chan struct{}), true
		pruned := &prunedQueue{Queue: q}
		pruned.afterStats = func() {
			if holding {
				put(t, q, newJob(t, "late", func(context.Context, *funcJob) { <-hold }))
			}
		}
		cache := queue.NewGroupCache(0)
		require.NoError(t, cache.Set("q", pruned, 0))

		require.ErrorContains(t, cache.Remove(t.Context(), "q"), "has work")
		require.NoError(t, cache.Prune(t.Context()))
		assert.Same(t, pruned, cache.Get("q"))
		close(hold)
		drain(t, q)
		assert.Equal(t, amboy.StateSucceeded, infoOf(t, q, "late").State)

		holding = false
		require.NoError(t, cache.Remove(t.Context(), "q"))
		assert.Nil(t, cache.Get("q"))
		require.ErrorIs(t, q.Put(t.Context(), noop(t, "too late")), amboy.ErrQueueClosed)
	})
}

func TestConcurrentPutAndCloseIfIdleLoseNoJob(t *testing.T) {
	for name, build := range kinds {
		t.Run(name, func(t *testing.T) {
			for range 50 {
				q := build(t, 1, 10)
				require.NoError(t, q.Start(t.Context()))
				var ran atomic.Bool
				accepted := make(chan error, 1)
				go func() {
					accepted <- q.Put(t.Context(), newJob(t, "one", func(context.Context, *funcJob) { ran.Store(true) }))
				}()
				closed, err := q.(amboy.IdleCloser).CloseIfIdle(t.Context())
				require.NoError(t, err)
				if err = <-accepted; err == nil && !closed {
					drain(t, q)
				}
				if err != nil {
					require.ErrorIs(t, err, amboy.ErrQueueClosed)
				}
				assert.Equal(t, err == nil, ran.Load())
				q.Close(context.Background())
			}
		})
	}
}

func TestGetWaitsForAQueueThatIsBeingPruned(t *testing.T) {
	for name, test := range map[string]struct {
		err   error
		stays bool
	}{
		"and was closed":          {},
		"and could not be closed": {err: errors.New("the store is away"), stays: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				group := newLocalGroup(t, queue.LocalQueueGroupOptions{DefaultQueue: queue.LocalQueueOptions{
					Constructor: func(context.Context) (amboy.Queue, error) { return queue.NewLocalLimitedSize(1, 10), nil },
				}, TTL: time.Second})
				q := queue.NewLocalLimitedSize(1, 10)
				require.NoError(t, q.Start(t.Context()))
				release := make(chan struct{})
				pruned := &prunedQueue{Queue: q, beforeClose: func() error { <-release; return test.err }}
				require.NoError(t, group.Put(t.Context(), "q", pruned))
				pass(5 * time.Second)
				assert.Zero(t, group.Len())

				got := make(chan amboy.Queue, 1)
				go func() {
					found, err := group.Get(t.Context(), "q")
					assert.NoError(t, err)
					got <- found
				}()
				synctest.Wait()
				assert.Empty(t, got)
				close(release)
				assert.Equal(t, test.stays, <-got == amboy.Queue(pruned))
				require.NoError(t, group.Close(t.Context()))
				q.Close(t.Context())
			})
		})
	}
}

func TestGetFailedForAQueueThatWasPrunedTwiceInARow(t *testing.T) {
	for range 200 {
		synctest.Test(t, func(t *testing.T) {
			group := newLocalGroup(t, queue.LocalQueueGroupOptions{DefaultQueue: queue.LocalQueueOptions{
				Constructor: func(context.Context) (amboy.Queue, error) { return queue.NewLocalLimitedSize(1, 10), nil },
			}, TTL: time.Second})
			q := queue.NewLocalLimitedSize(1, 10)
			require.NoError(t, q.Start(t.Context()))
			release := make(chan struct{})
			stuck := &prunedQueue{Queue: q, beforeClose: func() error { <-release; return errors.New("the store is away") }}
			require.NoError(t, group.Put(t.Context(), "q", stuck))
			pass(5 * time.Second) // The first pruning waits, and the second is due.

			go func() {
				synctest.Wait()
				close(release)
			}()
			found, err := group.Get(t.Context(), "q")
			require.NoError(t, err)
			assert.Same(t, stuck, found)
			require.NoError(t, group.Close(t.Context()))
			q.Close(t.Context())
		})
	}
}

func TestAPanicOfAQueuesStatsEndedThePruning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		group := newLocalGroup(t, queue.LocalQueueGroupOptions{DefaultQueue: queue.LocalQueueOptions{
			Constructor: func(context.Context) (amboy.Queue, error) { return queue.NewLocalLimitedSize(1, 10), nil },
		}, TTL: time.Second})
		broken := &groupedQueue{onStats: func() { panic("stats are broken") }}
		idle := &groupedQueue{}
		require.NoError(t, group.Put(t.Context(), "broken", broken))
		pass(10 * time.Second)
		require.NoError(t, group.Put(t.Context(), "idle", idle))
		pass(10 * time.Second)
		assert.Equal(t, []string{"broken"}, group.Queues(t.Context()))
		assert.Equal(t, 1, idle.closed())
		var panicked *amboy.PanicError
		require.ErrorAs(t, group.Prune(t.Context()), &panicked)
	})
}

// Put waited until the store had answered CloseIfIdle, whatever its context.
func TestPutWaitedForCloseIfIdle(t *testing.T) {
	store := newSpy(newStore(t))
	q := startEngine(t, store, 1)
	defer q.Close(ended())
	asked, answer := make(chan struct{}), make(chan struct{})
	asks := sync.OnceFunc(func() { close(asked) })
	store.do(func(_ context.Context, call string) error {
		if call == "Stats" {
			asks()
			<-answer
		}
		return nil
	})
	closed := make(chan bool, 1)
	go func() {
		isClosed, err := q.(amboy.IdleCloser).CloseIfIdle(context.Background())
		assert.NoError(t, err)
		closed <- isClosed
	}()
	<-asked
	accepted := make(chan error, 1)
	go func() { accepted <- q.Put(context.Background(), noop(t, "one")) }()
	select {
	case err := <-accepted:
		require.NoError(t, err)
	case <-within(t).Done():
		t.Error("Put waits for the store to answer another call")
	}
	close(answer)
	assert.False(t, <-closed, "a job was put meanwhile")
}

// prober is a store that knows whether a queue is idle without counting its jobs.
type prober struct{ *spy }

func (d prober) IsIdle(context.Context, string) (bool, error) { return true, nil }

// The pruning of a group asked for the stats of each queue, for which the store counts the jobs that have ended.
func TestPruningCountedTheJobsThatHaveEnded(t *testing.T) {
	store := newSpy(newStore(t))
	store.do(func(_ context.Context, call string) error {
		if call == "Stats" {
			return errors.New("the jobs are counted")
		}
		return nil
	})
	q := driverQueueOn(t, prober{store}, nil)
	closed, err := q.(amboy.IdleCloser).CloseIfIdle(t.Context())
	require.NoError(t, err)
	assert.True(t, closed)
}

// lateStats calls a function after it has counted the jobs of a queue.
type lateStats struct {
	*spy
	after func()
}

func (d *lateStats) Stats(ctx context.Context, name string) (amboy.QueueStats, error) {
	stats, err := d.spy.Stats(ctx, name)
	if d.after != nil {
		d.after()
	}
	return stats, err
}

// If another process put a job while the queue was found idle, and the job began here, the queue was
// closed all the same. The pruning waited for the job, and calls of Get for that queue with it.
func TestPruningWaitedForAJobThatBeganMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inMemory := newStore(t)
		store := &lateStats{spy: newSpy(inMemory)}
		other := driverQueueOn(t, inMemory, func(o *queue.DriverQueueOptions) {
			o.NewRunner = func(amboy.Queue) (amboy.Runner, error) { return pool.NewNoop(), nil }
		})
		defer other.Close(context.Background())
		q := driverQueueOn(t, store, nil)
		defer q.Close(context.Background())
		long, started, release := holder(t, "long")
		defer release()
		defer time.AfterFunc(time.Hour, release).Stop()
		store.after = func() {
			store.after = nil
			put(t, other, long)
			<-started
		}
		began := time.Now()
		closed, err := q.(amboy.IdleCloser).CloseIfIdle(context.Background())
		require.NoError(t, err)
		assert.False(t, closed)
		assert.Zero(t, time.Since(began))
		put(t, q, noop(t, "next"))
		release()
		drain(t, q)
	})
}
