package queue_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue"
	"github.com/mongodb/amboy/queue/driver"
)

// TestManyLocalRunsEnd runs more jobs at a time than the queue finds without its lock.
// Each can still be canceled, or completed by another caller.
func TestManyLocalRunsEnd(t *testing.T) {
	const jobs = 300
	for name, test := range map[string]struct {
		end   func(a administered, j amboy.Job)
		cause error
	}{
		"canceled": {func(a administered, j amboy.Job) {
			assert.Equal(a.t, driver.Acted{Done: 1}, a.act(a.jobs(j.ID()), driver.Action{Kind: driver.Cancel}))
		}, amboy.ErrAborted},
		"completed": {func(a administered, j amboy.Job) {
			assert.NoError(a.t, a.queue.Complete(a.t.Context(), j))
		}, amboy.ErrLeaseLost},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q, err := queue.NewLocal(queue.LocalOptions{NumWorkers: jobs})
				require.NoError(t, err)
				defer q.Close(context.Background())
				a := administer(t, q)
				causes := make([]error, jobs)
				all := make([]*funcJob, jobs)
				for i := range all {
					all[i] = newJob(t, fmt.Sprintf("job %d", i), func(ctx context.Context, _ *funcJob) {
						<-ctx.Done()
						causes[i] = context.Cause(ctx)
					})
					put(t, q, all[i])
				}
				synctest.Wait()
				for i, j := range all {
					test.end(a, j)
					synctest.Wait()
					require.ErrorIs(t, causes[i], test.cause)
				}
				assert.Equal(t, 0, q.Stats(t.Context()).Running)
			})
		})
	}
}

// TestLocalRunThatIsCanceledAsItBegins cancels each of many jobs at about the time when a
// worker takes it. The job must end whichever comes first.
func TestLocalRunThatIsCanceledAsItBegins(t *testing.T) {
	q, err := queue.NewLocal(queue.LocalOptions{NumWorkers: 2})
	require.NoError(t, err)
	defer q.Close(context.Background())
	a := administer(t, q)
	untilCanceled := func(ctx context.Context, j *funcJob) {
		<-ctx.Done()
		j.AddError(context.Cause(ctx))
	}
	for i := range 300 {
		j := newJob(t, fmt.Sprintf("job %d", i), untilCanceled)
		put(t, q, j)
		require.Equal(t, driver.Acted{Done: 1}, a.act(a.jobs(j.ID()), driver.Action{Kind: driver.Cancel}))
		require.True(t, amboy.WaitJob(within(t), j, q))
		require.Equal(t, amboy.StateCanceled, infoOf(t, q, j.ID()).State)
	}
}
