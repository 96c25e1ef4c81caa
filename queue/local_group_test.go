package queue_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue"
)

// makes returns options whose constructor returns q.
func makes(q amboy.Queue) queue.LocalQueueOptions {
	return queue.LocalQueueOptions{Constructor: func(context.Context) (amboy.Queue, error) { return q, nil }}
}

// makesNew returns options whose constructor returns a new queue each time.
func makesNew() queue.LocalQueueOptions {
	return queue.LocalQueueOptions{Constructor: func(context.Context) (amboy.Queue, error) { return &groupedQueue{}, nil }}
}

// newLocalGroup returns a group that is closed at the end of the test.
func newLocalGroup(t *testing.T, opts queue.LocalQueueGroupOptions) amboy.QueueGroup {
	t.Helper()
	group, err := queue.NewLocalQueueGroup(t.Context(), opts)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, group.Close(context.Background())) })
	return group
}

// otherOptions are options for another kind of group.
type otherOptions struct{ amboy.QueueOptions }

func TestLocalQueueGroupOptionsValidate(t *testing.T) {
	for name, test := range map[string]struct {
		opts queue.LocalQueueGroupOptions
		errs []string
	}{
		"no ttl":       {opts: queue.LocalQueueGroupOptions{DefaultQueue: makesNew()}},
		"shortest ttl": {opts: queue.LocalQueueGroupOptions{DefaultQueue: makesNew(), TTL: time.Second}},
		"short ttl": {
			opts: queue.LocalQueueGroupOptions{DefaultQueue: makesNew(), TTL: time.Second - 1},
			errs: []string{"TTL must be 0 or at least 1s (is 999.999999ms)"},
		},
		"all wrong": {
			opts: queue.LocalQueueGroupOptions{TTL: -time.Hour},
			errs: []string{"Constructor must not be nil", "TTL must be 0 or at least 1s (is -1h0m0s)"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			err := test.opts.Validate()
			if len(test.errs) == 0 {
				require.NoError(t, err)
				return
			}
			_, groupErr := queue.NewLocalQueueGroup(t.Context(), test.opts)
			for _, text := range test.errs {
				require.ErrorContains(t, err, text)
				require.ErrorContains(t, groupErr, text)
			}
		})
	}
}

func TestLocalQueueOptionsBuildQueue(t *testing.T) {
	q := &groupedQueue{}
	opts := makes(q)
	built, err := opts.BuildQueue(t.Context())
	require.NoError(t, err)
	assert.Same(t, q, built)
	assert.Zero(t, q.started())

	_, err = (&queue.LocalQueueOptions{}).BuildQueue(t.Context())
	require.EqualError(t, err, "invalid local queue options: Constructor must not be nil")
}

func TestLocalGroupGetMakesAndStartsQueues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var made, run context.Context
		q := &groupedQueue{onStart: func(ctx context.Context) error { run = ctx; return nil }}
		group := newLocalGroup(t, queue.LocalQueueGroupOptions{DefaultQueue: queue.LocalQueueOptions{
			Constructor: func(ctx context.Context) (amboy.Queue, error) { made = ctx; return q, nil },
		}})

		ctx, cancel := context.WithCancel(t.Context())
		got, err := group.Get(ctx, "q")
		require.NoError(t, err)
		assert.Same(t, q, got)
		assert.Equal(t, 1, q.started())
		cancel()
		require.NoError(t, made.Err())
		require.NoError(t, run.Err(), "the queue outlives the context of Get")

		again, err := group.Get(t.Context(), "q")
		require.NoError(t, err)
		assert.Same(t, q, again)
		assert.Equal(t, 1, q.started())
		assert.Equal(t, 1, group.Len())
		assert.Equal(t, []string{"q"}, group.Queues(t.Context()))

		require.NoError(t, group.Close(t.Context()))
		assert.Equal(t, 1, q.closed())
		assert.Error(t, run.Err(), "the queue ends with the group")
	})
}

func TestLocalGroupDoesNotStartStartedQueues(t *testing.T) {
	q := &groupedQueue{starts: 1}
	group := newLocalGroup(t, queue.LocalQueueGroupOptions{DefaultQueue: makes(q)})
	_, err := group.Get(t.Context(), "q")
	require.NoError(t, err)
	assert.Equal(t, 1, q.started())
}

func TestLocalGroupGetMergesOptions(t *testing.T) {
	byDefault, first, second := &groupedQueue{}, &groupedQueue{}, &groupedQueue{}
	firstOpts, secondOpts, empty := makes(first), makes(second), queue.LocalQueueOptions{}
	for name, test := range map[string]struct {
		opts []amboy.QueueOptions
		want *groupedQueue
	}{
		"none":             {nil, byDefault},
		"empty":            {[]amboy.QueueOptions{&empty}, byDefault},
		"one":              {[]amboy.QueueOptions{&firstOpts}, first},
		"two":              {[]amboy.QueueOptions{&firstOpts, &secondOpts}, second},
		"one and an empty": {[]amboy.QueueOptions{&firstOpts, &empty}, first},
	} {
		t.Run(name, func(t *testing.T) {
			group := newLocalGroup(t, queue.LocalQueueGroupOptions{DefaultQueue: makes(byDefault)})
			got, err := group.Get(t.Context(), "q", test.opts...)
			require.NoError(t, err)
			assert.Same(t, test.want, got)
		})
	}
}

func TestLocalGroupGetRefuses(t *testing.T) {
	for name, test := range map[string]struct {
		name string
		opts []amboy.QueueOptions
		err  string
	}{
		"an empty name":     {name: "", err: `getting queue "" of a local group: name must not be empty`},
		"other options":     {name: "q", opts: []amboy.QueueOptions{&otherOptions{}}, err: `getting queue "q" of a local group: options must be a *queue.LocalQueueOptions that is not nil (is *queue_test.otherOptions)`},
		"nil options":       {name: "q", opts: []amboy.QueueOptions{nil}, err: `getting queue "q" of a local group: options must be a *queue.LocalQueueOptions that is not nil (is <nil>)`},
		"a nil option type": {name: "q", opts: []amboy.QueueOptions{(*queue.LocalQueueOptions)(nil)}, err: `getting queue "q" of a local group: options must be a *queue.LocalQueueOptions that is not nil (is *queue.LocalQueueOptions)`},
	} {
		t.Run(name, func(t *testing.T) {
			group := newLocalGroup(t, queue.LocalQueueGroupOptions{DefaultQueue: makesNew()})
			_, err := group.Get(t.Context(), test.name, test.opts...)
			require.EqualError(t, err, test.err)
			assert.Zero(t, group.Len())
		})
	}
}

func TestLocalGroupGetReportsQueuesThatCannotBeMade(t *testing.T) {
	failing := &groupedQueue{onStart: func(context.Context) error { return errors.New("no workers") }}
	panicking := &groupedQueue{onStart: func(context.Context) error { panic("start is broken") }}
	for name, test := range map[string]struct {
		constructor func(context.Context) (amboy.Queue, error)
		queue       *groupedQueue
		err         string
	}{
		"constructor fails": {
			constructor: func(context.Context) (amboy.Queue, error) { return nil, errors.New("out of memory") },
			err:         `getting queue "q" of a local group: calling the constructor of a local queue: out of memory`,
		},
		"constructor panics": {
			constructor: func(context.Context) (amboy.Queue, error) { panic("constructor is broken") },
			err:         `getting queue "q" of a local group: calling the constructor of a local queue: panic: constructor is broken`,
		},
		"constructor returns nil": {
			constructor: func(context.Context) (amboy.Queue, error) { return nil, nil },
			err:         `getting queue "q" of a local group: calling the constructor of a local queue: it returned nil`,
		},
		"start fails": {
			constructor: makes(failing).Constructor,
			queue:       failing,
			err:         `getting queue "q" of a local group: starting the queue: no workers`,
		},
		"start panics": {
			constructor: makes(panicking).Constructor,
			queue:       panicking,
			err:         `getting queue "q" of a local group: starting the queue: panic: start is broken`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			group := newLocalGroup(t, queue.LocalQueueGroupOptions{DefaultQueue: queue.LocalQueueOptions{Constructor: test.constructor}})
			_, err := group.Get(t.Context(), "q")
			require.EqualError(t, err, test.err)
			if test.queue != nil {
				assert.Equal(t, 1, test.queue.closed())
			}
			assert.Zero(t, group.Len())

			opts := makesNew()
			_, err = group.Get(t.Context(), "q", &opts)
			require.NoError(t, err, "the next call tries again")
		})
	}
}

func TestLocalGroupMakesAQueueOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var made atomic.Int32
		release := make(chan struct{})
		slow := queue.LocalQueueOptions{Constructor: func(context.Context) (amboy.Queue, error) {
			made.Add(1)
			<-release
			return &groupedQueue{}, nil
		}}
		group := newLocalGroup(t, queue.LocalQueueGroupOptions{DefaultQueue: makesNew()})

		var callers sync.WaitGroup
		queues := make([]amboy.Queue, 10)
		for i := range queues {
			callers.Go(func() {
				var err error
				queues[i], err = group.Get(t.Context(), "slow", &slow)
				assert.NoError(t, err)
			})
		}
		synctest.Wait()

		_, err := group.Get(t.Context(), "quick")
		require.NoError(t, err, "creating one queue does not block another")
		require.EqualError(t, group.Put(t.Context(), "slow", &groupedQueue{}), `putting queue "slow" in a local group: the name is taken`)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = group.Get(ctx, "slow")
		require.ErrorIs(t, err, context.DeadlineExceeded)

		close(release)
		callers.Wait()
		assert.EqualValues(t, 1, made.Load())
		for _, q := range queues {
			assert.Same(t, queues[0], q)
		}
	})
}

func TestLocalGroupPut(t *testing.T) {
	group := newLocalGroup(t, queue.LocalQueueGroupOptions{DefaultQueue: makesNew()})
	q := &groupedQueue{}
	require.NoError(t, group.Put(t.Context(), "q", q))
	assert.Zero(t, q.started())
	require.EqualError(t, group.Put(t.Context(), "q", &groupedQueue{}), `adding queue "q" to a group: the name is taken`)
	require.Error(t, group.Put(t.Context(), "", &groupedQueue{}))
	require.Error(t, group.Put(t.Context(), "nil", nil))

	got, err := group.Get(t.Context(), "q")
	require.NoError(t, err)
	assert.Same(t, q, got)
	require.NoError(t, group.Close(t.Context()))
	assert.Equal(t, 1, q.closed())
}

func TestLocalGroupPrunesIdleQueues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		group := newLocalGroup(t, queue.LocalQueueGroupOptions{DefaultQueue: makesNew(), TTL: time.Minute})
		busy := &groupedQueue{stats: amboy.QueueStats{Total: 1, Running: 1}}
		idle := &groupedQueue{}
		require.NoError(t, group.Put(t.Context(), "busy", busy))
		require.NoError(t, group.Put(t.Context(), "idle", idle))
		_, err := group.Get(t.Context(), "used")
		require.NoError(t, err)

		pass(time.Minute - 1)
		_, err = group.Get(t.Context(), "used")
		require.NoError(t, err)
		assert.Equal(t, []string{"busy", "idle", "used"}, group.Queues(t.Context()))

		pass(1)
		assert.Equal(t, []string{"busy", "used"}, group.Queues(t.Context()))
		assert.Equal(t, 1, idle.closed())

		pass(time.Minute)
		assert.Equal(t, []string{"busy"}, group.Queues(t.Context()))
		busy.setStats(amboy.QueueStats{Total: 1, Completed: 1})
		require.NoError(t, group.Prune(t.Context()))
		assert.Zero(t, group.Len())

		again, err := group.Get(t.Context(), "idle")
		require.NoError(t, err)
		assert.NotSame(t, idle, again)
	})
}

func TestLocalGroupSurvivesFailedPruning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		group := newLocalGroup(t, queue.LocalQueueGroupOptions{DefaultQueue: makesNew(), TTL: time.Minute})
		broken := &groupedQueue{onClose: func(context.Context) { panic("close is broken") }}
		require.NoError(t, group.Put(t.Context(), "broken", broken))
		pass(time.Minute)
		assert.Zero(t, group.Len())

		_, err := group.Get(t.Context(), "idle")
		require.NoError(t, err)
		pass(2 * time.Minute)
		assert.Zero(t, group.Len())
	})
}

func TestLocalGroupWithoutTTLPrunesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		group := newLocalGroup(t, queue.LocalQueueGroupOptions{DefaultQueue: makesNew()})
		_, err := group.Get(t.Context(), "q")
		require.NoError(t, err)
		pass(10_000 * time.Hour)
		require.NoError(t, group.Prune(t.Context()))
		assert.Equal(t, 1, group.Len())
	})
}

func TestLocalGroupRefusesCallsOnceClosed(t *testing.T) {
	group := newLocalGroup(t, queue.LocalQueueGroupOptions{DefaultQueue: makesNew(), TTL: time.Hour})
	_, err := group.Get(t.Context(), "q")
	require.NoError(t, err)
	require.NoError(t, group.Close(t.Context()))

	_, err = group.Get(t.Context(), "q")
	require.ErrorIs(t, err, queue.ErrGroupClosed)
	require.ErrorIs(t, group.Put(t.Context(), "q", &groupedQueue{}), queue.ErrGroupClosed)
	require.ErrorIs(t, group.Prune(t.Context()), queue.ErrGroupClosed)
	assert.Zero(t, group.Len())
	assert.Empty(t, group.Queues(t.Context()))
	require.NoError(t, group.Close(t.Context()))
}

func TestLocalGroupEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		group, err := queue.NewLocalQueueGroup(ctx, queue.LocalQueueGroupOptions{DefaultQueue: makesNew(), TTL: time.Hour})
		require.NoError(t, err)
		cancel()

		_, err = group.Get(t.Context(), "q")
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorIs(t, group.Put(t.Context(), "q", &groupedQueue{}), context.Canceled)
		require.NoError(t, group.Close(t.Context()))
	})
}

func TestLocalGroupCloseWaitsForQueuesThatAreBeingMade(t *testing.T) {
	for name, test := range map[string]struct {
		patience time.Duration
		closed   time.Duration
		made     bool
	}{
		"until they are made":       {patience: time.Hour, closed: time.Minute, made: true},
		"until its context is over": {patience: time.Second, closed: time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := &groupedQueue{}
				group := newLocalGroup(t, queue.LocalQueueGroupOptions{DefaultQueue: queue.LocalQueueOptions{
					Constructor: func(ctx context.Context) (amboy.Queue, error) {
						select {
						case <-time.After(time.Minute):
							return q, nil
						case <-ctx.Done():
							return nil, ctx.Err()
						}
					},
				}})
				var got atomic.Bool
				go func() {
					_, err := group.Get(t.Context(), "q")
					got.Store(err == nil)
				}()
				synctest.Wait()

				start := time.Now()
				ctx, cancel := context.WithTimeout(t.Context(), test.patience)
				defer cancel()
				require.NoError(t, group.Close(ctx))
				synctest.Wait()

				assert.Equal(t, test.closed, time.Since(start))
				assert.Equal(t, test.made, got.Load())
				assert.Equal(t, q.started(), q.closed())
			})
		})
	}
}

func TestLocalGroupConcurrentUse(t *testing.T) {
	const callers, rounds = 4, 50
	group := newLocalGroup(t, queue.LocalQueueGroupOptions{DefaultQueue: makesNew()})
	var all sync.WaitGroup
	for i := range callers {
		all.Go(func() {
			for n := range rounds {
				name := strconv.Itoa(n % 5)
				_, err := group.Get(t.Context(), name)
				putErr := group.Put(t.Context(), fmt.Sprint(i, "-", n), &groupedQueue{})
				assert.NoError(t, errors.Join(err, putErr, group.Prune(t.Context())))
			}
		})
	}
	all.Wait()
	assert.Equal(t, 5+callers*rounds, group.Len())
	for range callers {
		all.Go(func() { assert.NoError(t, group.Close(t.Context())) })
	}
	all.Wait()
	assert.Zero(t, group.Len())
}
