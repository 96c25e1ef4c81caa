package middleware_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/job"
	"github.com/mongodb/amboy/queue"
)

// funcJob runs a function.
type funcJob struct {
	job.Base
	run func(context.Context, *funcJob)
}

func (j *funcJob) Run(ctx context.Context) {
	if j.run != nil {
		j.run(ctx, j)
	}
}

// newJob makes a job with up to two attempts.
func newJob(id string, run func(context.Context, *funcJob)) *funcJob {
	j := &funcJob{run: run}
	j.SetID(id)
	j.SetType(amboy.JobType{Name: "func", Version: 1})
	j.UpdateRetryInfo(amboy.JobRetryOptions{Retryable: new(true), MaxAttempts: new(2)})
	return j
}

// runAll runs jobs in a queue with middleware, one at a time, and returns after all have
// ended.
func runAll(t *testing.T, mw []amboy.Middleware, jobs ...amboy.Job) {
	t.Helper()
	q, err := queue.NewLocal(queue.LocalOptions{NumWorkers: 1, Middleware: mw})
	require.NoError(t, err)
	require.NoError(t, q.Start(t.Context()))
	defer q.Close(context.Background())
	require.NoError(t, q.PutMany(t.Context(), jobs))
	require.True(t, amboy.Wait(t.Context(), q))
}
