package queue_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue"
	"github.com/mongodb/amboy/queue/driver"
)

// measure returns the measures of the process that has a queue open.
func measure(t *testing.T, q amboy.Queue) queue.ProcessMeasures {
	t.Helper()
	store, ok := queue.StoreOf(q)
	require.True(t, ok)
	return store.Measure()
}

func TestMeasuresCountClaimsAndAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := startEngine(t, newStore(t), 3)
		defer q.Close(ended())
		s := &starts{t: t}
		put(t, q, noop(t, "one"), noop(t, "two"), s.lasting("running", 24*time.Hour))
		synctest.Wait()

		m := measure(t, q)
		assert.Equal(t, 3, m.Workers)
		assert.Equal(t, 1, m.Running)
		assert.EqualValues(t, 3, m.ClaimedJobs)
		assert.Positive(t, m.Claims)
		require.Len(t, m.Attempts, 1)
		assert.EqualValues(t, 2, m.Attempts[0].Succeeded)
		assert.EqualValues(t, 2, m.Attempts[0].Run.Count)
		assert.Zero(t, m.Fenced+m.Taken+m.LateRenewals+m.FailedClaims+m.Parked+m.Interruptions)
	})
}

// A store that does not renew leases makes the process cancel its own run; then another
// process takes the job back.
func TestMeasuresCountLateRenewalsFencesAndInterruptions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared := newStore(t)
		cut := newSpy(shared)
		q := startEngine(t, cut, 1)
		defer q.Close(ended())
		s := &starts{t: t}
		put(t, q, s.lasting("running", 24*time.Hour))
		synctest.Wait()
		cut.do(func(context.Context, string) error { return errCut })
		other := startEngine(t, shared, 1)
		defer other.Close(ended())
		pass(time.Hour)

		m := measure(t, q)
		assert.EqualValues(t, 1, m.Fenced)
		assert.Zero(t, m.Taken)
		assert.Positive(t, m.LateRenewals)
		assert.GreaterOrEqual(t, m.Renewals, m.LateRenewals)
		assert.Positive(t, m.FailedClaims)
		assert.EqualValues(t, 1, measure(t, other).Interruptions)
	})
}

func TestMeasuresCountLeasesThatTheStoreGaveAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newStore(t)
		q := startEngine(t, store, 1)
		defer q.Close(ended())
		s := &starts{t: t}
		put(t, q, s.lasting("running", 24*time.Hour))
		synctest.Wait()
		yes := true
		_, err := store.Control(t.Context(), "", driver.ControlChange{Paused: &yes})
		require.NoError(t, err)
		loseLeases(t.Context(), t, store)
		pass(time.Hour)
		m := measure(t, q)
		assert.EqualValues(t, 1, m.Taken)
		assert.Zero(t, m.Fenced)
	})
}

func TestMeasuresCountParkedJobs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newStore(t)
		unreadable := recordOf(t, "", noop(t, "one"))
		require.NoError(t, unreadable.Job.UnmarshalJSON([]byte(`{"job_base": 7}`)))
		_, err := store.Insert(t.Context(), []*driver.Record{unreadable})
		require.NoError(t, err)
		q := startEngine(t, store, 1)
		defer q.Close(ended())
		synctest.Wait()
		assert.EqualValues(t, 1, measure(t, q).Parked)
	})
}

// The queues of a local group are closed when they are idle. What they did still counts.
func TestMeasuresOfALocalGroupDoNotDecreaseWhenAQueueIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		opts := queue.LocalQueueGroupOptions{
			DefaultQueue: queue.LocalQueueOptions{Constructor: func(context.Context) (amboy.Queue, error) {
				return queue.NewLocalLimitedSize(1, 100), nil
			}},
			TTL: time.Minute,
		}
		group, err := queue.NewLocalQueueGroup(t.Context(), opts)
		require.NoError(t, err)
		defer group.Close(ended()) //nolint:errcheck // It is not what is tested.
		store, ok := queue.StoreOfGroup(group)
		require.True(t, ok)
		for range 2 {
			for _, name := range []string{"a", "b"} {
				q, err := group.Get(t.Context(), name)
				require.NoError(t, err)
				put(t, q, noop(t, "one"))
			}
			synctest.Wait()
			before := succeeded(store.Measure())
			pass(time.Hour)
			require.Zero(t, group.Len())
			assert.Equal(t, before, succeeded(store.Measure()))
			assert.Zero(t, store.Measure().Workers)
		}
		assert.Equal(t, map[string]uint64{"a": 2, "b": 2}, succeeded(store.Measure()))
	})
}

func succeeded(m queue.ProcessMeasures) map[string]uint64 {
	counts := map[string]uint64{}
	for _, attempts := range m.Attempts {
		if attempts.Succeeded > 0 {
			counts[attempts.Queue] += attempts.Succeeded
		}
	}
	return counts
}
