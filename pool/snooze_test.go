package pool_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/pool"
)

// snoozingQueue takes back jobs that asked to run again later.
type snoozingQueue struct {
	releasingQueue
	snoozed chan time.Time
}

func (q snoozingQueue) Snooze(ctx context.Context, _ amboy.Job, until time.Time) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	q.snoozed <- until
	return nil
}

func TestASnoozedJobIsHandedBack(t *testing.T) {
	forEachPool(t, func(t *testing.T, makePool func(int, amboy.Queue) amboy.Runner) {
		q := snoozingQueue{releasingQueue{newFakeQueue()}, make(chan time.Time, 1)}
		until := time.Now().Add(time.Hour)
		q.put(1, func(_ context.Context, j *funcJob) { j.Snooze(until) })
		start(t, makePool(1, q))
		assert.True(t, until.Equal(<-q.snoozed))
		synctest.Wait()
		assert.Empty(t, q.ended)
	})
}

func TestAJobIsSnoozedAtAHardStopToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := snoozingQueue{releasingQueue{newFakeQueue()}, make(chan time.Time, 1)}
		until := time.Now().Add(time.Hour)
		q.put(1, func(ctx context.Context, j *funcJob) {
			<-ctx.Done()
			j.Snooze(until)
		})
		p := pool.NewLocalWorkers(1, q)
		require.NoError(t, p.Start(t.Context()))
		synctest.Wait()
		stopped, stop := context.WithCancel(t.Context())
		stop()
		p.Close(stopped)
		assert.True(t, until.Equal(<-q.snoozed))
		assert.Empty(t, q.ended)
	})
}

func TestASnoozeThatTheQueueDoesNotSupportIsAnError(t *testing.T) {
	forEachPool(t, func(t *testing.T, makePool func(int, amboy.Queue) amboy.Runner) {
		q := newFakeQueue()
		q.put(1, func(_ context.Context, j *funcJob) { j.Snooze(time.Now().Add(time.Hour)) })
		start(t, makePool(1, q))
		end := <-q.ended
		assert.Equal(t, amboy.StateFailed, end.state)
		require.EqualError(t, end.job.Error(), "the job can't be snoozed: *pool_test.fakeQueue does not support it")
	})
}

// wrappingQueue has middleware.
type wrappingQueue struct {
	*fakeQueue
	run amboy.RunFunc
}

func (wrappingQueue) Use(...amboy.Middleware) error { return amboy.ErrAlreadyStarted }
func (q wrappingQueue) RunFunc() amboy.RunFunc      { return q.run }

func TestJobsRunInTheMiddlewareOfTheirQueue(t *testing.T) {
	forEachPool(t, func(t *testing.T, makePool func(int, amboy.Queue) amboy.Runner) {
		seen := make(chan amboy.Queue, 1)
		q := wrappingQueue{newFakeQueue(), func(ctx context.Context, j amboy.Job) error {
			seen <- amboy.QueueFromContext(ctx)
			return amboy.RunAttempt(ctx, j)
		}}
		q.put(1, doNothing)
		start(t, makePool(1, q))
		assert.Equal(t, q.fakeQueue, (<-seen).(wrappingQueue).fakeQueue)
		assert.Equal(t, amboy.StateSucceeded, (<-q.ended).state)
	})
}
