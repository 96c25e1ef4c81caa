package outside_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/job"
	"github.com/mongodb/amboy/outside"
	"github.com/mongodb/amboy/queue/driver"
)

// vague is a store that does not say which queue has changed, as stores do about changes by other
// processes.
type vague struct {
	driver.Driver
	claims atomic.Int64
}

func (v *vague) Subscribe(notify func(driver.Change)) (cancel func()) {
	return v.Driver.Subscribe(func(c driver.Change) {
		c.InOneQueue, c.Queue = false, ""
		notify(c)
	})
}

func (v *vague) Claim(ctx context.Context, req driver.ClaimRequest) (driver.Claimed, error) {
	v.claims.Add(1)
	return v.Driver.Claim(ctx, req)
}

// Each change in any queue made the workers of every queue ask the store.
func TestWorkersOfIdleQueuesAskedTheStoreAfterEachChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const queues, last = 100, 10 // the last queue that gets a job
		store := &vague{Driver: stores["memory"](t)()}
		f := newFixture(t, t.Context(), func() driver.Driver { return store }, noOptions)
		var workers sync.WaitGroup
		leased := make([]time.Time, queues)
		for i := range queues {
			workers.Go(func() {
				req := request()
				req.Queues, req.Wait = []string{fmt.Sprint("queue-", i)}, outside.MaxWait
				jobs, err := f.dispatcher.Lease(t.Context(), req)
				if i > last {
					assert.ErrorIs(t, err, outside.ErrClosed)
					return
				}
				if assert.NoError(t, err) && assert.Len(t, jobs, 1) {
					leased[i] = time.Now()
				}
			})
		}
		synctest.Wait()
		store.claims.Store(0)
		putIn := func(i int, opts ...job.Option) {
			q, err := f.group.Get(t.Context(), fmt.Sprint("queue-", i))
			require.NoError(t, err)
			j, err := job.NewOutside(jobType, job.Payload{}, opts...)
			require.NoError(t, err)
			require.NoError(t, q.Put(t.Context(), j))
			synctest.Wait()
		}
		begin := time.Now()
		for i := range last {
			putIn(i)
		}
		assert.LessOrEqual(t, store.claims.Load(), int64(20))
		putIn(last, job.At(begin.Add(5*time.Second)))
		time.Sleep(6 * time.Second)
		synctest.Wait()
		for i, at := range leased[:last+1] {
			assert.Equal(t, map[bool]time.Duration{false: 0, true: 5 * time.Second}[i == last], at.Sub(begin), i)
		}
		f.close()
		workers.Wait()
	})
}
