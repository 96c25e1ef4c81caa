package queue_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue"
	"github.com/mongodb/amboy/queue/driver"
)

// namesIn returns the names of the queues in a store.
func namesIn(t *testing.T, store driver.Driver) (names []string) {
	t.Helper()
	infos, err := store.Queues(t.Context(), driver.QueueRequest{})
	require.NoError(t, err)
	for _, info := range infos {
		names = append(names, info.Name)
	}
	return names
}

// The name of each tenant that had ever put a job used to stay in the store for good.
func TestDriverGroupDropsTheNamesOfTenantsThatAreGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newStore(t)
		group := newDriverGroup(t, store, func(o *queue.DriverGroupOptions) {
			o.TTL = time.Minute
			o.DefaultQueue.Retention = queue.Retention{Succeeded: time.Hour}
		})
		for i := range 50 {
			put(t, open(t, group, fmt.Sprint("tenant-", i)), noop(t, "once"))
		}
		later := noop(t, "later")
		later.SetTimeInfo(amboy.JobTimeInfo{WaitUntil: time.Now().Add(24 * time.Hour)})
		put(t, open(t, group, "scheduled"), later)
		require.NoError(t, open(t, group, "paused").(amboy.QueueController).Pause(t.Context()))
		put(t, open(t, group, "sized"), noop(t, "once"))
		s, ok := queue.StoreOfGroup(group)
		require.True(t, ok)
		require.NoError(t, s.SetWorkers(t.Context(), "sized", 3))
		pass(30 * time.Minute)
		assert.Zero(t, group.Len())
		assert.Len(t, namesIn(t, store), 53, "their jobs are kept")
		pass(3 * time.Hour)
		assert.Equal(t, []string{"paused", "scheduled", "sized"}, namesIn(t, store))

		back := open(t, group, "tenant-1")
		put(t, back, noop(t, "once"))
		drain(t, back)
		assert.Equal(t, 1, back.Stats(t.Context()).Total)
	})
}

func TestDriverGroupKeepsTheNamesOfOpenQueues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newStore(t)
		group := newDriverGroup(t, store, func(o *queue.DriverGroupOptions) { o.TTL, o.PruneFrequency = time.Minute, 24*time.Hour })
		q := open(t, group, "q")
		put(t, q, noop(t, "one"))
		pass(time.Second)
		_, err := store.Act(t.Context(), driver.ActRequest{
			Query: driver.Query{Queues: []string{"q"}}, Action: driver.Action{Kind: driver.Delete}, Limit: 1,
		})
		require.NoError(t, err)
		pass(time.Hour)
		open(t, group, "q")
		require.NoError(t, group.(pruner).Prune(t.Context()))
		assert.Equal(t, 1, q.Stats(t.Context()).Total)
		pass(time.Hour)
		require.NoError(t, group.(pruner).Prune(t.Context()))
		assert.Empty(t, namesIn(t, store))
	})
}

func TestDriverGroupReportsThatNamesCouldNotBeDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newSpy(newStore(t))
		group := newDriverGroup(t, store, func(o *queue.DriverGroupOptions) { o.TTL, o.PruneFrequency = time.Minute, 24*time.Hour })
		store.fail("Prune")
		err := group.(pruner).Prune(t.Context())
		require.ErrorIs(t, err, errCut)
		require.ErrorContains(t, err, "pruning the names of a group")
		store.heal()
		require.NoError(t, group.(pruner).Prune(t.Context()))
	})
}
