package pool_test

import (
	"context"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/pool"
)

// exitingJob is a job whose Error ends its goroutine once its run has returned.
type exitingJob struct {
	*funcJob
	returned atomic.Bool
}

func (j *exitingJob) Run(ctx context.Context) {
	j.funcJob.Run(ctx)
	j.returned.Store(true)
}

func (j *exitingJob) Error() error {
	if j.returned.Load() {
		runtime.Goexit()
	}
	return j.funcJob.Error()
}

func TestAbortWaitedForEverForAJobThatEndedItsWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newFakeQueue()
		q.jobs <- &exitingJob{funcJob: newJob("exits", untilCanceled)}
		r := pool.NewAbortablePool(1, q)
		start(t, r)
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		err := r.Abort(ctx, "exits")
		require.Error(t, err)
		require.NotErrorIs(t, err, context.DeadlineExceeded)
		require.Empty(t, r.RunningJobs())
	})
}
