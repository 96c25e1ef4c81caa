package queue_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/codec"
	"github.com/mongodb/amboy/internal/mongotest"
	"github.com/mongodb/amboy/job"
	"github.com/mongodb/amboy/queue"
)

var leave100 = job.DefineResult("leave-100", 1, func(context.Context, int) (string, error) {
	return strings.Repeat("x", 100), nil
}, job.Defaults[int]{})

// distant returns a deployment that answers each command after a time, as one on a network
// does. Engines wait for as many workers as they can only if calls take time.
func distant(t *testing.T) *mongotest.Deployment {
	t.Helper()
	d := mongotest.Open(t, mongotest.InMemory())
	d.Server().Intercept(func(mongotest.Intercepted) mongotest.Fate {
		time.Sleep(2 * time.Millisecond)
		return mongotest.Served
	})
	return d
}

// TestMongoDBCostsOfADrain counts what the stand-in pays for jobs that wait when 64 workers
// start. With -v it prints a table of the costs.
func TestMongoDBCostsOfADrain(t *testing.T) {
	const workers, keys = 64, 8.0
	putRuns := func(t *testing.T, q amboy.Queue, jobs int) <-chan struct{} {
		t.Helper()
		run, done := countdown(jobs)
		require.NoError(t, q.PutMany(t.Context(), runsOf(t, jobs, "job", run)))
		return done
	}
	for _, test := range []struct {
		name                          string
		jobs                          int
		put                           func(t *testing.T, q amboy.Queue, jobs int) (done <-chan struct{})
		statements, outside, commands float64
		codec                         codec.Codec
	}{
		{
			name: "plain jobs", jobs: fullOr(10_000, 1000),
			put:        putRuns,
			statements: 0.05, outside: 0.1, commands: 0.07,
		},
		{
			name: "encrypted jobs", jobs: fullOr(10_000, 1000),
			put:        putRuns,
			statements: 0.05, outside: 0.1, commands: 0.07,
			codec: encrypting(t, "key"),
		},
		{
			name: "jobs with results of 100 bytes", jobs: fullOr(10_000, 500),
			put: func(t *testing.T, q amboy.Queue, jobs int) <-chan struct{} {
				all := make([]amboy.Job, jobs)
				for i := range all {
					var err error
					all[i], err = leave100.New(i, job.ID(fmt.Sprint(i)))
					require.NoError(t, err)
				}
				require.NoError(t, q.PutMany(t.Context(), all))
				return nil
			},
			statements: 1.05, outside: 0.1, commands: 1,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := distant(t)
				q := onMongoDB(t, d, workers, func(o *queue.MongoDBOptions) { o.Codec = test.codec })
				done := test.put(t, q, test.jobs)
				d.Server().ResetCosts()
				require.NoError(t, q.Start(t.Context()))
				if done != nil {
					<-done
				}
				require.True(t, amboy.Wait(day(t), q))
				costs := d.Server().Costs()
				each := func(n int64) float64 { return float64(n) / float64(test.jobs) }
				jobs := costs.Writes["queue.jobs"]
				t.Logf("for each of %d jobs: %.3f update statements, %.1f index keys, %.3f documents outside the jobs, %.3f commands\n%s",
					test.jobs, each(costs.Statements()), each(jobs.AllKeys()), each(costs.Outside("queue.jobs")), each(costs.Sent()), costs)
				assert.LessOrEqual(t, each(costs.Statements()), test.statements)
				assert.LessOrEqual(t, each(jobs.AllKeys()), keys)
				assert.LessOrEqual(t, each(costs.Outside("queue.jobs")), test.outside)
				assert.LessOrEqual(t, each(costs.Sent()), test.commands)
			})
		})
	}
}

// TestMongoDBCostsOfRetries has jobs that a process left retrying when it died.
func TestMongoDBCostsOfRetries(t *testing.T) {
	const workers, most = 64, 120
	jobs := fullOr(1000, 1000)
	synctest.Test(t, func(t *testing.T) {
		d := distant(t)
		q := onMongoDB(t, d, workers, nil)
		run, done := countdown(jobs)
		all := runsOf(t, jobs, "job", run)
		for _, j := range all {
			j.UpdateRetryInfo(amboy.JobRetryOptions{Retryable: new(true), NeedsRetry: new(true), MaxAttempts: new(3)})
			status := j.Status()
			status.Completed, status.ModificationTime = true, time.Now()
			j.SetStatus(status)
		}
		require.NoError(t, q.PutMany(t.Context(), all))
		require.Equal(t, jobs, q.Stats(t.Context()).Retrying)
		d.Server().ResetCosts()
		require.NoError(t, q.Start(t.Context()))
		<-done
		require.True(t, amboy.Wait(day(t), q))
		costs := d.Server().Costs()
		t.Logf("%d commands\n%s", costs.Sent(), costs)
		assert.LessOrEqual(t, costs.Sent(), int64(most))
	})
}
