package outside_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/outside"
)

// The jobs stayed leased for as long as the lease, although no worker had them.
func TestJobsWereLeasedToACallerThatHadLeft(t *testing.T) {
	inMemory(t, noOptions, func(f *fixture) {
		f.put("a", "1")
		f.put("b", "2")
		ctx, leave := context.WithCancel(f.ctx)
		defer leave()
		req := request()
		req.Limit, req.Lease = 2, outside.MaxLease
		req.LeaseOf = func(outside.Job) time.Duration {
			leave() // the store has given the leases by now
			return 0
		}
		jobs, err := f.dispatcher.Lease(ctx, req)
		require.ErrorIs(f, err, context.Canceled)
		assert.Empty(f, jobs)
		again := f.lease(2)
		assert.ElementsMatch(f, []string{"a", "b"}, ids(again))
		for _, j := range again {
			assert.Zero(f, j.Interruptions)
		}
	})
}
