package outside_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/driver"
)

// excepting is a store that records which kinds the last claim left out.
type excepting struct {
	driver.Driver
	except []driver.Kind
}

// Close leaves the store open, which another process uses.
func (s *excepting) Close(context.Context) error { return nil }

func (s *excepting) Claim(ctx context.Context, req driver.ClaimRequest) (driver.Claimed, error) {
	s.except = req.Except
	return s.Driver.Claim(ctx, req)
}

// Each claim left out all types that the process had ever met, also those without jobs.
func TestTypesWithoutJobsWereRememberedForEver(t *testing.T) {
	inMemory(t, noOptions, func(f *fixture) {
		store := &excepting{Driver: f.driver}
		other := newFixture(f.T, f.ctx, func() driver.Driver { return store }, noOptions)
		for i := range 5 {
			f.putAs(amboy.JobType{Name: fmt.Sprint("other-", i), Version: 1}, fmt.Sprint(i), `1`)
		}
		require.Empty(f, other.lease(5))
		require.Empty(f, other.lease(5))
		assert.Len(f, store.except, 5)
		req := request()
		req.Types, req.Limit = []string{"other-0", "other-1", "other-2", "other-3"}, 5
		jobs, err := f.dispatcher.Lease(f.ctx, req)
		require.NoError(f, err)
		require.Len(f, jobs, 4)
		for _, j := range jobs {
			require.NoError(f, f.complete(j, ""))
		}

		time.Sleep(2 * time.Hour)
		for range 2 {
			require.Empty(f, other.lease(5))
		}
		assert.Equal(f, []driver.Kind{{Type: "other-4", Version: 1}}, store.except)
		other.close()
	})
}
