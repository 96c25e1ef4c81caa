package queue_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue"
	"github.com/mongodb/amboy/queue/driver"
)

// controlled returns a queue as a QueueController.
func controlled(t *testing.T, q amboy.Queue) amboy.QueueController {
	t.Helper()
	c, ok := q.(amboy.QueueController)
	require.True(t, ok)
	return c
}

func control(t *testing.T, q amboy.Queue) amboy.QueueControl {
	t.Helper()
	c, err := controlled(t, q).Control(t.Context())
	require.NoError(t, err)
	return c
}

// TestControlAppliesToAllQueuesOnAStore controls each of two queues through the other.
func TestControlAppliesToAllQueuesOnAStore(t *testing.T) {
	store := newStore(t)
	one, two := newTestEngine(t, store, 1), newTestEngine(t, store, 1)
	defer one.Close(context.Background())
	defer two.Close(context.Background())
	assert.Equal(t, amboy.QueueControl{}, control(t, one))
	for i, step := range []struct {
		steer func(amboy.QueueController) error
		is    amboy.QueueControl
	}{
		{steer: func(c amboy.QueueController) error { return c.Pause(t.Context()) }, is: amboy.QueueControl{Paused: true}},
		{steer: func(c amboy.QueueController) error { return c.SetMaxRunning(t.Context(), 3) }, is: amboy.QueueControl{Paused: true, MaxRunning: 3}},
		{steer: func(c amboy.QueueController) error { return c.Drain(t.Context()) }, is: amboy.QueueControl{Paused: true, Draining: true, MaxRunning: 3}},
		{steer: func(c amboy.QueueController) error { return c.Drain(t.Context()) }, is: amboy.QueueControl{Paused: true, Draining: true, MaxRunning: 3}},
		{steer: func(c amboy.QueueController) error { return c.Resume(t.Context()) }, is: amboy.QueueControl{MaxRunning: 3}},
		{steer: func(c amboy.QueueController) error { return c.Resume(t.Context()) }, is: amboy.QueueControl{MaxRunning: 3}},
		{steer: func(c amboy.QueueController) error { return c.SetMaxRunning(t.Context(), 0) }, is: amboy.QueueControl{}},
	} {
		steered, other := one, two
		if i%2 == 1 {
			steered, other = two, one
		}
		require.NoError(t, step.steer(controlled(t, steered)))
		assert.Equal(t, step.is, control(t, other), "step %d", i)
	}
	require.ErrorContains(t, controlled(t, one).SetMaxRunning(t.Context(), -1), "must not be negative (is -1)")
	assert.Equal(t, amboy.QueueControl{}, control(t, one))
}

func TestControlReturnsTheErrorOfTheStore(t *testing.T) {
	q := newTestEngine(t, newStore(t), 1)
	defer q.Close(context.Background())
	c := controlled(t, q)
	_, err := c.Control(ended())
	for _, err := range []error{err, c.Pause(ended()), c.Drain(ended()), c.Resume(ended()), c.SetMaxRunning(ended(), 1)} {
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorContains(t, err, q.ID())
	}
}

// TestPausedQueueRunsNothing pauses a queue through another queue on the same store.
func TestPausedQueueRunsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newStore(t)
		front, back := newTestEngine(t, store, 1), startEngine(t, store, 2)
		defer front.Close(context.Background())
		defer back.Close(context.Background())
		s := &starts{t: t}
		put(t, front, s.lasting("running", time.Hour))
		synctest.Wait()
		require.NoError(t, controlled(t, front).Pause(t.Context()))
		put(t, front, s.lasting("waiting", time.Second))
		late := s.lasting("late", time.Second)
		late.SetTimeInfo(amboy.JobTimeInfo{DispatchBy: time.Now().Add(time.Minute)})
		put(t, front, late)
		pass(time.Hour - 1)
		assert.Equal(t, 1, back.Stats(t.Context()).Running, "running jobs continue")
		pass(time.Hour)
		assert.Equal(t, []string{"running"}, s.all())
		assert.Equal(t, amboy.StateExpired, infoOf(t, back, "late").State)
		assert.True(t, infoOf(t, back, "late").Status.Completed, "the expired job has ended")
		assert.Equal(t, 1, back.Stats(t.Context()).Pending)

		require.NoError(t, controlled(t, front).Resume(t.Context()))
		synctest.Wait()
		assert.Equal(t, []string{"running", "waiting"}, s.all(), "jobs run at once after Resume")
	})
}

func TestDrainingQueueRunsItsJobs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newStore(t)
		front, back := newTestEngine(t, store, 1), startEngine(t, store, 1)
		defer front.Close(context.Background())
		defer back.Close(context.Background())
		s := &starts{t: t}
		var attempts atomic.Int64
		flaky := newJob(t, "flaky", func(_ context.Context, j *funcJob) {
			if attempts.Add(1) < 3 {
				j.AddRetryableError(errors.New("once more"))
			}
		})
		put(t, front, s.lasting("one", time.Minute), retryable(flaky, 5), s.lasting("two", time.Minute))
		synctest.Wait()
		require.NoError(t, controlled(t, back).Drain(t.Context()))

		for _, q := range []amboy.Queue{front, back} {
			err := q.Put(t.Context(), noop(t, "late"))
			require.ErrorIs(t, err, amboy.ErrQueueDraining)
			require.ErrorContains(t, err, `"late"`)
			assert.False(t, amboy.IsDuplicateJobError(err))
			err = q.PutMany(t.Context(), []amboy.Job{noop(t, "late 1"), noop(t, "late 2"), noop(t, "")})
			require.ErrorIs(t, err, amboy.ErrQueueDraining)
			var invalid *amboy.InvalidJobError
			require.ErrorAs(t, err, &invalid)
			require.ErrorIs(t, amboy.EnqueueUniqueJob(t.Context(), q, noop(t, "late")), amboy.ErrQueueDraining)
		}
		require.True(t, amboy.Wait(day(t), front))
		assert.Equal(t, []string{"one", "two"}, s.all())
		assert.Equal(t, int64(3), attempts.Load(), "retries are not new jobs")
		assert.Equal(t, 5, back.Stats(t.Context()).Total)

		require.NoError(t, controlled(t, back).Resume(t.Context()))
		put(t, front, noop(t, "late"))
		require.True(t, amboy.Wait(day(t), front))
	})
}

// running counts how many jobs run at once.
type running struct {
	now, most atomic.Int64
}

func (r *running) run(context.Context, *funcJob) {
	n := r.now.Add(1)
	for most := r.most.Load(); n > most; most = r.most.Load() {
		r.most.CompareAndSwap(most, n)
	}
	<-time.After(time.Minute)
	r.now.Add(-1)
}

// TestMaxRunningHoldsOverAllProcesses uses two engines. The first sets the limit when it
// starts.
func TestMaxRunningHoldsOverAllProcesses(t *testing.T) {
	for name, deaf := range map[string]bool{"notified": false, "polling": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newStore(t)
				var r running
				var jobs []amboy.Job
				for _, id := range ids("", 30) {
					jobs = append(jobs, newJob(t, id, r.run))
				}
				first := &spy{Driver: store, deaf: deaf, calls: map[string]int{}}
				limited, err := queue.NewDriverQueue(queue.DriverQueueOptions{
					Driver: first, Format: amboy.JSON, NumWorkers: 4, MaxRunning: 5, LockTimeout: time.Minute,
				})
				require.NoError(t, err)
				defer limited.Close(context.Background())
				assert.Zero(t, control(t, limited).MaxRunning, "only Start sets the limit")
				require.NoError(t, limited.Start(t.Context()))
				assert.Equal(t, 5, control(t, limited).MaxRunning)
				second := startEngine(t, &spy{Driver: store, deaf: deaf, calls: map[string]int{}}, 4)
				defer second.Close(context.Background())
				assert.Equal(t, 5, control(t, second).MaxRunning, "a queue without MaxRunning leaves the stored limit")

				require.NoError(t, limited.PutMany(t.Context(), jobs))
				pass(90 * time.Second)
				assert.Equal(t, int64(5), r.most.Load())
				require.NoError(t, controlled(t, second).SetMaxRunning(t.Context(), 2))
				pass(90 * time.Second)
				assert.LessOrEqual(t, r.now.Load(), int64(2))
				r.most.Store(0)
				require.NoError(t, controlled(t, second).SetMaxRunning(t.Context(), 0))
				pass(5 * time.Second)
				assert.Equal(t, int64(8), r.now.Load(), "all workers of both queues")
				require.True(t, amboy.Wait(day(t), second))
				assert.Equal(t, 30, second.Stats(t.Context()).Completed)
			})
		})
	}
}

// cancelJob cancels a job in a store, as management does.
func cancelJob(t *testing.T, store driver.Admin, id string) {
	t.Helper()
	acted, err := store.Act(t.Context(), driver.ActRequest{
		Query:  driver.Query{ID: id},
		Action: driver.Action{Kind: driver.Cancel, Reason: "not wanted any more"},
		Limit:  10,
	})
	require.NoError(t, err)
	require.Equal(t, 1, acted.Done)
}

// TestContextOfACanceledJobEndsSoon cancels a running job. Its context must end within a
// second, or at the next heartbeat if the driver sends no notifications.
func TestContextOfACanceledJobEndsSoon(t *testing.T) {
	for name, test := range map[string]struct {
		deaf bool
		soon time.Duration
	}{
		"notified": {soon: time.Second},
		"deaf":     {deaf: true, soon: 15 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newStore(t)
				q := startEngine(t, &spy{Driver: store, deaf: test.deaf, calls: map[string]int{}}, 2)
				defer q.Close(context.Background())
				var causes []error
				runs := 0
				var told time.Time
				j := newJob(t, "one", func(ctx context.Context, j *funcJob) {
					runs++
					<-ctx.Done()
					told = time.Now()
					causes = append(causes, context.Cause(ctx))
					j.AddRetryableError(errors.New("interrupted"))
				})
				other, started, release := holder(t, "other")
				put(t, q, retryable(j, 3), other)
				<-started
				pass(40 * time.Second)
				asked := time.Now()
				cancelJob(t, store, "one")
				require.True(t, amboy.WaitJob(day(t), j, q))
				assert.LessOrEqual(t, told.Sub(asked), test.soon)
				require.Len(t, causes, 1)
				require.ErrorIs(t, causes[0], amboy.ErrAborted)
				assert.Equal(t, 1, runs)
				assert.Equal(t, amboy.StateCanceled, infoOf(t, q, "one").State)
				assert.Equal(t, 1, q.Stats(t.Context()).Running, "the other job continues")
				pass(time.Hour)
				assert.Equal(t, 1, runs, "the job was retried")
				release()
				require.True(t, amboy.Wait(day(t), q))
				assert.Equal(t, amboy.StateSucceeded, infoOf(t, q, "other").State)
			})
		})
	}
}

func TestCanceledJobThatEndsWithoutAnErrorHasSucceeded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newStore(t)
		q := startEngine(t, store, 1)
		defer q.Close(context.Background())
		j := newJob(t, "one", func(ctx context.Context, _ *funcJob) { <-ctx.Done() })
		put(t, q, j)
		synctest.Wait()
		cancelJob(t, store, "one")
		require.True(t, amboy.WaitJob(day(t), j, q))
		assert.Equal(t, amboy.StateSucceeded, infoOf(t, q, "one").State)
	})
}

func TestCanceledJobThatWaitsNeverRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newStore(t)
		q := startEngine(t, store, 1)
		defer q.Close(context.Background())
		blocker, started, release := holder(t, "blocker")
		put(t, q, blocker)
		<-started
		j := newJob(t, "one", func(context.Context, *funcJob) { t.Error("it was canceled, and runs") })
		put(t, q, j)
		cancelJob(t, store, "one")
		release()
		require.True(t, amboy.Wait(day(t), q))
		info := infoOf(t, q, "one")
		assert.Equal(t, amboy.StateCanceled, info.State)
		assert.Equal(t, "not wanted any more", info.Status.Reason)
	})
}

func TestCanceledJobThatSnoozesEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newStore(t)
		q := startEngine(t, store, 1)
		defer q.Close(context.Background())
		events, cancel, err := amboy.Subscribe(q, 10)
		require.NoError(t, err)
		defer cancel()
		j := newJob(t, "one", func(ctx context.Context, j *funcJob) {
			<-ctx.Done()
			j.Snooze(time.Now().Add(time.Hour))
		})
		put(t, q, j)
		synctest.Wait()
		cancelJob(t, store, "one")
		asked := time.Now()
		require.True(t, amboy.WaitJob(day(t), j, q))
		assert.LessOrEqual(t, time.Since(asked), time.Second)
		assert.Equal(t, amboy.StateCanceled, infoOf(t, q, "one").State)
		var told []amboy.EventKind
		for range 3 {
			told = append(told, (<-events).Kind)
		}
		// A worker may take it before Put returns.
		assert.ElementsMatch(t, []amboy.EventKind{amboy.EventPut, amboy.EventStarted}, told[:2])
		assert.Equal(t, amboy.EventCanceled, told[2])
	})
}
