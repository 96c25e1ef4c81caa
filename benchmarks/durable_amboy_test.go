package benchmarks

import (
	"context"
	"fmt"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/job"
	"github.com/mongodb/amboy/queue"
	"github.com/mongodb/amboy/queue/driver/sqlite"
	"github.com/mongodb/amboy/registry"
)

// storedTask is a job that can be stored, and calls runStored.
type storedTask struct {
	job.Base `bson:"job_base" json:"job_base" yaml:"job_base"`
	// Made is when the job was created, just before its Put, in nanoseconds since 1970.
	Made int64 `bson:"made" json:"made" yaml:"made"`
	// Fails makes each attempt fail.
	Fails bool `bson:"fails,omitempty" json:"fails,omitempty" yaml:"fails,omitempty"`
}

const storedTaskType = "benchmarks-stored-task"

// runStored is the function that stored tasks call. It can't be a field of the task, because
// the task is stored.
var runStored atomic.Pointer[func(*storedTask)]

func init() {
	registry.AddJobType(storedTaskType, func() amboy.Job {
		t := &storedTask{}
		t.SetType(amboy.JobType{Name: storedTaskType})
		return t
	})
}

// newStoredTask returns a job with an ID that is unique across processes.
func newStoredTask() *storedTask {
	t := &storedTask{Made: time.Now().UnixNano()}
	t.SetType(amboy.JobType{Name: storedTaskType})
	t.SetID(fmt.Sprintf("%d-%d", os.Getpid(), job.GetNumber()))
	return t
}

func newStoredTasks(count int) []amboy.Job {
	tasks := make([]amboy.Job, count)
	for i := range tasks {
		tasks[i] = newStoredTask()
	}
	return tasks
}

func (t *storedTask) Run(context.Context) {
	defer t.MarkComplete()
	(*runStored.Load())(t)
	if t.Fails {
		t.AddRetryableError(errFirstAttempt)
	}
}

// sinceMade returns how long ago the task was created, by the clock that processes share.
func (t *storedTask) sinceMade() time.Duration { return time.Duration(time.Now().UnixNano() - t.Made) }

// amboyFile is an amboy queue in a database file.
type amboyFile struct{ amboy.RetryableQueue }

func startAmboyFile(tb testing.TB, setup durableSetup) durableQueue {
	run := func(*storedTask) { setup.run() }
	runStored.Store(&run)
	return amboyFile{start(tb, newAmboyFile(tb, setup.workers, sqlite.Options{Path: setup.path, Synchronous: setup.synchronous}))}
}

// newAmboyFile returns a queue without starting it.
func newAmboyFile(tb testing.TB, workers int, opts sqlite.Options) amboy.RetryableQueue {
	d, err := sqlite.Open(tb.Context(), opts)
	require.NoError(tb, err)
	q, err := queue.NewDriverQueue(queue.DriverQueueOptions{Driver: d, CloseDriver: true, NumWorkers: workers})
	require.NoError(tb, err)
	return q
}

func (q amboyFile) put(ctx context.Context, jobs int) error {
	return q.PutMany(ctx, newStoredTasks(jobs))
}

func (q amboyFile) close() error {
	q.Close(context.Background())
	return nil
}
