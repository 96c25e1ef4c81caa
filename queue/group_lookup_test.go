package queue_test

import (
	"context"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue"
)

func TestLookupCreatesNoQueue(t *testing.T) {
	store := newStore(t)
	first := newDriverGroup(t, store, func(*queue.DriverGroupOptions) {})
	q, err := first.Get(t.Context(), "acme")
	require.NoError(t, err)
	require.NoError(t, q.Put(t.Context(), newJob(t, "a", func(context.Context, *funcJob) {})))
	require.True(t, amboy.Wait(t.Context(), q))

	second := newDriverGroup(t, store, func(o *queue.DriverGroupOptions) {
		o.BackgroundCreateFrequency = queue.NoBackgroundCreate
	})
	local, err := queue.NewLocalQueueGroup(t.Context(), queue.LocalQueueGroupOptions{DefaultQueue: queue.LocalQueueOptions{
		Constructor: func(context.Context) (amboy.Queue, error) { return queue.NewLocalLimitedSize(1, 1), nil },
	}})
	require.NoError(t, err)
	_, err = local.Get(t.Context(), "acme")
	require.NoError(t, err)
	for name, g := range map[string]amboy.QueueGroup{"that opened it": first, "that shares the store": second, "in memory": local, "of another package": struct{ amboy.QueueGroup }{first}} {
		t.Run(name, func(t *testing.T) {
			for _, unknown := range []string{"", "acm", "acme2", "no such tenant"} {
				none, exists, failure := queue.Lookup(t.Context(), g, unknown)
				require.NoError(t, failure)
				assert.False(t, exists)
				assert.Nil(t, none)
			}
			found, exists, failure := queue.Lookup(t.Context(), g, "acme")
			require.NoError(t, failure)
			require.True(t, exists)
			same, failure := g.Get(t.Context(), "acme")
			require.NoError(t, failure)
			assert.Same(t, same, found)
			assert.Equal(t, 1, g.Len())
		})
	}
	require.NoError(t, local.Close(t.Context()))
	_, _, err = queue.Lookup(t.Context(), local, "acme")
	require.ErrorIs(t, err, amboy.ErrGroupClosed)
}

func TestAGroupReportsTheQueuesThatItOpensAndCloses(t *testing.T) {
	var mu sync.Mutex
	var events []string
	note := func(event string) {
		mu.Lock()
		defer mu.Unlock()
		events = append(events, event)
	}
	group, err := queue.NewDriverGroup(t.Context(), queue.DriverGroupOptions{
		DefaultQueue: queue.DriverQueueOptions{
			Driver: newStore(t), CloseDriver: true, NumWorkers: 1,
			Middleware: []amboy.Middleware{{Run: func(next amboy.RunFunc) amboy.RunFunc {
				return func(ctx context.Context, j amboy.Job) error { note("inner"); return next(ctx, j) }
			}}},
		},
		MiddlewareFor: func(name string) []amboy.Middleware {
			if name == "broken" {
				panic("no middleware")
			}
			return []amboy.Middleware{{Run: func(next amboy.RunFunc) amboy.RunFunc {
				return func(ctx context.Context, j amboy.Job) error { note("run " + name); return next(ctx, j) }
			}}}
		},
		OnOpen: func(name string, q amboy.Queue) {
			assert.True(t, q.Info().Started)
			note("open " + name)
			panic("is logged")
		},
		OnClose: func(name string) { note("close " + name) },
	})
	require.NoError(t, err)
	_, err = group.Get(t.Context(), "broken")
	require.ErrorContains(t, err, "no middleware")
	q, err := group.Get(t.Context(), "acme")
	require.NoError(t, err)
	_, err = group.Get(t.Context(), "acme")
	require.NoError(t, err)
	require.NoError(t, q.Put(t.Context(), newJob(t, "a", func(context.Context, *funcJob) {})))
	require.True(t, amboy.Wait(t.Context(), q))
	require.NoError(t, group.Close(t.Context()))
	assert.Equal(t, []string{"open acme", "run acme", "inner", "close acme"}, events)
}
