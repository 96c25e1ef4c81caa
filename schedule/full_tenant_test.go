package schedule_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/job"
	"github.com/mongodb/amboy/queue"
	"github.com/mongodb/amboy/schedule"
)

// punctual reports how late its jobs ran.
var punctual = job.Define("schedule-test-punctual", 1, func(_ context.Context, tick time.Time) error {
	ran <- time.Since(tick)
	return nil
})

func newTenants(t *testing.T, group amboy.QueueGroup, names []string) *schedule.Tenants {
	t.Helper()
	s, err := schedule.NewTenants(group, func(context.Context) ([]string, error) { return names, nil }, schedule.Options{})
	require.NoError(t, err)
	return s
}

// newLastingGroup makes a group that prunes no queue.
func newLastingGroup(t *testing.T) amboy.QueueGroup {
	t.Helper()
	group, err := queue.NewLocalQueueGroup(context.Background(), queue.LocalQueueGroupOptions{
		DefaultQueue: queue.LocalQueueOptions{Constructor: func(context.Context) (amboy.Queue, error) {
			q, err := queue.NewLocal(queue.LocalOptions{NumWorkers: 1})
			return slowQueue{q, q.(amboy.QueueMarker)}, err
		}},
	})
	require.NoError(t, err)
	return group
}

// A full queue makes Put wait.
func TestAFullQueueStoppedTheSchedulesOfOtherTenants(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ran = make(chan time.Duration, 1000)
		group := newLastingGroup(t)
		defer closeGroup(t, group)
		names := []string{"quiet"}
		for n := range 20 {
			name := string(rune('a' + n))
			q := queue.NewLocalLimitedSize(1, 1)
			require.NoError(t, q.Start(t.Context()))
			require.NoError(t, amboy.Pause(t.Context(), q))
			require.NoError(t, group.Put(t.Context(), name, q))
			names = append(names, name)
		}
		s := newTenants(t, group, names)
		defer s.Close(context.Background())
		require.NoError(t, s.Add("minutely", every(t, time.Minute), func(_ string, tick time.Time) (amboy.Job, error) {
			return punctual.New(tick)
		}, schedule.CatchUpAll))
		require.NoError(t, s.Start(t.Context()))
		time.Sleep(10*time.Minute + 30*time.Second)
		require.Len(t, ran, 10)
		for range 10 {
			assert.Less(t, <-ran, 10*time.Second)
		}
	})
}

// A tenant whose queue is full for a while gets the jobs of its ticks as soon as there is room.
func TestTheScheduleOfAQueueThatWasFullGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ran = make(chan time.Duration, 1000)
		group := newLastingGroup(t)
		defer closeGroup(t, group)
		q := queue.NewLocalLimitedSize(1, 1)
		require.NoError(t, q.Start(t.Context()))
		require.NoError(t, amboy.Pause(t.Context(), q))
		require.NoError(t, group.Put(t.Context(), "full", q))
		s := newTenants(t, group, []string{"full"})
		defer s.Close(context.Background())
		require.NoError(t, s.Add("minutely", every(t, time.Minute), func(_ string, tick time.Time) (amboy.Job, error) {
			return punctual.New(tick)
		}, schedule.CatchUpAll))
		require.NoError(t, s.Start(t.Context()))
		time.Sleep(10*time.Minute + 30*time.Second)
		assert.Empty(t, ran)
		require.NoError(t, amboy.Resume(t.Context(), q))
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		assert.Len(t, ran, 12)
	})
}

// slowQueue takes a second for each Put, as a distant store with many tenants may.
type slowQueue struct {
	amboy.Queue
	amboy.QueueMarker
}

func (q slowQueue) Put(ctx context.Context, j amboy.Job) error {
	time.Sleep(time.Second)
	return q.Queue.Put(ctx, j)
}

func TestTicksOfTheLastOfManyTenantsCountedAsMissed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ran = make(chan time.Duration, 1000)
		group := newLastingGroup(t)
		defer closeGroup(t, group)
		var names []string
		for n := range 600 {
			names = append(names, string(rune('a'+n/26))+string(rune('a'+n%26)))
		}
		s := newTenants(t, group, names)
		defer s.Close(context.Background())
		soon, err := schedule.At(time.Now().Add(5 * time.Minute))
		require.NoError(t, err)
		require.NoError(t, s.Add("soon", soon, func(_ string, tick time.Time) (amboy.Job, error) {
			return punctual.New(tick)
		}, schedule.CatchUpNone))
		require.NoError(t, s.Start(t.Context()))
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		assert.Len(t, ran, len(names))
	})
}
