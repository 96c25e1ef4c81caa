package queue_test

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
	"github.com/mongodb/amboy/queue"
)

// savingQueue is a queue of another package.
type savingQueue struct {
	amboy.Queue
	saved []amboy.JobStatusInfo
	fail  error
}

func (q *savingQueue) ID() string { return "saving" }

func (q *savingQueue) Info() amboy.QueueInfo { return amboy.QueueInfo{LockTimeout: time.Minute} }

func (q *savingQueue) Save(_ context.Context, j amboy.Job) error {
	q.saved = append(q.saved, j.Status())
	return q.fail
}

func TestDispatcherKeepsTheLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &savingQueue{}
		d := queue.NewDispatcher(q)
		j := noop(t, "one")
		require.NoError(t, d.Dispatch(t.Context(), j))
		require.Error(t, d.Dispatch(t.Context(), j), "a job that is already dispatched")
		assert.True(t, q.saved[0].InProgress)
		assert.Equal(t, "saving", q.saved[0].Owner)

		time.Sleep(time.Hour)
		synctest.Wait()
		assert.Less(t, time.Since(j.Status().ModificationTime), time.Minute)
		require.Error(t, j.Lock("thief", time.Minute))

		d.Complete(t.Context(), j)
		time.Sleep(time.Hour)
		synctest.Wait()
		assert.GreaterOrEqual(t, time.Since(j.Status().ModificationTime), time.Hour)
		require.NoError(t, d.Close(t.Context()))
		require.ErrorIs(t, d.Dispatch(t.Context(), noop(t, "two")), amboy.ErrQueueClosed)
	})
}

func TestDispatcherReleases(t *testing.T) {
	q := &savingQueue{}
	d := queue.NewDispatcher(q)
	one, two := noop(t, "one"), noop(t, "two")
	require.NoError(t, d.Dispatch(t.Context(), one))
	require.NoError(t, d.Dispatch(t.Context(), two))
	d.Release(t.Context(), one)
	d.Release(t.Context(), one)
	assert.Empty(t, one.Status().Owner)
	assert.False(t, one.Status().InProgress)
	require.NoError(t, d.Close(t.Context()))
	assert.Empty(t, two.Status().Owner)
	assert.Len(t, q.saved, 4)
}

func TestDispatcherRefuses(t *testing.T) {
	q := &savingQueue{fail: errors.New("disk full")}
	d := queue.NewDispatcher(q)
	j := noop(t, "one")
	require.ErrorIs(t, d.Dispatch(t.Context(), j), q.fail)
	assert.Empty(t, j.Status().Owner, "the lock of a job that could not be saved is released")
	var invalid *amboy.InvalidJobError
	require.ErrorAs(t, d.Dispatch(t.Context(), nil), &invalid)
	require.NoError(t, d.Close(t.Context()))
}

// Its lock was not renewed any more, so that it could run a second time.
func TestAJobThatWasDispatchedWhileItsDispatcherClosedStayedLocked(t *testing.T) {
	q := &savingQueue{}
	d := queue.NewDispatcher(q)
	j := &lockHook{funcJob: noop(t, "one"), onLock: func() { assert.NoError(t, d.Close(t.Context())) }}
	require.ErrorIs(t, d.Dispatch(t.Context(), j), amboy.ErrQueueClosed)
	assert.Empty(t, j.Status().Owner)
	assert.False(t, q.saved[len(q.saved)-1].InProgress)
}

// The locks of the others ran out, so that they could run a second time.
func TestALockThatBlocksKeptOtherLocksFromBeingRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := queue.NewDispatcher(&savingQueue{})
		release := make(chan struct{})
		var blocks atomic.Bool
		stuck := &lockHook{funcJob: noop(t, "stuck"), onLock: func() {
			if blocks.Load() {
				<-release
			}
		}}
		other := noop(t, "other")
		require.NoError(t, d.Dispatch(t.Context(), stuck))
		require.NoError(t, d.Dispatch(t.Context(), other))
		blocks.Store(true)
		time.Sleep(time.Hour)
		synctest.Wait()
		assert.Less(t, time.Since(other.Status().ModificationTime), time.Minute)

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorIs(t, d.Close(ctx), context.DeadlineExceeded)
		close(release)
		require.NoError(t, d.Close(t.Context()))
	})
}

// lockHook is a job that calls a function before it is locked.
type lockHook struct {
	*funcJob
	onLock func()
}

func (j *lockHook) Lock(owner string, timeout time.Duration) error {
	j.onLock()
	return j.funcJob.Lock(owner, timeout)
}
