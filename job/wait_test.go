package job_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/job"
	"github.com/mongodb/amboy/queue"
)

var (
	double = job.DefineResult("wait-double", 1, func(ctx context.Context, n int) (int, error) {
		select {
		case <-time.After(time.Minute):
		case <-ctx.Done():
		}
		if n < 0 {
			return 0, errors.New("negative")
		}
		return 2 * n, nil
	})
	nap = job.Define("wait-nap", 1, func(_ context.Context, d time.Duration) error { time.Sleep(d); return nil })
)

func TestWaitReturnsTheResult(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, err := queue.NewLocalLimitedSizeSerializable(2, 100)
		require.NoError(t, err)
		require.NoError(t, q.Start(t.Context()))
		result, err := double.PutAndWait(t.Context(), q, 21)
		require.NoError(t, err)
		assert.Equal(t, 42, result)
		require.NoError(t, nap.PutAndWait(t.Context(), q, time.Hour, job.ID("nap")))
		require.NoError(t, nap.Wait(t.Context(), q, "nap"))

		_, err = double.PutAndWait(t.Context(), q, -1, job.ID("negative"))
		var failed *job.NoResultError
		require.ErrorAs(t, err, &failed)
		assert.Equal(t, amboy.StateFailed, failed.State)
		require.ErrorContains(t, err, "negative")

		var wrong *job.WrongTypeError
		require.ErrorAs(t, nap.Wait(t.Context(), q, "negative"), &wrong)
		assert.True(t, amboy.IsJobNotFoundError(nap.Wait(t.Context(), q, "none")))

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = double.PutAndWait(ctx, q, 1, job.ID("late"))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		result, err = double.Wait(t.Context(), q, "late")
		require.NoError(t, err)
		assert.Equal(t, 2, result)

		_, err = double.Put(t.Context(), q, 1, job.ID("closed"))
		require.NoError(t, err)
		time.AfterFunc(time.Second, func() {
			closing, stop := context.WithCancel(context.Background())
			stop()
			q.Close(closing)
		})
		_, err = double.Wait(t.Context(), q, "closed")
		require.ErrorIs(t, err, amboy.ErrQueueClosed)
		q.Close(t.Context())
	})
}

// Nothing waits in a queue.Inline, whose time is controlled by its user.
func TestWaitForAJobOfAPausedInlineQueueSaidThatTheQueueWasClosed(t *testing.T) {
	q := inline()
	require.NoError(t, q.Pause(t.Context()))
	err := nap.PutAndWait(t.Context(), q, 0, job.ID("nap"))
	var none *job.NoResultError
	require.ErrorAs(t, err, &none)
	assert.Equal(t, amboy.StatePending, none.State)
	q.Close(t.Context())
	require.ErrorIs(t, nap.Wait(t.Context(), q, "nap"), amboy.ErrQueueClosed)
}
