package queue_test

import (
	"context"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue"
)

// brittle is a job that replaces a method of job.Base by one that panics. A local queue calls
// these methods under its lock and on goroutines of its own.
type brittle struct {
	*funcJob
	breaks atomic.Value
	exits  bool // the method ends its goroutine instead
}

func newBrittle(t *testing.T, breaks string) *brittle {
	t.Helper()
	j := &brittle{funcJob: noop(t, "broken")}
	j.breaks.Store(breaks)
	return j
}

func (j *brittle) panicIn(method string) {
	if j.breaks.Load() != method {
		return
	}
	if j.exits {
		runtime.Goexit()
	}
	panic(method + " is broken")
}

func (j *brittle) SetTimeInfo(times amboy.JobTimeInfo) {
	j.panicIn("SetTimeInfo")
	j.funcJob.SetTimeInfo(times)
}

func (j *brittle) Type() amboy.JobType {
	j.panicIn("Type")
	return j.funcJob.Type()
}

func (j *brittle) Status() amboy.JobStatusInfo {
	j.panicIn("Status")
	return j.funcJob.Status()
}

func (j *brittle) AddError(err error) {
	j.panicIn("AddError")
	j.funcJob.AddError(err)
}

func (j *brittle) Lock(owner string, timeout time.Duration) error {
	j.panicIn("Lock")
	return j.funcJob.Lock(owner, timeout)
}

func startLocal(t *testing.T) amboy.Queue {
	t.Helper()
	q, err := queue.NewLocal(queue.LocalOptions{NumWorkers: 1, KeepFinished: 10})
	require.NoError(t, err)
	require.NoError(t, q.Start(t.Context()))
	t.Cleanup(func() { q.Close(context.Background()) })
	return q
}

func TestAJobThatPanickedWhileItWasAddedStayedInTheQueue(t *testing.T) {
	for name, status := range map[string]amboy.JobStatusInfo{
		"new":         {},
		"in progress": {InProgress: true, Owner: "another process", ModificationTime: time.Now()},
		"completed":   {Completed: true},
	} {
		t.Run(name, func(t *testing.T) {
			q := startLocal(t)
			put(t, q, noop(t, "first"))
			drain(t, q)
			j := newBrittle(t, "SetTimeInfo")
			j.SetScopes([]string{"scope"})
			j.SetEnqueueScopes("scope")
			j.SetStatus(status)
			var panicked *amboy.PanicError
			require.ErrorAs(t, q.Put(t.Context(), j), &panicked)
			assert.Equal(t, []string{"first"}, listed(t, q))

			last := noop(t, "last")
			last.SetScopes([]string{"scope"})
			put(t, q, last)
			drain(t, q)
			var finished []string
			for j := range q.Results(t.Context()) {
				finished = append(finished, j.ID())
			}
			assert.Equal(t, []string{"first", "last"}, finished)
			assert.Equal(t, []string{"first", "last"}, listed(t, q))
		})
	}
}

// listed returns the IDs of the jobs that a queue lists.
func listed(t *testing.T, q amboy.Queue) (ids []string) {
	t.Helper()
	for info := range q.JobInfo(t.Context()) {
		ids = append(ids, info.ID)
	}
	return ids
}

func TestAPanicOfAnExpiredJobEndedTheProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := startLocal(t)
		j := newBrittle(t, "AddError")
		require.NoError(t, q.(amboy.QueueController).Pause(t.Context()))
		j.UpdateTimeInfo(amboy.JobTimeInfo{DispatchBy: time.Now().Add(time.Minute)})
		put(t, q, j)
		pass(2 * time.Minute)
		assert.Equal(t, amboy.QueueStats{Completed: 1, Total: 1}, q.Stats(t.Context()))
	})
}

func TestAPanicOfAJobWithAStaleLockEndedTheProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := startLocal(t)
		j := newBrittle(t, "")
		j.SetStatus(amboy.JobStatusInfo{InProgress: true, Owner: "another process", ModificationTime: time.Now()})
		put(t, q, j)
		j.breaks.Store("Status")
		pass(time.Hour)
		j.breaks.Store("")
		assert.Equal(t, amboy.QueueStats{Completed: 1, Total: 1}, q.Stats(t.Context()))
	})
}

func TestAPanicInTheRenewalOfALockEndedTheProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := queue.NewDispatcher(&savingQueue{})
		j, other := newBrittle(t, ""), noop(t, "other")
		require.NoError(t, d.Dispatch(t.Context(), j))
		require.NoError(t, d.Dispatch(t.Context(), other))
		j.breaks.Store("Lock")
		pass(time.Hour)
		assert.Less(t, time.Since(other.Status().ModificationTime), time.Minute, "the other lock is renewed")
		require.NoError(t, d.Close(t.Context()))
	})
}
