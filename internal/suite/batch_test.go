package suite_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/batch"
	"github.com/mongodb/amboy/queue"
	"github.com/mongodb/amboy/queue/driver"
)

// newBatch returns a batch of jobs.
func (f *fixture) newBatch(id string, jobs ...amboy.Job) *batch.Batch {
	f.Helper()
	b, err := batch.New(id)
	require.NoError(f, err)
	require.NoError(f, b.Add(jobs...))
	return b
}

func (f *fixture) putBatch(q amboy.Queue, b *batch.Batch) *batch.Handle {
	f.Helper()
	h, err := b.Put(f.ctx, q)
	require.NoError(f, err)
	return h
}

// record returns jobs that record their runs in a journal.
func (f *fixture) record(ran *journal, ids ...string) (jobs []amboy.Job) {
	f.Helper()
	for _, id := range ids {
		jobs = append(jobs, f.job(id, func(context.Context, *funcJob) { ran.add(id) }))
	}
	return jobs
}

func TestABatchSucceeds(t *testing.T) {
	onEach(t, func(f *fixture) {
		var ran journal
		b := f.newBatch("import", f.record(&ran, "a", "b", "c")...)
		after := f.record(&ran, "success", "end")
		require.NoError(f, b.OnSuccess(after[0]))
		require.NoError(f, b.OnEnd(after[1]))
		q := f.open(options{workers: 2})
		h := f.putBatch(q, b)
		assert.Equal(f, "import", h.ID())
		progress, err := h.Progress(f.ctx)
		require.NoError(f, err)
		assert.Equal(f, batch.Progress{Total: 3, States: map[amboy.JobState]int{amboy.StatePending: 3}}, progress)
		assert.False(f, progress.Done())

		require.NoError(f, q.Start(f.ctx))
		progress, err = h.Wait(f.ctx)
		require.NoError(f, err)
		assert.True(f, progress.Done())
		assert.Equal(f, 3, progress.States[amboy.StateSucceeded])
		f.drain(q)
		assert.ElementsMatch(f, []string{"a", "b", "c"}, ran.all()[:3])
		assert.ElementsMatch(f, []string{"success", "end"}, ran.all()[3:])
	})
}

func TestABatchInWhichAJobFails(t *testing.T) {
	onEach(t, func(f *fixture) {
		var ran journal
		failing := f.job("failing", func(_ context.Context, j *funcJob) { j.AddError(errors.New("no")) })
		b := f.newBatch("import", append(f.record(&ran, "a"), failing)...)
		after := f.record(&ran, "success", "end")
		require.NoError(f, b.OnSuccess(after[0]))
		require.NoError(f, b.OnEnd(after[1]))
		q := f.start(options{})
		h := f.putBatch(q, b)
		progress, err := h.Wait(f.ctx)
		require.NoError(f, err)
		assert.Equal(f, map[amboy.JobState]int{amboy.StateSucceeded: 1, amboy.StateFailed: 1}, progress.States)
		assert.InDelta(f, 1, progress.Fraction(), 0)
		f.drain(q)
		assert.Equal(f, []string{"a", "end"}, ran.all())
		assert.Equal(f, amboy.StateFailed, f.state(q, "success"))
		assert.Equal(f, amboy.StateSucceeded, f.state(q, "batch:import"), "the end job succeeded")
	})
}

func TestABatchWaitsForRetries(t *testing.T) {
	onEach(t, func(f *fixture) {
		flaky := retryable(f.job("flaky", func(_ context.Context, j *funcJob) {
			if j.RetryInfo().CurrentAttempt == 0 {
				j.AddRetryableError(errors.New("once more"))
			}
		}), 3)
		flaky.UpdateRetryInfo(amboy.JobRetryOptions{WaitUntil: new(short)})
		q := f.start(options{})
		h := f.putBatch(q, f.newBatch("import", flaky))
		progress, err := h.Wait(f.ctx)
		require.NoError(f, err)
		assert.Equal(f, batch.Progress{Total: 1, States: map[amboy.JobState]int{amboy.StateSucceeded: 1}}, progress)
	})
}

func TestAnEmptyBatchIsDone(t *testing.T) {
	onEach(t, func(f *fixture) {
		var ran journal
		b := f.newBatch("")
		require.NoError(f, b.OnSuccess(f.record(&ran, "success")[0]))
		q := f.start(options{})
		progress, err := f.putBatch(q, b).Wait(f.ctx)
		require.NoError(f, err)
		assert.True(f, progress.Done())
		assert.InDelta(f, 1, progress.Fraction(), 0)
		f.drain(q)
		assert.Equal(f, []string{"success"}, ran.all())
	})
}

func TestABatchIsOpenedAgain(t *testing.T) {
	onEach(t, func(f *fixture) {
		var ran journal
		q := f.start(options{})
		_, err := batch.Open(f.ctx, q, "import")
		require.True(f, amboy.IsJobNotFoundError(err), "%v", err)
		f.putBatch(q, f.newBatch("import", f.record(&ran, "a", "b")...))
		h, err := batch.Open(f.ctx, q, "import")
		require.NoError(f, err)
		progress, err := h.Wait(f.ctx)
		require.NoError(f, err)
		assert.Equal(f, 2, progress.Total)
		assert.True(f, progress.Done())
	})
}

func TestABatchIsSeenByAnotherProcess(t *testing.T) {
	onThose(t, shared, func(f *fixture) {
		var ran journal
		putter := f.open(options{})
		h := f.putBatch(putter, f.newBatch("import", f.record(&ran, "a", "b")...))
		worker := f.start(options{})
		progress, err := h.Wait(f.ctx)
		require.NoError(f, err)
		assert.True(f, progress.Done())
		there, err := batch.Open(f.ctx, worker, "import")
		require.NoError(f, err)
		progress, err = there.Progress(f.ctx)
		require.NoError(f, err)
		assert.Equal(f, 2, progress.States[amboy.StateSucceeded])
	})
}

func TestABatchIsPutOnce(t *testing.T) {
	onEach(t, func(f *fixture) {
		var ran journal
		q := f.open(options{})
		made := func() *batch.Batch {
			b := f.newBatch("import", f.record(&ran, "a", "b")...)
			require.NoError(f, b.OnEnd(f.record(&ran, "end")[0]))
			return b
		}
		f.putBatch(q, made())
		f.putBatch(q, made()) // as a process does that does not know of the first call

		other := f.newBatch("import", f.record(&ran, "a", "c")...)
		_, err := other.Put(f.ctx, q)
		require.True(f, amboy.IsDuplicateJobError(err), "%v", err)
		assert.Equal(f, []string{"a", "b"}, f.found(q, amboy.JobQuery{Tag: "batch:import"}), "nothing was put")

		require.NoError(f, q.Start(f.ctx))
		f.drain(q)
		assert.ElementsMatch(f, []string{"a", "b", "end"}, ran.all())
	})
}

// A batch that was put partly continues where it stopped.
func TestABatchIsPutAgainAfterAnError(t *testing.T) {
	onEach(t, func(f *fixture) {
		var ran journal
		q := f.open(options{})
		scoped := func(id string) *funcJob {
			j := f.record(&ran, id)[0].(*funcJob)
			j.SetScopes([]string{"s"})
			j.SetEnqueueAllScopes(true)
			return j
		}
		f.put(q, scoped("holder"))
		b := f.newBatch("import", f.record(&ran, "a")[0], scoped("b"))
		_, err := b.Put(f.ctx, q)
		require.True(f, amboy.IsDuplicateJobScopeError(err), "%v", err)
		_, err = batch.Open(f.ctx, q, "import")
		require.True(f, amboy.IsJobNotFoundError(err), "%v", err)

		require.NoError(f, q.Start(f.ctx))
		f.drain(q)
		progress, err := f.putBatch(q, b).Wait(f.ctx)
		require.NoError(f, err)
		assert.Equal(f, 2, progress.States[amboy.StateSucceeded])
		assert.Equal(f, []string{"holder", "a", "b"}, ran.all())
	})
}

// A foreign job with the ID of a job of the batch does not become part of the batch.
func TestABatchDoesNotTakeOtherJobs(t *testing.T) {
	onEach(t, func(f *fixture) {
		var ran journal
		q := f.open(options{})
		f.put(q, f.record(&ran, "a")...)
		_, err := f.newBatch("import", f.record(&ran, "a")...).Put(f.ctx, q)
		require.True(f, amboy.IsDuplicateJobError(err), "%v", err)
	})
}

func TestWaitingForABatchEnds(t *testing.T) {
	onThose(t, func(k kind) bool { return k.name != "amboytest" }, func(f *fixture) {
		var ran journal
		q := f.open(options{})
		h := f.putBatch(q, f.newBatch("import", f.record(&ran, "a")...))
		ctx, cancel := context.WithCancel(f.ctx)
		cancel()
		_, err := h.Wait(ctx)
		require.ErrorIs(f, err, context.Canceled)
		q.Close(context.Background())
		_, err = h.Wait(f.ctx)
		require.ErrorIs(f, err, amboy.ErrQueueClosed)
	})
}

// An end job that waits for its jobs does not delay other jobs.
func TestOthersRunBeforeABatchEnds(t *testing.T) {
	onThose(t, faked, func(f *fixture) {
		var ran journal
		q := f.start(options{})
		late := f.record(&ran, "late")[0]
		late.UpdateTimeInfo(amboy.JobTimeInfo{WaitUntil: f.now().Add(time.Hour)})
		h := f.putBatch(q, f.newBatch("import", late))
		f.put(q, f.record(&ran, "other")...)
		f.sleep(time.Minute)
		assert.Equal(f, []string{"other"}, ran.all())
		progress, err := h.Progress(f.ctx)
		require.NoError(f, err)
		assert.Equal(f, map[amboy.JobState]int{amboy.StateScheduled: 1}, progress.States)
		f.sleep(time.Hour)
		progress, err = h.Progress(f.ctx)
		require.NoError(f, err)
		assert.True(f, progress.Done())
	})
}

// A batch ends exactly once, whatever becomes of its jobs.
func TestABatchWhoseJobsDidNotRun(t *testing.T) {
	onThose(t, stored, func(f *fixture) {
		var ran journal
		q := f.open(options{})
		b := f.newBatch("import", f.record(&ran, "canceled", "deleted", "runs")...)
		after := f.record(&ran, "success", "end")
		require.NoError(f, b.OnSuccess(after[0]))
		require.NoError(f, b.OnEnd(after[1]))
		h := f.putBatch(q, b)
		store, ok := queue.StoreOf(q)
		require.True(f, ok)
		act := func(id string, kind driver.ActionKind) {
			acted, err := store.Driver().Act(f.ctx, driver.ActRequest{
				Query: driver.Query{Queues: store.Queues(), ID: id}, Action: driver.Action{Kind: kind}, Limit: 10,
			})
			require.NoError(f, err)
			require.Equal(f, 1, acted.Done, "%s %s", kind, id)
		}
		act("canceled", driver.Cancel)
		act("deleted", driver.Cancel)
		act("deleted", driver.Delete)

		require.NoError(f, q.Start(f.ctx))
		progress, err := h.Wait(f.ctx)
		require.NoError(f, err)
		assert.Equal(f, batch.Progress{
			Total: 3, Forgotten: 1, States: map[amboy.JobState]int{amboy.StateCanceled: 1, amboy.StateSucceeded: 1},
		}, progress)
		f.drain(q)
		assert.Equal(f, []string{"runs", "end"}, ran.all())
		assert.Equal(f, amboy.StateFailed, f.state(q, "success"))

		act("canceled", driver.Restart)
		f.drain(q)
		assert.Equal(f, []string{"runs", "end", "canceled"}, ran.all(), "the batch had ended before")
	})
}

func TestABatchWhoseJobExpired(t *testing.T) {
	onThose(t, faked, func(f *fixture) {
		var ran journal
		q := f.open(options{})
		late := f.record(&ran, "late")[0]
		late.UpdateTimeInfo(amboy.JobTimeInfo{DispatchBy: f.now().Add(time.Hour)})
		b := f.newBatch("import", append(f.record(&ran, "a"), late)...)
		require.NoError(f, b.OnEnd(f.record(&ran, "end")[0]))
		h := f.putBatch(q, b)
		if f.inline != nil {
			f.inline.Advance(2 * time.Hour)
		} else {
			f.sleep(2 * time.Hour)
		}
		require.NoError(f, q.Start(f.ctx))
		progress, err := h.Wait(f.ctx)
		require.NoError(f, err)
		assert.Equal(f, map[amboy.JobState]int{amboy.StateSucceeded: 1, amboy.StateExpired: 1}, progress.States)
		f.drain(q)
		assert.Equal(f, []string{"a", "end"}, ran.all())
	})
}
