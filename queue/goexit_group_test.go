package queue_test

import (
	"context"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue"
)

func TestAHookThatEndedItsGoroutineKeptCloseFromReturning(t *testing.T) {
	cache := queue.NewCacheWithCleanupHook(time.Hour, func(context.Context, string) error {
		runtime.Goexit()
		return nil
	})
	require.NoError(t, cache.Set("q", &groupedQueue{}, 0))
	inTime(t, func() { assert.Error(t, cache.Close(context.Background())) })
}

// Get returned nil without an error, from then on.
func TestAConstructorThatEndedItsGoroutineLeftNoQueueUnderItsName(t *testing.T) {
	exits := true
	group, err := queue.NewLocalQueueGroup(t.Context(), queue.LocalQueueGroupOptions{DefaultQueue: queue.LocalQueueOptions{
		Constructor: func(context.Context) (amboy.Queue, error) {
			if exits {
				exits = false
				runtime.Goexit()
			}
			return &groupedQueue{}, nil
		},
	}})
	require.NoError(t, err)
	defer func() { assert.NoError(t, group.Close(context.Background())) }()
	_, err = group.Get(within(t), "q")
	require.Error(t, err)
	q, err := group.Get(within(t), "q")
	require.NoError(t, err)
	assert.NotNil(t, q)
}

func TestAHookThatEndedItsGoroutineStoppedPruning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		group := newDriverGroup(t, newStore(t), func(o *queue.DriverGroupOptions) {
			o.TTL = time.Minute
			o.OnClose = func(string) { runtime.Goexit() }
		})
		for _, name := range []string{"a", "b"} {
			open(t, group, name)
			pass(time.Hour)
			assert.Zero(t, group.Len())
		}
	})
}
