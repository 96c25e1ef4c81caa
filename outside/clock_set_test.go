package outside_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/job"
	"github.com/mongodb/amboy/outside"
	"github.com/mongodb/amboy/queue/driver"
)

// behindClaims is a store as used by a process whose wall clock is behind while it claims jobs, and is then set.
type behindClaims struct{ driver.Driver }

func (s behindClaims) Claim(ctx context.Context, req driver.ClaimRequest) (driver.Claimed, error) {
	req.Now = req.Now.Round(0).Add(-time.Hour)
	return s.Driver.Claim(ctx, req)
}

// When the wall clock of the server was set forward, the time to run of all leased jobs was over.
func TestAnAttemptFailedBecauseTheClockWasSet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		open := func() driver.Driver { return behindClaims{stores["memory"](t)()} }
		f := newFixture(t, t.Context(), open, noOptions)
		f.put("a", `1`, job.At(time.Now().Add(-2*time.Hour)), job.Timeout(10*time.Minute))
		j := f.leaseOne()
		for range 9 {
			time.Sleep(59 * time.Second)
			require.NoError(t, f.dispatcher.Heartbeat(f.ctx, outside.Beat{Token: j.Token})[0].Err)
		}
		require.NoError(t, f.ack(outside.Ack{Token: j.Token, Checkpoint: &outside.Checkpoint{}}))
		require.NoError(t, f.complete(j, ``))
		f.close()
	})
}
