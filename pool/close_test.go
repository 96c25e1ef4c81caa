package pool_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
)

// closeLimit is how long Close may take after the end of its context.
const closeLimit = time.Second

// closeWithin closes a runner with a deadline of patience, and returns how much longer
// Close took.
func closeWithin(t *testing.T, r amboy.Runner, patience time.Duration) time.Duration {
	t.Helper()
	begin := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	r.Close(ctx)
	return time.Since(begin) - patience
}

// leftBehind returns the jobs that a runner reports as left behind.
func leftBehind(t *testing.T, r amboy.Runner) []string {
	t.Helper()
	require.Implements(t, (*amboy.CloseReporter)(nil), r)
	return r.(amboy.CloseReporter).LeftBehind()
}

// TestCloseWaitedForAJobThatNeverReturns runs three jobs, of which one ends in time.
func TestCloseWaitedForAJobThatNeverReturns(t *testing.T) {
	forEachPool(t, func(t *testing.T, makePool func(int, amboy.Queue) amboy.Runner) {
		q := releasingQueue{newFakeQueue()}
		end := make(chan struct{})
		q.put(2, ignoring(end))
		q.jobs <- newJob("heeds its context", untilCanceled)
		r := makePool(3, q)
		require.NoError(t, r.Start(t.Context()))
		time.Sleep(time.Minute)
		require.Empty(t, leftBehind(t, r), "not closed yet")

		took := closeWithin(t, r, 2*time.Second)
		assert.Less(t, took, closeLimit)
		assert.Equal(t, []string{"0", "1"}, leftBehind(t, r))
		assert.Len(t, q.ended, 1, "the queue got no end of the other jobs")
		assert.Less(t, closeWithin(t, r, 0), closeLimit, "closed again")

		close(end)
		synctest.Wait()
		assert.Len(t, q.ended, 3, "a job that returns later is handed back then")
		assert.Zero(t, closeWithin(t, r, 0))
		assert.Empty(t, leftBehind(t, r), "of the last Close")
	})
}

// TestCloseWaitedForAQueueThatCompletesNoJob has some calls of Complete that block until their
// context ends, and some that block for ever.
func TestCloseWaitedForAQueueThatCompletesNoJob(t *testing.T) {
	for name, heeds := range map[string]bool{"and heeds its context": true, "and ignores its context": false} {
		t.Run(name, func(t *testing.T) {
			forEachPool(t, func(t *testing.T, makePool func(int, amboy.Queue) amboy.Runner) {
				q := newFakeQueue()
				heal := make(chan struct{})
				q.onComplete = func(ctx context.Context, _ amboy.Job) error {
					if !heeds {
						<-heal
						return nil
					}
					<-ctx.Done()
					return ctx.Err()
				}
				q.put(1, doNothing)
				q.put(1, untilCanceled)
				r := makePool(2, q)
				require.NoError(t, r.Start(t.Context()))
				time.Sleep(time.Minute)

				assert.Less(t, closeWithin(t, r, time.Second), closeLimit)
				if heeds {
					assert.Empty(t, leftBehind(t, r))
				} else {
					assert.Equal(t, []string{"0", "0"}, leftBehind(t, r))
				}
				close(heal)
			})
		})
	}
}

func TestInlineCloseWaitedForAJobThatNeverReturns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newFakeQueue()
		end := make(chan struct{})
		q.put(1, ignoring(end))
		r := newInline(t, q)
		require.NoError(t, r.Start(t.Context()))
		go r.RunNext(t.Context())
		synctest.Wait()
		assert.Less(t, closeWithin(t, r, time.Second), closeLimit)
		assert.Equal(t, []string{"0"}, leftBehind(t, r))
		close(end)
	})
}
