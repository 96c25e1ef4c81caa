package outside_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/job"
	"github.com/mongodb/amboy/outside"
	"github.com/mongodb/amboy/queue/driver"
)

// lateClaims is a store in which each claim starts after claimedLate.
type lateClaims struct{ driver.Driver }

const claimedLate = 4 * time.Second

func (s lateClaims) Claim(ctx context.Context, req driver.ClaimRequest) (driver.Claimed, error) {
	time.Sleep(claimedLate)
	return s.Driver.Claim(ctx, req)
}

// A first claim found only a job of another type. The time to run of the job that a second one took was
// counted from before the first, so its attempt failed before its RunBy.
func TestAnAttemptFailedBeforeItsTimeToRunWasOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, t.Context(), func() driver.Driver { return lateClaims{stores["memory"](t)()} }, noOptions)
		f.putAs(amboy.JobType{Name: "other", Version: 1}, "b", `1`)
		f.put("a", `1`, job.Timeout(20*time.Second))
		j := f.lease(1)[0]
		time.Sleep(time.Until(j.RunBy) - time.Second)
		require.NoError(t, f.ack(outside.Ack{Token: j.Token, Complete: &outside.Complete{}}))
		f.close()
	})
}
