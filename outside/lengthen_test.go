package outside_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/outside"
	"github.com/mongodb/amboy/queue/driver"
)

// unrenewing is a store that renews no lease while failing is true.
type unrenewing struct {
	driver.Driver
	failing bool
}

var errUnrenewed = errors.New("the store is away")

// Close leaves the store open, which another process uses.
func (s *unrenewing) Close(context.Context) error { return nil }

func (s *unrenewing) Extend(ctx context.Context, leases []driver.Lease, length time.Duration) ([]driver.Lease, error) {
	if s.failing {
		return nil, errUnrenewed
	}
	return s.Driver.Extend(ctx, leases, length)
}

// The worker got the job under the short lease, and another worker got it as well when that
// had run out.
func TestAJobWhoseLeaseCouldNotBeLengthenedWasLeasedAllTheSame(t *testing.T) {
	inMemory(t, noOptions, func(f *fixture) {
		store := &unrenewing{Driver: f.driver, failing: true}
		other := newFixture(f.T, f.ctx, func() driver.Driver { return store }, noOptions)
		f.put("a", "1")
		req := request()
		req.LeaseOf = func(outside.Job) time.Duration { return time.Hour }
		jobs, err := other.dispatcher.Lease(f.ctx, req)
		require.ErrorIs(f, err, errUnrenewed)
		assert.Empty(f, jobs)
		store.failing = false
		jobs, err = other.dispatcher.Lease(f.ctx, req)
		require.NoError(f, err)
		require.Equal(f, []string{"a"}, ids(jobs))
		assert.Zero(f, jobs[0].Interruptions)
		time.Sleep(59 * time.Minute)
		require.NoError(f, other.complete(jobs[0], ""))
		other.close()
	})
}
