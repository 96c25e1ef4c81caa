package batch_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/job"
	"github.com/mongodb/amboy/queue"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/memory"
)

var runsOfFlaky atomic.Int64

// flaky fails in its first run, and takes an hour for others.
var flaky = job.Define("batch-flaky", 1, func(ctx context.Context, _ string) error {
	if runsOfFlaky.Add(1) == 1 {
		return errors.New("not yet")
	}
	select {
	case <-time.After(time.Hour):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
})

// queuesInMemory are a queue that holds jobs by reference and one that stores them.
var queuesInMemory = map[string]func() (amboy.Queue, error){
	"local": func() (amboy.Queue, error) {
		return queue.NewLocal(queue.LocalOptions{NumWorkers: 1, KeepFinished: 10})
	},
	"memory": func() (amboy.Queue, error) {
		store, err := memory.New(memory.Options{KeepFinished: 10})
		if err != nil {
			return nil, err
		}
		return queue.NewDriverQueue(queue.DriverQueueOptions{Driver: store, CloseDriver: true, NumWorkers: 1})
	},
}

func TestWaitReturnedWhileAJobThatAnOperatorRetriedAfterTheBatchRan(t *testing.T) {
	for name, build := range queuesInMemory {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				runsOfFlaky.Store(0)
				q, err := build()
				require.NoError(t, err)
				require.NoError(t, q.Start(t.Context()))
				defer q.Close(context.Background())
				b := newBatch(t, "import")
				j, err := flaky.New("", job.ID("flaky"))
				require.NoError(t, err)
				require.NoError(t, b.Add(j, newJob(t, "good")))
				h, err := b.Put(t.Context(), q)
				require.NoError(t, err)
				progress, err := h.Wait(t.Context())
				require.NoError(t, err)
				require.Equal(t, 1, progress.States[amboy.StateFailed])

				store, ok := queue.StoreOf(q)
				require.True(t, ok)
				_, err = store.Admin().Act(t.Context(), driver.ActRequest{Action: driver.Action{Kind: driver.Restart}, Limit: 10})
				require.NoError(t, err)
				begun := time.Now()
				progress, err = h.Wait(t.Context())
				require.NoError(t, err)
				assert.Equal(t, time.Hour, time.Since(begun).Truncate(time.Minute))
				assert.Equal(t, 2, progress.States[amboy.StateSucceeded])
			})
		})
	}
}
