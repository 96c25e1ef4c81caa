package outside_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/job"
	"github.com/mongodb/amboy/outside"
	"github.com/mongodb/amboy/retry"
)

func (f *fixture) leaseThatFailsIfLost() outside.Job {
	f.Helper()
	req := request()
	req.LostFails, req.Lease = true, time.Minute
	jobs, err := f.dispatcher.Lease(f.ctx, req)
	require.NoError(f, err)
	require.Len(f, jobs, 1)
	return jobs[0]
}

func (f *fixture) leased(id string) *outside.Job {
	f.Helper()
	leased, err := f.dispatcher.Leased(f.ctx, queueName, time.Minute, id)
	require.NoError(f, err)
	return leased[id]
}

func TestALostLeaseEndsTheAttemptIfItsRequestSaysSo(t *testing.T) {
	inMemory(t, noOptions, func(f *fixture) {
		f.put("a", "1", job.MaxAttempts(2), job.RetryPolicy(retry.Fixed{Wait: time.Second}))
		f.leaseThatFailsIfLost()
		time.Sleep(2 * time.Minute)
		r := f.record("a")
		assert.Equal(f, 1, r.RetryInfo.CurrentAttempt)
		f.hasState("a", amboy.StatePending)

		f.leaseThatFailsIfLost()
		time.Sleep(2 * time.Minute)
		f.hasState("a", amboy.StateFailed)
	})
}

func TestARenewedLeaseDoesNotEndTheAttempt(t *testing.T) {
	inMemory(t, noOptions, func(f *fixture) {
		f.put("a", "1")
		j := f.leaseThatFailsIfLost()
		for range 5 {
			time.Sleep(59 * time.Second)
			require.NoError(f, f.dispatcher.Heartbeat(f.ctx, outside.Beat{Token: j.Token})[0].Err)
		}
		require.NoError(f, f.complete(j, ""))
		f.hasState("a", amboy.StateSucceeded)
	})
}

func TestALostAttemptIsFoundByTheNextLease(t *testing.T) {
	inMemory(t, noOptions, func(f *fixture) {
		f.put("a", "1", job.MaxAttempts(2), job.RetryPolicy(retry.Fixed{Wait: time.Second}))
		other := f.another()
		f.leaseThatFailsIfLost()
		f.close()
		time.Sleep(5 * time.Minute)
		other.leaseOne()
		assert.Equal(f, 1, other.record("a").RetryInfo.CurrentAttempt)
		other.close()
	})
}

func TestADispatcherEndsTheAttemptsOfLeasesThatLeasedReturned(t *testing.T) {
	inMemory(t, noOptions, func(f *fixture) {
		f.put("a", "1")
		other := f.another()
		f.leaseThatFailsIfLost()
		f.close()
		require.NotNil(f, other.leased("a"))
		time.Sleep(3 * time.Minute)
		other.hasState("a", amboy.StateFailed)
		other.close()
	})
}

func TestLeasedJobsAreAcknowledgedByTheirIDs(t *testing.T) {
	onEach(t, func(f *fixture) {
		f.put("a", "1", job.MaxAttempts(2), job.Metadata(map[string]string{"gone": "x", "kept": "y"}))
		f.put("b", "2")
		assert.Nil(f, f.leased("a"))
		first := f.lease(1)[0]
		leased := f.leased("a")
		require.NotNil(f, leased)
		assert.Equal(f, "w", leased.Worker)
		assert.Equal(f, first.Payload, leased.Payload)
		assert.Nil(f, f.leased("b"))
		assert.Nil(f, f.leased("none"))

		checkpoint := leased.Ack()
		checkpoint.Checkpoint = &outside.Checkpoint{MaxAttempts: 5}
		checkpoint.Metadata = map[string]string{"gone": "", "new": "z"}
		require.NoError(f, f.ack(checkpoint))
		r := f.record("a")
		assert.Equal(f, map[string]string{"kept": "y", "new": "z"}, r.Metadata)
		assert.Equal(f, 5, r.RetryInfo.MaxAttempts)
		require.NoError(f, f.dispatcher.Heartbeat(f.ctx, outside.Beat{Token: leased.Token})[0].Err)

		end := f.leased("a").Ack()
		end.Complete, end.Metadata = &outside.Complete{}, map[string]string{"new": "end"}
		require.NoError(f, f.ack(end))
		require.ErrorIs(f, f.ack(end), outside.ErrLeaseLost)
		f.hasState("a", amboy.StateSucceeded)
		assert.Equal(f, map[string]string{"kept": "y", "new": "end"}, f.record("a").Metadata)
	})
}

func TestAFailedJobCanBeLeasedAgainAsSoonAsThatIsAnswered(t *testing.T) {
	onEach(t, func(f *fixture) {
		f.put("a", "1", job.MaxAttempts(20), job.RetryPolicy(retry.Fixed{}))
		for attempt := range 20 {
			jobs := f.lease(1)
			require.Len(f, jobs, 1)
			assert.Equal(f, attempt, jobs[0].Attempt)
			require.NoError(f, f.fail(jobs[0], outside.Fail{Error: "no"}))
		}
		f.reaches("a", amboy.StateFailed)
	})
}

func TestLeasedRefusesBadRequests(t *testing.T) {
	inMemory(t, noOptions, func(f *fixture) {
		_, err := f.dispatcher.Leased(f.ctx, queueName, 0, "a")
		var bad *outside.InvalidError
		require.ErrorAs(f, err, &bad)
		assert.Equal(f, "lease", bad.Field)
		f.put("a", "1")
		j := f.lease(1)[0]
		require.ErrorAs(f, f.ack(outside.Ack{Token: j.Token, Release: &outside.Release{}, Metadata: map[string]string{"a": "b"}}), &bad)
		assert.Equal(f, "metadata", bad.Field)
	})
}
