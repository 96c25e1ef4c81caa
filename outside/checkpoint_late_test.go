package outside_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/job"
	"github.com/mongodb/amboy/outside"
	"github.com/mongodb/amboy/retry"
)

// It replaced the payload, and the worker went on, if the process that gave the lease had
// stopped.
func TestACheckpointWasAcceptedAfterTheTimeToRun(t *testing.T) {
	inMemory(t, noOptions, func(f *fixture) {
		f.put("a", "1", job.Timeout(time.Minute), job.MaxAttempts(2), job.RetryPolicy(retry.Fixed{}))
		other := f.another()
		req := request()
		req.Lease = time.Hour
		jobs, err := f.dispatcher.Lease(f.ctx, req)
		require.NoError(f, err)
		require.Len(f, jobs, 1)
		f.close()
		time.Sleep(2 * time.Minute)
		checkpoint := &outside.Checkpoint{Payload: &job.Payload{JSON: json.RawMessage("2")}}
		var tooLong *amboy.MaxTimeError
		require.ErrorAs(f, other.ack(outside.Ack{Token: jobs[0].Token, Checkpoint: checkpoint}), &tooLong)
		next := other.leaseOne()
		assert.Equal(f, 1, next.Attempt)
		assert.JSONEq(f, "1", string(next.Payload.JSON))
		other.close()
	})
}
