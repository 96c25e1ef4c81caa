package queue_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/job"
	"github.com/mongodb/amboy/queue"
	"github.com/mongodb/amboy/registry"
)

// kinds are the local queues. Tests of their common behavior run on each.
var kinds = map[string]func(t *testing.T, workers, capacity int) amboy.Queue{
	"local": func(_ *testing.T, workers, capacity int) amboy.Queue {
		return queue.NewLocalLimitedSize(workers, capacity)
	},
	"serializable": func(t *testing.T, workers, capacity int) amboy.Queue {
		q, err := queue.NewLocalLimitedSizeSerializable(workers, capacity)
		require.NoError(t, err)
		return q
	},
}

// onEach runs a test on a started queue of each kind.
func onEach(t *testing.T, workers, capacity int, test func(t *testing.T, q amboy.Queue)) {
	t.Helper()
	for name, build := range kinds {
		t.Run(name, func(t *testing.T) {
			q := build(t, workers, capacity)
			require.NoError(t, q.Start(t.Context()))
			defer q.Close(context.Background())
			test(t, q)
		})
	}
}

// onEachFaked is onEach with one worker, in a bubble.
func onEachFaked(t *testing.T, capacity int, test func(t *testing.T, q amboy.Queue)) {
	t.Helper()
	for name, build := range kinds {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := build(t, 1, capacity)
				require.NoError(t, q.Start(t.Context()))
				defer q.Close(context.Background())
				test(t, q)
			})
		})
	}
}

// funcJob runs a function of the test that made it. A queue that stores jobs runs a copy,
// so the function is looked up by a key.
type funcJob struct {
	job.Base `bson:"job_base" json:"job_base"`
	Key      int64 `bson:"key" json:"key"`
	// Note is where the function may leave a result.
	Note string `bson:"note" json:"note"`
}

var (
	functions sync.Map
	lastKey   atomic.Int64
)

const funcJobType = "func"

func init() {
	registry.AddJobType(funcJobType, func() amboy.Job { return newFuncJob() })
}

func newFuncJob() *funcJob {
	j := &funcJob{}
	j.JobType = amboy.JobType{Name: funcJobType, Version: 1}
	return j
}

func (j *funcJob) Run(ctx context.Context) {
	defer j.MarkComplete()
	if run, ok := functions.Load(j.Key); ok {
		run.(func(context.Context, *funcJob))(ctx, j)
	}
}

// newJob returns a job that runs a function.
func newJob(t *testing.T, id string, run func(context.Context, *funcJob)) *funcJob {
	t.Helper()
	j := newFuncJob()
	j.SetID(id)
	j.Key = lastKey.Add(1)
	functions.Store(j.Key, run)
	t.Cleanup(func() { functions.Delete(j.Key) })
	return j
}

// noop returns a job that does nothing.
func noop(t *testing.T, id string) *funcJob {
	t.Helper()
	return newJob(t, id, func(context.Context, *funcJob) {})
}

// retryable makes a job retryable.
func retryable(j *funcJob, attempts int) *funcJob {
	j.UpdateRetryInfo(amboy.JobRetryOptions{Retryable: new(true), MaxAttempts: &attempts})
	return j
}

// journal records the order of events.
type journal struct {
	mu     sync.Mutex
	events []string
}

func (r *journal) add(event string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, event)
}

func (r *journal) all() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]string(nil), r.events...)
}

// recorded returns a job that records its ID when it runs.
func recorded(t *testing.T, r *journal, id string) *funcJob {
	t.Helper()
	return newJob(t, id, func(context.Context, *funcJob) { r.add(id) })
}

// holder returns a job that runs until it is released, and a channel that is closed when
// it starts.
func holder(t *testing.T, id string) (j *funcJob, started <-chan struct{}, release func()) {
	t.Helper()
	running, done := make(chan struct{}), make(chan struct{})
	j = newJob(t, id, func(ctx context.Context, _ *funcJob) {
		close(running)
		select {
		case <-done:
		case <-ctx.Done():
		}
	})
	return j, running, sync.OnceFunc(func() { close(done) })
}

// within returns a context for an operation that should return soon.
func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func put(t *testing.T, q amboy.Queue, jobs ...amboy.Job) {
	t.Helper()
	for _, j := range jobs {
		require.NoError(t, q.Put(within(t), j))
	}
}

func drain(t *testing.T, q amboy.Queue) {
	t.Helper()
	require.True(t, amboy.Wait(within(t), q), "stats: %s", q.Stats(context.Background()))
}

// jobOf returns a job of a queue, as Get returns it.
func jobOf(t *testing.T, q amboy.Queue, id string) amboy.Job {
	t.Helper()
	j, ok := q.Get(t.Context(), id)
	require.True(t, ok, "job %q", id)
	return j
}

// infoOf returns the info of a job of a queue.
func infoOf(t *testing.T, q amboy.Queue, id string) amboy.JobInfo {
	t.Helper()
	var found *amboy.JobInfo
	for info := range q.JobInfo(within(t)) {
		if info.ID == id {
			found = &info
		}
	}
	require.NotNil(t, found, "job %q", id)
	return *found
}

func ids(prefix string, n int) []string {
	var all []string
	for i := range n {
		all = append(all, fmt.Sprint(prefix, i))
	}
	return all
}
