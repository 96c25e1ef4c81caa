package queue_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue"
	"github.com/mongodb/amboy/queue/driver"
)

func typeCounts(t *testing.T, q amboy.Queue) queue.TypeCounts {
	t.Helper()
	store, ok := queue.StoreOf(q)
	require.True(t, ok)
	counts, err := store.TypeCounts(t.Context())
	require.NoError(t, err)
	synctest.Wait()
	return counts
}

func TestJobsInMemoryAreCountedByTypeAtOnce(t *testing.T) {
	for name, start := range map[string]func(t *testing.T) amboy.Queue{
		"driver": func(t *testing.T) amboy.Queue { return startEngine(t, newStore(t), 1) },
		"by reference": func(t *testing.T) amboy.Queue {
			q := queue.NewLocalLimitedSize(1, 100)
			require.NoError(t, q.Start(t.Context()))
			return q
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := start(t)
				defer q.Close(ended())
				s := &starts{t: t}
				put(t, q, s.lasting("running", time.Hour))
				synctest.Wait()
				put(t, q, noop(t, "one"), noop(t, "two"))
				counts := typeCounts(t, q)
				assert.Equal(t, time.Now(), counts.At)
				running, ready := 0, 0
				for _, count := range counts.Counts {
					running += count.Running
					ready += count.Ready
				}
				assert.Equal(t, 1, running)
				assert.Equal(t, 2, ready)
				pass(2 * time.Hour)
				assert.Empty(t, typeCounts(t, q).Counts, "all have ended")
			})
		})
	}
}

// slowCount is a store that takes time to count.
type slowCount struct {
	*spy
	takes time.Duration
}

func (s slowCount) CountTypes(ctx context.Context) ([]driver.TypeCount, error) {
	counts, err := s.spy.CountTypes(ctx)
	select {
	case <-time.After(s.takes):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	return counts, err
}

func TestProcessesShareTheCountsByTypeOfADatabase(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newSpy(newStore(t))
		store.durable = true
		const takes = 4 * time.Second
		q, other := startEngine(t, slowCount{store, takes}, 1), startEngine(t, slowCount{store, takes}, 1)
		defer q.Close(ended())
		defer other.Close(ended())
		pause := true
		_, err := store.Control(t.Context(), "", driver.ControlChange{Paused: &pause})
		require.NoError(t, err)
		put(t, q, noop(t, "one"))

		begin := time.Now()
		for range 5 {
			assert.Zero(t, typeCounts(t, q).At, "no count has ended yet")
			assert.Zero(t, typeCounts(t, other).At)
		}
		assert.Equal(t, begin, time.Now(), "a caller does not wait for the count")
		pass(takes)
		for range 50 {
			for _, in := range []amboy.Queue{q, other} {
				counts := typeCounts(t, in)
				assert.True(t, counts.At.Equal(begin), "%s", counts.At)
				require.Len(t, counts.Counts, 1)
				assert.Equal(t, 1, counts.Counts[0].Ready)
			}
			pass(3 * time.Second)
		}
		assert.Equal(t, 1, store.count("CountTypes"), "2% of the time, for all processes")
		put(t, q, noop(t, "two"))
		pass(50 * takes)
		typeCounts(t, other)
		pass(takes)
		assert.Equal(t, 2, typeCounts(t, q).Counts[0].Ready)
		assert.Equal(t, 2, store.count("CountTypes"))
	})
}

func TestAFailedOrEndlessCountByTypeIsTriedAgainLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newSpy(newStore(t))
		store.durable = true
		q := startEngine(t, slowCount{store, 2 * time.Minute}, 1)
		defer q.Close(ended())
		for range 60 {
			assert.Zero(t, typeCounts(t, q).At)
			pass(10 * time.Second)
		}
		assert.Equal(t, 5, store.count("CountTypes"), "every two minutes")
	})
}

func TestCloseEndsACountByType(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newSpy(newStore(t))
		store.durable = true
		q := startEngine(t, slowCount{store, time.Hour}, 1)
		typeCounts(t, q)
		begin := time.Now()
		q.Close(t.Context())
		assert.Less(t, time.Since(begin), time.Second)
	})
}

// stuckTurn is a store that does not answer when a process wants to count.
type stuckTurn struct {
	*spy
	asked *atomic.Int32
}

func (s stuckTurn) KeepNew(ctx context.Context, note driver.Note, now time.Time) (driver.Note, bool, error) {
	if note.Kind != "type counts" {
		return s.spy.KeepNew(ctx, note, now)
	}
	s.asked.Add(1)
	<-ctx.Done()
	return driver.Note{}, false, ctx.Err()
}

func TestAProcessAsksOnceToCountByType(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := stuckTurn{newSpy(newStore(t)), &atomic.Int32{}}
		store.durable = true
		q := startEngine(t, store, 1)
		defer q.Close(ended())
		for range 100 {
			typeCounts(t, q)
		}
		assert.EqualValues(t, 1, store.asked.Load())
	})
}

// manyTypes is a store with many tenants and types.
type manyTypes struct{ *spy }

func (manyTypes) CountTypes(context.Context) (counts []driver.TypeCount, err error) {
	for tenant := range 400 {
		for n := range 5 {
			counts = append(counts, driver.TypeCount{Queue: fmt.Sprintf("%01000d", tenant), Type: fmt.Sprintf("%01000d", tenant%30*5+n), Ready: tenant + 1})
		}
	}
	return counts, nil
}

func TestStoredCountsByTypeAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newSpy(newStore(t))
		store.durable = true
		q, err := queue.NewDriverGroup(t.Context(), queue.DriverGroupOptions{
			DefaultQueue: queue.DriverQueueOptions{Driver: manyTypes{store}, NumWorkers: 1},
		})
		require.NoError(t, err)
		defer q.Close(ended()) //nolint:errcheck // It is not what is tested.
		all, ok := queue.StoreOfGroup(q)
		require.True(t, ok)
		_, err = all.TypeCounts(t.Context())
		require.NoError(t, err)
		synctest.Wait()
		counts, err := all.TypeCounts(t.Context())
		require.NoError(t, err)
		sum := 0
		for _, count := range append(counts.Counts, counts.Others...) {
			sum += count.Ready
		}
		assert.Equal(t, 5*400*401/2, sum, "no job is lost")
		assert.Len(t, counts.Counts, 250, "500 would not fit into a note")
		assert.Equal(t, 400, counts.Counts[len(counts.Counts)-1].Ready, "the deepest")
		require.Len(t, counts.Others, 100)
		assert.Empty(t, counts.Others[99].Type)
		assert.NotEmpty(t, counts.Others[98].Type)
	})
}
