package sqlite_test

import (
	"context"
	"errors"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/job"
	"github.com/mongodb/amboy/queue"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/sqlite"
	"github.com/mongodb/amboy/registry"
)

// errand is a job that runs a function of its test.
type errand struct {
	job.Base `bson:"job_base"`
	Done     bool   `bson:"done"`
	Filler   string `bson:"filler"`
}

var errands sync.Map

const errandType = "errand"

func init() {
	registry.AddJobType(errandType, func() amboy.Job { return newErrand("") })
}

func newErrand(id string) *errand {
	return &errand{Base: job.Base{Name: id, JobType: amboy.JobType{Name: errandType}}}
}

func (j *errand) Run(ctx context.Context) {
	defer j.MarkComplete()
	run, _ := errands.Load(j.ID())
	run.(func(context.Context, *errand))(ctx, j)
}

func openQueue(t *testing.T, path string) amboy.RetryableQueue {
	t.Helper()
	store, err := sqlite.Open(t.Context(), sqlite.Options{Path: path})
	require.NoError(t, err)
	q, err := queue.NewDriverQueue(queue.DriverQueueOptions{
		Driver: store, CloseDriver: true, Name: "mail", NumWorkers: 4, LockTimeout: time.Minute,
	})
	require.NoError(t, err)
	return q
}

func TestAQueueContinuesAfterARestart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "jobs.db")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()

	interrupted := make(chan struct{})
	errands.Store("interrupted", func(ctx context.Context, _ *errand) {
		close(interrupted)
		<-ctx.Done()
	})
	errands.Store("flaky", func(_ context.Context, j *errand) {
		if j.RetryInfo().CurrentAttempt == 0 {
			j.AddRetryableError(errors.New("once more"))
		}
	})
	errands.Store("last", func(_ context.Context, j *errand) { j.Done = true })

	q := openQueue(t, path)
	flaky, last := newErrand("flaky"), newErrand("last")
	flaky.UpdateRetryInfo(amboy.JobRetryOptions{Retryable: new(true)})
	flaky.SetScopes([]string{"s"})
	flaky.SetEnqueueAllScopes(true)
	require.NoError(t, last.Dependency().AddEdge("interrupted"))
	require.NoError(t, q.PutMany(ctx, []amboy.Job{last, flaky, newErrand("interrupted")}))
	require.NoError(t, q.Start(ctx))
	<-interrupted
	require.True(t, amboy.WaitJob(ctx, flaky, q))
	impatient, now := context.WithCancel(ctx)
	now()
	q.Close(impatient)

	errands.Store("interrupted", func(context.Context, *errand) {})
	q = openQueue(t, path)
	defer q.Close(context.Background())
	assert.Equal(t, 2, q.Stats(ctx).Pending, "the interrupted job was handed back")
	require.NoError(t, q.Start(ctx))
	require.True(t, amboy.Wait(ctx, q))
	got, there := q.Get(ctx, "last")
	require.True(t, there)
	assert.True(t, got.(*errand).Done)
	attempts, err := q.GetAllAttempts(ctx, "flaky")
	require.NoError(t, err)
	assert.Len(t, attempts, 2)
	assert.Equal(t, amboy.QueueStats{Completed: 4, Total: 4}, q.Stats(ctx))
}

func TestAQueueIsWokenByAnotherQueue(t *testing.T) {
	path := filepath.Join(t.TempDir(), "jobs.db")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	ran := make(chan struct{})
	errands.Store("one", func(context.Context, *errand) { close(ran) })

	worker, putter := openQueue(t, path), openQueue(t, path)
	defer worker.Close(context.Background())
	defer putter.Close(context.Background())
	require.NoError(t, worker.Start(ctx))
	require.NoError(t, putter.Put(ctx, newErrand("one")))
	select {
	case <-ran:
	case <-ctx.Done():
		require.Fail(t, "nobody woke the worker")
	}
	require.True(t, amboy.WaitJob(ctx, newErrand("one"), putter))
}

// withoutRetry is a driver whose Retry must not be called.
type withoutRetry struct {
	*sqlite.Driver
	t *testing.T
}

func (d withoutRetry) Retry(ctx context.Context, ended, next *driver.Record) error {
	d.t.Errorf("record %q was replaced by a call of Retry", ended.Name)
	return d.Driver.Retry(ctx, ended, next)
}

func TestTheNextAttemptIsStoredWithTheEndOfTheOneBefore(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	store := open(t, sqlite.Options{Path: newPath(t)})
	q, err := queue.NewDriverQueue(queue.DriverQueueOptions{Driver: withoutRetry{store, t}, Name: "mail", NumWorkers: 4})
	require.NoError(t, err)
	const attempts, backoff = 3, time.Millisecond
	errands.Store("fails", func(_ context.Context, j *errand) {
		j.Done = true
		j.AddRetryableError(errors.New("once more"))
	})
	j := newErrand("fails")
	j.UpdateRetryInfo(amboy.JobRetryOptions{Retryable: new(true), MaxAttempts: new(attempts), WaitUntil: new(backoff)})
	require.NoError(t, q.Start(ctx))
	defer q.Close(context.Background())
	require.NoError(t, q.Put(ctx, j))
	require.True(t, amboy.WaitJob(ctx, j, q))

	all, err := q.GetAllAttempts(ctx, "fails")
	require.NoError(t, err)
	require.Len(t, all, attempts)
	for i, a := range all {
		assert.True(t, a.(*errand).Done, "the fields that the job set are stored")
		assert.GreaterOrEqual(t, len(a.Status().Attempts), i+1)
		if i > 0 {
			assert.Equal(t, all[i-1].TimeInfo().End.Add(backoff), a.TimeInfo().WaitUntil, "the backoff counts from the end")
		}
		assert.False(t, a.RetryInfo().NeedsRetry)
	}
}
