package queue_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/job"
	"github.com/mongodb/amboy/queue"
	"github.com/mongodb/amboy/queue/driver/memory"
)

// A worker that does not yet know that it lost its lease can't overwrite the progress or
// the checkpoint of the current owner.
func TestWritesOfARunAreRefusedWhenItsLeaseWasLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, err := memory.New(memory.Options{KeepFinished: 10})
		require.NoError(t, err)
		q, err := queue.NewDriverQueue(queue.DriverQueueOptions{Driver: store, CloseDriver: true, NumWorkers: 1})
		require.NoError(t, err)
		require.NoError(t, q.Start(t.Context()))
		defer q.Close(context.Background())

		var notes []string
		j := newJob(t, "job", func(ctx context.Context, j *funcJob) {
			notes = append(notes, j.Note)
			ctx = job.NewContext(ctx, j)
			j.Note = "checkpoint"
			require.NoError(t, q.Save(ctx, j))
			if len(notes) > 1 {
				return
			}
			loseLeases(ctx, t, store)

			j.Note = "stale"
			require.ErrorIs(t, q.Save(ctx, j), amboy.ErrLeaseLost)
			assert.ErrorIs(t, job.SetProgress(ctx, 0.5, "stale"), amboy.ErrLeaseLost)
		})
		put(t, q, j)
		drain(t, q)
		assert.Equal(t, []string{"", "checkpoint"}, notes)
		assert.Nil(t, infoOf(t, q, "job").Progress)
	})
}

func TestProgressOfAJobThatDoesNotRunHere(t *testing.T) {
	q, err := queue.NewLocalLimitedSizeSerializable(1, 10)
	require.NoError(t, err)
	defer q.Close(context.Background())
	require.NoError(t, q.Start(t.Context()))
	setter := q.(amboy.ProgressSetter)
	require.Error(t, setter.SetProgress(t.Context(), nil, amboy.JobProgress{}))
	j := noop(t, "job")
	assert.ErrorIs(t, setter.SetProgress(t.Context(), j, amboy.JobProgress{}), amboy.ErrLeaseLost)
}
