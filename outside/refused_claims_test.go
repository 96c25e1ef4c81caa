package outside_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/outside"
	"github.com/mongodb/amboy/queue/driver"
)

// refusing is a store that refuses the claims of a worker, as PostgreSQL does if its name has a zero byte.
type refusing struct{ driver.Driver }

var errRefused = errors.New("the store refuses this worker")

func (s refusing) Claim(ctx context.Context, req driver.ClaimRequest) (driver.Claimed, error) {
	if strings.HasSuffix(req.Owner, "/refused") {
		return driver.Claimed{}, errRefused
	}
	return s.Driver.Claim(ctx, req)
}

// The worker stayed the first of its line, so that the others got nothing for as long as it waited.
func TestAWorkerWhoseClaimsFailKeptJobsFromTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := refusing{stores["memory"](t)()}
		f := newFixture(t, t.Context(), func() driver.Driver { return store }, noOptions)
		first, leave := context.WithCancel(t.Context())
		var waiting sync.WaitGroup
		waiting.Go(func() { // it makes the line, and leaves
			req := request()
			req.Wait = time.Minute
			_, err := f.dispatcher.Lease(first, req)
			assert.ErrorIs(t, err, context.Canceled)
		})
		synctest.Wait()
		waiting.Go(func() {
			req := request()
			req.Worker, req.Wait = "refused", 10*time.Minute
			_, err := f.dispatcher.Lease(t.Context(), req)
			assert.ErrorIs(t, err, errRefused)
		})
		synctest.Wait()
		leave()
		var got []outside.Job
		began := time.Now()
		waiting.Go(func() {
			got = append(got, f.leaseOne())
			assert.LessOrEqual(t, time.Since(began), 3*time.Second)
		})
		synctest.Wait()
		f.put("a", `1`)
		waiting.Wait()
		require.Equal(t, []string{"a"}, ids(got))
		f.close()
	})
}

func TestTheNameOfAWorkerHasNoZeroBytes(t *testing.T) {
	onEach(t, func(f *fixture) {
		f.put("a", `1`)
		req := request()
		req.Worker = "a\x00b"
		_, err := f.dispatcher.Lease(f.ctx, req)
		var invalid *outside.InvalidError
		require.ErrorAs(f, err, &invalid)
		assert.Equal(f, "worker", invalid.Field)
	})
}
