package queue_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mongodb/grip"
	"github.com/mongodb/grip/level"
	"github.com/mongodb/grip/message"
	"github.com/mongodb/grip/send"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/job"
	"github.com/mongodb/amboy/queue"
	"github.com/mongodb/amboy/queue/driver/memory"
)

// logged returns what is logged while a function runs, except debug messages: each line has
// the level and some of the fields.
func logged(t *testing.T, do func(), names ...string) (lines []string) {
	t.Helper()
	before := grip.GetSender()
	recorder := send.MakeInternalLogger()
	require.NoError(t, grip.SetSender(recorder))
	require.NoError(t, recorder.SetLevel(send.LevelInfo{Default: level.Info, Threshold: level.Info}))
	defer func() { require.NoError(t, grip.SetSender(before)) }()
	do()
	for recorder.HasMessage() {
		m := recorder.GetMessage()
		fields, ok := m.Message.Raw().(message.Fields)
		require.True(t, ok, m.Rendered)
		line := m.Priority.String()
		for _, name := range names {
			line += fmt.Sprint("|", fields[name])
		}
		lines = append(lines, line)
	}
	return lines
}

// A failed attempt with another to come, and an operator's cancel, were logged as errors, and
// a dependent that failed without running was not logged, under the ID of the queue. A cancel was logged as two warnings,
// and attempts were counted from 0, as on no page.
func TestLogOfFailuresCriedWolf(t *testing.T) {
	store, err := memory.New(memory.Options{KeepFinished: 100})
	require.NoError(t, err)
	stored, err := queue.NewDriverQueue(queue.DriverQueueOptions{Driver: store, CloseDriver: true, Name: "acme", NumWorkers: 1})
	require.NoError(t, err)
	local, err := queue.NewLocal(queue.LocalOptions{NumWorkers: 1, PutBeforeStart: true})
	require.NoError(t, err)
	for name, q := range map[string]amboy.Queue{"acme": stored, amboy.NameOf(local): local} {
		lines := logged(t, func() {
			defer q.Close(context.Background())
			flaky := retryable(newJob(t, "flaky", func(_ context.Context, j *funcJob) { j.AddRetryableError(errors.New("no")) }), 2)
			dependent := noop(t, "dependent")
			require.NoError(t, dependent.Dependency().AddEdge("flaky"))
			running := make(chan struct{})
			stopped := newJob(t, "stopped", func(ctx context.Context, j *funcJob) {
				close(running)
				<-ctx.Done()
				j.AddError(context.Cause(ctx))
			})
			require.NoError(t, q.PutMany(t.Context(), []amboy.Job{flaky, dependent}))
			require.NoError(t, q.Start(t.Context()))
			drain(t, q)
			require.NoError(t, q.Put(t.Context(), stopped))
			<-running
			jobs, ok := queue.StoreOf(q)
			require.True(t, ok)
			cancelJob(t, jobs.Admin(), "stopped")
			drain(t, q)
		}, "message", "queue", "job_id", "attempt", "outcome")
		assert.Equal(t, []string{
			"warning|job failed and will be retried|" + name + "|flaky|1|retrying",
			"error|job failed|" + name + "|flaky|2|failed",
			"warning|job failed without running|" + name + "|dependent|<nil>|<nil>",
			"warning|job canceled|" + name + "|stopped|1|canceled",
		}, lines)
	}
}

// newAcme returns a queue with one worker that is named acme.
func newAcme(t *testing.T) amboy.Queue {
	t.Helper()
	store, err := memory.New(memory.Options{KeepFinished: 100})
	require.NoError(t, err)
	q, err := queue.NewDriverQueue(queue.DriverQueueOptions{Driver: store, CloseDriver: true, Name: "acme", NumWorkers: 1})
	require.NoError(t, err)
	return q
}

// The message named the record of the store instead of the job and its type.
func TestLogOfACanceledRunDidNotNameTheJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newSpy(newStore(t))
		store.durable = true
		q, err := queue.NewDriverQueue(queue.DriverQueueOptions{Driver: store, Name: "acme", NumWorkers: 1, LockTimeout: time.Minute})
		require.NoError(t, err)
		lines := logged(t, func() {
			defer q.Close(ended())
			require.NoError(t, q.Start(t.Context()))
			put(t, q, newJob(t, "lost", func(ctx context.Context, _ *funcJob) { <-ctx.Done() }))
			synctest.Wait()
			store.fail("Extend")
			pass(time.Minute)
		}, "message", "queue", "job_id", "job_type")
		assert.Contains(t, lines, "warning|canceled a running job|acme|lost|func")
	})
}

// blockedSender is a log that takes no message that a job was canceled until it is released.
type blockedSender struct {
	*send.InternalSender
	released chan struct{}
}

func (s blockedSender) Send(_ context.Context, m message.Composer) {
	if strings.Contains(m.String(), "canceled a running job") {
		<-s.released
	}
}

// A job ran on after its lease was lost, until the log had taken the messages about other jobs.
func TestASlowLogPutOffTheEndOfLostRuns(t *testing.T) {
	before := grip.GetSender()
	slow := blockedSender{send.MakeInternalLogger(), make(chan struct{})}
	require.NoError(t, slow.SetLevel(send.LevelInfo{Default: level.Info, Threshold: level.Info}))
	require.NoError(t, grip.SetSender(slow))
	defer func() { require.NoError(t, grip.SetSender(before)) }()
	release := sync.OnceFunc(func() { close(slow.released) })
	defer release()

	store := newSpy(newStore(t))
	store.durable = true
	q, err := queue.NewDriverQueue(queue.DriverQueueOptions{Driver: store, NumWorkers: 2, LockTimeout: 4 * time.Second})
	require.NoError(t, err)
	require.NoError(t, q.Start(t.Context()))
	defer q.Close(ended())
	defer release()
	began, lost := map[string]chan struct{}{}, map[string]chan struct{}{}
	for _, id := range []string{"one", "two"} {
		begun, canceled := make(chan struct{}), make(chan struct{})
		began[id], lost[id] = begun, canceled
		begins, ends := sync.OnceFunc(func() { close(begun) }), sync.OnceFunc(func() { close(canceled) })
		put(t, q, newJob(t, id, func(ctx context.Context, _ *funcJob) {
			begins()
			<-ctx.Done()
			ends()
		}))
	}
	<-began["one"]
	<-began["two"]
	store.fail("Extend")
	for id, ends := range lost {
		select {
		case <-ends:
		case <-within(t).Done():
			require.Fail(t, "a job runs on", id)
		}
	}
}

// The log of a panic had only its message.
func TestLogOfAPanicHadNoStack(t *testing.T) {
	q := newAcme(t)
	lines := logged(t, func() {
		defer q.Close(context.Background())
		require.NoError(t, q.Start(t.Context()))
		require.NoError(t, q.Put(t.Context(), newJob(t, "panics", func(context.Context, *funcJob) { panic("no") })))
		drain(t, q)
	}, "message", "job_id", "stack")
	require.Len(t, lines, 1)
	assert.Contains(t, lines[0], "error|job failed|panics|goroutine")
	assert.Contains(t, lines[0], "failure_log_test.go")
}

// The message named the instance of the queue in the process.
func TestLogOfACloseThatLeftJobsBehindDidNotNameTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // on a busy machine Close returns before the log is written
		q := newAcme(t)
		running, release := make(chan struct{}), make(chan struct{})
		require.NoError(t, q.Start(t.Context()))
		require.NoError(t, q.Put(t.Context(), newJob(t, "deaf", func(context.Context, *funcJob) {
			close(running)
			<-release
		})))
		<-running
		lines := logged(t, func() { q.Close(ended()) }, "message", "queue")
		close(release)
		assert.Contains(t, lines, "error|queue closed with jobs or parts left behind|acme")
	})
}

// Each of the calls by which a process looks for work was logged when it failed: a line a second for as long as the
// store was gone.
func TestAStoreThatWasGoneFilledTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lines := logged(t, func() {
			cut := &countingDriver{Driver: newStore(t)}
			q := startEngine(t, cut, 1)
			defer q.Close(context.Background())
			for range 2 {
				cut.loseLeases.Store(true)
				time.Sleep(30 * time.Minute)
				cut.loseLeases.Store(false)
				time.Sleep(2 * time.Minute)
			}
		}, "message")
		claims := 0
		for _, line := range lines {
			if strings.Contains(line, "could not claim jobs") {
				claims++
			}
		}
		assert.InDelta(t, 2*(7+28), claims, 6, "after pauses of 1, 2, 4, 8, 16 and 32 s, and then each minute")
	})
}

// The log said that a job failed which had succeeded in its transaction, and nothing of one whose transaction was not
// committed.
func TestLogOfAJobThatEndsInATransaction(t *testing.T) {
	for name, test := range map[string]struct {
		run  func(ctx context.Context, tx ownTransaction) (string, error)
		want []string
	}{
		"reported an error after the commit": {
			run: func(ctx context.Context, tx ownTransaction) (string, error) {
				return "", errors.Join(job.CompleteIn(ctx), tx.Commit(), errors.New("too late"))
			},
			want: []string{"warning|a job reported an error after it ended in a committed transaction|<nil>"},
		},
		"did not commit": {
			run: func(ctx context.Context, tx ownTransaction) (string, error) {
				return "", errors.Join(job.CompleteIn(ctx), tx.Rollback())
			},
			want: []string{"warning|job failed and will be retried|retrying", "error|job failed|failed"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			lines := logged(t, func() { _, _ = runTransactional(t, "SQLite", &transactor{run: test.run}) }, "message", "outcome")
			assert.Equal(t, test.want, lines)
		})
	}
}
