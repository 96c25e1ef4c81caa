package pinlater_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/pinlater"
	"github.com/mongodb/amboy/pinlater/wire"
)

// The jobs of a dequeue whose reply was too large were claimed, and reached no client: each lost
// an attempt.
func TestADequeueClaimedMoreThanItsReplyCouldHold(t *testing.T) {
	onEach(t, pinlater.Options{MaxFrame: 64 << 10}, func(f *fixture) {
		const jobs = 5
		body := strings.Repeat("x", 25<<10)
		for range jobs {
			f.put(body)
		}
		for _, dryRun := range []bool{true, false} {
			request := dequeueRequest(jobs)
			request.DryRun = dryRun
			found, err := f.client.DequeueJobs(f.ctx, test, request)
			require.NoError(f, err)
			assert.Len(f, found.Jobs, 2)
		}
		assert.Equal(f, jobs-2, f.count(wire.PinLaterJobState_PENDING))
		assert.Len(f, f.dequeue(jobs).Jobs, 2)
		assert.Len(f, f.dequeue(jobs).Jobs, 1)
	})
}
