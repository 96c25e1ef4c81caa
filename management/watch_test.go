package management_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/management"
	"github.com/mongodb/amboy/queue"
	"github.com/mongodb/amboy/queue/driver"
)

// Only the time of the store makes a watch slower, and not that of the program that uses it.
func TestAWatchFellBehindAProgramThatTakesASecondForEachResult(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, err := queue.NewDriverQueue(queue.DriverQueueOptions{Driver: newMemory(t), CloseDriver: true, NumWorkers: 1})
		require.NoError(t, err)
		defer q.Close(ended())
		i, err := management.NewInspector(q)
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), 8*time.Second)
		defer cancel()
		results := 0
		for _, err := range i.Watch(ctx, 500*time.Millisecond) {
			require.NoError(t, err)
			results++
			require.NoError(t, q.Put(t.Context(), tonight(fmt.Sprint("job ", results))))
			time.Sleep(time.Second) // fake time
		}
		assert.Equal(t, 6, results, "a second and a half for each")
	})
}

// stalled is a store whose queues can't be read, because the connection is dead without an error.
type stalled struct {
	driver.Driver
	isDead atomic.Bool
}

func (d *stalled) Queues(ctx context.Context, req driver.QueueRequest) ([]driver.QueueInfo, error) {
	if d.isDead.Load() {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return d.Driver.Queues(ctx, req)
}

// All pages and event streams that shared the watch stood still until TCP gave up the connection.
func TestAWatchStoodStillOnADeadConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &stalled{Driver: newMemory(t)}
		q, err := queue.NewDriverQueue(queue.DriverQueueOptions{Driver: d, CloseDriver: true, NumWorkers: 1})
		require.NoError(t, err)
		defer q.Close(ended())
		i, err := management.NewInspector(q)
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		var failure error
		for _, err := range i.Watch(ctx, time.Second) {
			failure = err
			d.isDead.Store(true)
		}
		require.ErrorIs(t, failure, context.DeadlineExceeded)
		assert.NoError(t, ctx.Err())
	})
}
