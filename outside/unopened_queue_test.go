package outside_test

import (
	"context"
	"encoding/json"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/outsidetest"
	"github.com/mongodb/amboy/job"
	"github.com/mongodb/amboy/outside"
	"github.com/mongodb/amboy/queue"
	"github.com/mongodb/amboy/queue/driver"
)

// limitedClaims is a driver that counts claims, and refuses them when there are far too many.
type limitedClaims struct {
	driver.Driver
	claims atomic.Int64
}

func (d *limitedClaims) Claim(ctx context.Context, req driver.ClaimRequest) (driver.Claimed, error) {
	if d.claims.Add(1) > 10_000 {
		return driver.Claimed{}, errors.New("too many claims")
	}
	return d.Driver.Claim(ctx, req)
}

// Each claim handed the job back at once, which was a change after which it was claimed again.
func TestAJobWhoseQueueCannotBeOpenedWasClaimedWithoutAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &limitedClaims{Driver: outsidetest.Memory(t)}
		var broken atomic.Bool
		group, err := queue.NewDriverGroup(t.Context(), queue.DriverGroupOptions{
			DefaultQueue: queue.DriverQueueOptions{Driver: store, NumWorkers: 1},
			TTL:          time.Minute,
			MiddlewareFor: func(string) []amboy.Middleware {
				if broken.Load() {
					panic("the queue can't be opened")
				}
				return nil
			},
		})
		require.NoError(t, err)
		defer func() { assert.NoError(t, group.Close(context.Background())) }()
		d, err := outside.NewGroup(group, noOptions)
		require.NoError(t, err)
		defer func() { assert.NoError(t, d.Close(context.Background())) }()
		q, err := group.Get(t.Context(), queueName)
		require.NoError(t, err)
		j, err := job.NewOutside(jobType, job.Payload{JSON: json.RawMessage("{}")}, job.ID("one"), job.At(time.Now().Add(time.Hour)))
		require.NoError(t, err)
		require.NoError(t, q.Put(t.Context(), j))
		time.Sleep(30 * time.Minute)
		synctest.Wait()
		require.Zero(t, group.Len(), "the queue was pruned")

		broken.Store(true)
		time.Sleep(time.Hour)
		store.claims.Store(0)
		req := outside.LeaseRequest{Queues: []string{queueName}, Types: []string{typeName}, Wait: time.Minute}
		leased, err := d.Lease(t.Context(), req)
		require.NoError(t, err)
		assert.Empty(t, leased)
		assert.Less(t, store.claims.Load(), int64(200))
		broken.Store(false)
		leased, err = d.Lease(t.Context(), req)
		require.NoError(t, err)
		assert.Len(t, leased, 1)
	})
}
