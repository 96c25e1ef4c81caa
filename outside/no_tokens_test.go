package outside_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/outside"
)

func TestJobsWithoutTokensAreAcknowledgedInThisProcess(t *testing.T) {
	inMemory(t, noOptions, func(f *fixture) {
		f.put("a", "1")
		lease := func() outside.Job {
			f.Helper()
			req := request()
			req.NoTokens, req.Lease = true, time.Minute
			req.LeaseOf = func(outside.Job) time.Duration { return 2 * time.Minute }
			jobs, err := f.dispatcher.Lease(f.ctx, req)
			require.NoError(f, err)
			require.Len(f, jobs, 1)
			assert.Empty(f, jobs[0].Token)
			assert.Equal(f, time.Now().Add(2*time.Minute), jobs[0].LeaseEnds)
			return jobs[0]
		}
		complete := func(j outside.Job) error {
			ack := j.Ack()
			ack.Complete = &outside.Complete{}
			return f.dispatcher.Acknowledge(f.ctx, ack)[0]
		}

		lost := lease()
		f.dispatcher.TakeBack(f.ctx, []outside.Job{lost})
		f.hasState("a", amboy.StatePending)

		j := lease()
		require.ErrorIs(f, complete(lost), outside.ErrLeaseLost)
		require.ErrorIs(f, f.dispatcher.Acknowledge(f.ctx, outside.Ack{Complete: &outside.Complete{}})[0], outside.ErrBadToken)
		f.hasState("a", amboy.StateRunning)
		require.NoError(f, complete(j))
		f.hasState("a", amboy.StateSucceeded)
		require.ErrorIs(f, complete(j), outside.ErrLeaseLost)
	})
}
