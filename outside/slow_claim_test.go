package outside_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/job"
	"github.com/mongodb/amboy/outside"
	"github.com/mongodb/amboy/queue/driver"
)

// slowClaims is a store that answers a claim of jobs late.
type slowClaims struct {
	driver.Driver
	late atomic.Int64 // in nanoseconds
}

func (s *slowClaims) Claim(ctx context.Context, req driver.ClaimRequest) (driver.Claimed, error) {
	claimed, err := s.Driver.Claim(ctx, req)
	if len(claimed.Records) > 0 {
		time.Sleep(time.Duration(s.late.Swap(0)))
	}
	return claimed, err
}

// The time to run counts from after the claim, and the lease from before it. The lease of a worker that did not renew it
// seemed to end first, so the job waited for another worker instead of having failed.
func TestAnAttemptDidNotEndWithItsTimeToRunIfItsLeaseWasAsLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &slowClaims{Driver: stores["memory"](t)()}
		f := newFixture(t, t.Context(), func() driver.Driver { return store }, noOptions)
		f.put("a", `1`, job.Timeout(time.Minute))
		store.late.Store(int64(10 * time.Millisecond))
		req := request()
		req.Lease = time.Minute
		_, err := f.dispatcher.Lease(t.Context(), req)
		require.NoError(t, err)
		time.Sleep(time.Minute + time.Second)
		f.hasState("a", amboy.StateFailed)
		f.close()
	})
}

// A worker was given a job whose lease had run out before the store answered, while another worker may
// have run the job.
func TestAWorkerWasGivenALeaseThatHadRunOut(t *testing.T) {
	for name, lease := range map[string]time.Duration{
		"within the limit of a call": time.Second,
		"after the limit of a call":  11 * time.Second,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := &slowClaims{Driver: stores["memory"](t)()}
				f := newFixture(t, t.Context(), func() driver.Driver { return store }, noOptions)
				f.put("a", `1`, job.MaxAttempts(2))
				store.late.Store(int64(lease + time.Second))
				req := request()
				req.Lease, req.Wait, req.LostFails = lease, time.Minute, true
				jobs, err := f.dispatcher.Lease(t.Context(), req)
				require.NoError(t, err)
				require.Len(t, jobs, 1)
				assert.True(t, jobs[0].LeaseEnds.After(time.Now()), "the lease ended %s ago", time.Since(jobs[0].LeaseEnds))
				assert.Zero(t, jobs[0].Attempt, "no worker had the job before")
				require.NoError(t, f.ack(outside.Ack{Token: jobs[0].Token, Complete: &outside.Complete{}}))
				f.close()
			})
		})
	}
}
