package pool_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/pool"
)

func newInline(t *testing.T, q amboy.Queue) *pool.Inline {
	t.Helper()
	r := pool.NewInline()
	require.NoError(t, r.SetQueue(q))
	return r
}

func TestInlineRunsOneJobPerCall(t *testing.T) {
	q := newFakeQueue()
	q.put(2, doNothing)
	r := newInline(t, q)
	assert.False(t, r.RunNext(t.Context()), "it has not started")
	start(t, r)
	assert.True(t, r.Started())
	require.NoError(t, r.Start(canceledContext()), "a second Start has no effect")

	require.Empty(t, q.ended, "it runs nothing by itself")
	assert.True(t, r.RunNext(t.Context()))
	assert.Equal(t, "0", (<-q.ended).job.ID())
	assert.True(t, r.RunNext(t.Context()))
	assert.Equal(t, "1", (<-q.ended).job.ID())
	assert.False(t, r.RunNext(canceledContext()), "no job is left")
}

func TestInlineSurvivesAPanic(t *testing.T) {
	q := newFakeQueue()
	q.put(1, func(context.Context, *funcJob) { panic("of the job") })
	r := newInline(t, q)
	start(t, r)
	assert.True(t, r.RunNext(t.Context()))
	assert.Equal(t, amboy.StateFailed, (<-q.ended).state)
}

func TestInlineCloses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newFakeQueue()
		end := make(chan struct{})
		q.put(2, ignoring(end))
		r := newInline(t, q)
		require.NoError(t, r.Start(t.Context()))
		go r.RunNext(t.Context())
		synctest.Wait()

		closed := make(chan struct{})
		go func() {
			r.Close(context.Background())
			close(closed)
		}()
		synctest.Wait()
		select {
		case <-closed:
			require.Fail(t, "Close waits for the job that runs")
		default:
		}
		assert.False(t, r.RunNext(t.Context()), "the runner is closing")
		close(end)
		<-closed
		r.Close(context.Background())
		assert.Len(t, q.jobs, 1)
	})
}

func TestInlineHandsBackAnInterruptedJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := releasingQueue{newFakeQueue()}
		q.put(1, untilCanceled)
		r := newInline(t, q)
		require.NoError(t, r.Start(t.Context()))
		go r.RunNext(t.Context())
		synctest.Wait()
		r.Close(canceledContext())
		assert.True(t, (<-q.ended).released)
	})
}
