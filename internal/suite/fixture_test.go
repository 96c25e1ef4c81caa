package suite_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/amboytest"
	"github.com/mongodb/amboy/job"
	"github.com/mongodb/amboy/registry"
)

// fixture is a test with a store, and helpers for the queues on it.
type fixture struct {
	*testing.T
	kind
	// ctx bounds the test.
	ctx    context.Context
	opened func(options) (amboy.Queue, error)
	// inline is the last opened queue, if its kind is inline.
	inline *amboytest.Queue
}

// patience is when a test in real time hangs. A busy machine takes half a minute for a test with hundreds of jobs.
const patience = 2 * time.Minute

func newFixture(t *testing.T, k kind) *fixture {
	t.Helper()
	ctx := t.Context()
	if !k.faked {
		// In fake time synctest detects a test that hangs, and a test may last for years.
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, patience)
		t.Cleanup(cancel)
	}
	return &fixture{T: t, kind: k, ctx: ctx, opened: k.newStore(t)}
}

// open opens a queue on the store and closes it at the end. If the kind is shared, a
// second queue stands for another process.
func (f *fixture) open(o options) amboy.Queue {
	f.Helper()
	q, err := f.opened(o)
	require.NoError(f, err)
	f.inline, _ = q.(*amboytest.Queue)
	f.Cleanup(func() { q.Close(context.Background()) })
	return q
}

// start opens a queue and starts it.
func (f *fixture) start(o options) amboy.Queue {
	f.Helper()
	q := f.open(o)
	require.NoError(f, q.Start(f.ctx))
	return q
}

// now returns the time by the clock of the queues.
func (f *fixture) now() time.Time {
	if f.inline != nil {
		return f.inline.Now()
	}
	return time.Now()
}

// sleep lets time pass. In fake time everything that is due meanwhile has happened when
// it returns. In real time a test may only wait for a time to come, not for something to
// happen.
func (f *fixture) sleep(d time.Duration) {
	f.Helper()
	if f.inline != nil {
		f.inline.RunFor(f.ctx, d)
		return
	}
	time.Sleep(d)
	if f.faked {
		synctest.Wait()
	}
}

// short is a time that a test can wait for in real time.
const short = 30 * time.Millisecond

// put puts jobs that must be accepted.
func (f *fixture) put(q amboy.Queue, jobs ...amboy.Job) {
	f.Helper()
	require.NoError(f, q.PutMany(f.ctx, jobs))
}

// drain waits until all jobs have ended.
func (f *fixture) drain(q amboy.Queue) {
	f.Helper()
	require.True(f, amboy.Wait(f.ctx, q), "stats: %s", q.Stats(context.Background()))
}

// info describes the latest attempt of a job.
func (f *fixture) info(q amboy.Queue, id string) amboy.JobInfo {
	f.Helper()
	var found *amboy.JobInfo
	for info := range q.JobInfo(f.ctx) {
		if info.ID == id && (found == nil || info.Retry.CurrentAttempt > found.Retry.CurrentAttempt) {
			found = &info
		}
	}
	require.NotNil(f, found, "job %q", id)
	return *found
}

// state returns the state of the latest attempt of a job.
func (f *fixture) state(q amboy.Queue, id string) amboy.JobState {
	f.Helper()
	return f.info(q, id).State
}

// funcJob runs a function of the test that created it. A queue that stores jobs runs a
// copy, so the function is found by a key.
type funcJob struct {
	job.Base `bson:"job_base" json:"job_base"`
	Key      int64 `bson:"key" json:"key"`
	// Note is data that the function may store in the job.
	Note string `bson:"note" json:"note"`
}

var (
	functions sync.Map
	lastKey   atomic.Int64
)

const funcJobType = "suite-func"

func init() {
	registry.AddJobType(funcJobType, func() amboy.Job { return newFuncJob() })
}

func newFuncJob() *funcJob {
	return &funcJob{Base: job.Base{JobType: amboy.JobType{Name: funcJobType, Version: 1}}}
}

func (j *funcJob) Run(ctx context.Context) {
	defer j.MarkComplete()
	if run, ok := functions.Load(j.Key); ok {
		run.(func(context.Context, *funcJob))(ctx, j)
	}
}

// job returns a job that runs a function.
func (f *fixture) job(id string, run func(context.Context, *funcJob)) *funcJob {
	f.Helper()
	j := newFuncJob()
	j.SetID(id)
	j.Key = lastKey.Add(1)
	functions.Store(j.Key, run)
	f.Cleanup(func() { functions.Delete(j.Key) })
	return j
}

// retryable lets a job be retried.
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
