package amboy_test

import (
	"context"
	"sync"
	"testing"

	"github.com/mongodb/grip"
	"github.com/mongodb/grip/level"
	"github.com/mongodb/grip/message"
	"github.com/mongodb/grip/send"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/job"
)

// testJob is a job that runs a test's function.
type testJob struct {
	job.Base
	run func(ctx context.Context, j *testJob)
}

func newJob(id string) *testJob {
	j := &testJob{}
	j.SetID(id)
	j.SetType(amboy.JobType{Name: "test", Version: 1})
	return j
}

func (j *testJob) Run(ctx context.Context) {
	if j.run != nil {
		j.run(ctx, j)
	}
}

// fakeQueue is a queue whose contents a test sets. Methods that it does not implement
// panic.
type fakeQueue struct {
	amboy.Queue
	id      string
	putErrs map[string]error
	stats   func(ctx context.Context) amboy.QueueStats
	get     func(ctx context.Context, id string) (amboy.Job, bool)
	infos   []amboy.JobInfo
	results []amboy.Job

	mu  sync.Mutex
	put []string
}

func (q *fakeQueue) ID() string { return q.id }

// Put refuses invalid jobs as every queue does, and the jobs in putErrs.
func (q *fakeQueue) Put(ctx context.Context, j amboy.Job) error {
	if err := amboy.ValidateJob(j); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := q.putErrs[j.ID()]; err != nil {
		return err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.put = append(q.put, j.ID())
	return nil
}

func (q *fakeQueue) PutMany(ctx context.Context, jobs []amboy.Job) error {
	var errs []error
	for _, j := range jobs {
		errs = append(errs, q.Put(ctx, j))
	}
	return amboy.CollateWriteErrors(errs)
}

// ids returns the IDs of the jobs that were put, in order.
func (q *fakeQueue) ids() []string {
	q.mu.Lock()
	defer q.mu.Unlock()
	return append([]string{}, q.put...)
}

func (q *fakeQueue) Stats(ctx context.Context) amboy.QueueStats { return q.stats(ctx) }

func (q *fakeQueue) Get(ctx context.Context, id string) (amboy.Job, bool) { return q.get(ctx, id) }

func (q *fakeQueue) JobInfo(ctx context.Context) <-chan amboy.JobInfo { return stream(ctx, q.infos) }

func (q *fakeQueue) Results(ctx context.Context) <-chan amboy.Job { return stream(ctx, q.results) }

// stream sends the items until ctx ends.
func stream[T any](ctx context.Context, items []T) <-chan T {
	out := make(chan T)
	go func() {
		defer close(out)
		for _, item := range items {
			select {
			case out <- item:
			case <-ctx.Done():
				return
			}
		}
	}()
	return out
}

// logEntry is a logged message.
type logEntry struct {
	level  level.Priority
	fields message.Fields
}

// captureLogs captures log messages until the test ends. The function that it returns
// returns what was logged since its last call.
func captureLogs(t *testing.T) func() []logEntry {
	t.Helper()
	previous := grip.GetSender()
	levels := previous.Level()
	sender := send.MakeInternalLogger()
	require.NoError(t, grip.SetSender(sender))
	require.NoError(t, sender.SetLevel(send.LevelInfo{Default: level.Info, Threshold: level.Debug}))
	t.Cleanup(func() {
		require.NoError(t, grip.SetSender(previous))
		require.NoError(t, previous.SetLevel(levels))
	})
	return func() []logEntry {
		var entries []logEntry
		for sender.HasMessage() {
			m := sender.GetMessage()
			fields, ok := m.Message.Raw().(message.Fields)
			require.True(t, ok, "logged %T", m.Message.Raw())
			entries = append(entries, logEntry{level: m.Priority, fields: fields})
		}
		return entries
	}
}
