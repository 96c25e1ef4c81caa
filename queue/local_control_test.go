package queue_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
)

// lasting returns a job that runs for d.
func lasting(id string, d time.Duration) *labeled {
	j := newLabeled(id, "", "")
	j.Lasts = d
	return j
}

func TestEachQueueCanBeControlled(t *testing.T) {
	onEach(t, 1, 10, func(t *testing.T, q amboy.Queue) {
		c := controlled(t, q)
		assert.Equal(t, amboy.QueueControl{}, control(t, q))
		for i, step := range []struct {
			steer func(context.Context) error
			is    amboy.QueueControl
		}{
			{steer: c.Pause, is: amboy.QueueControl{Paused: true}},
			{steer: c.Pause, is: amboy.QueueControl{Paused: true}},
			{steer: c.Drain, is: amboy.QueueControl{Paused: true, Draining: true}},
			{steer: c.Resume, is: amboy.QueueControl{}},
			{steer: c.Drain, is: amboy.QueueControl{Draining: true}},
			{steer: c.Drain, is: amboy.QueueControl{Draining: true}},
			{steer: func(ctx context.Context) error { return c.SetMaxRunning(ctx, 3) }, is: amboy.QueueControl{Draining: true, MaxRunning: 3}},
			{steer: c.Resume, is: amboy.QueueControl{MaxRunning: 3}},
			{steer: c.Resume, is: amboy.QueueControl{MaxRunning: 3}},
			{steer: func(ctx context.Context) error { return c.SetMaxRunning(ctx, 0) }, is: amboy.QueueControl{}},
		} {
			require.NoError(t, step.steer(t.Context()))
			assert.Equal(t, step.is, control(t, q), "step %d", i)
		}
		require.ErrorContains(t, c.SetMaxRunning(t.Context(), -1), "must not be negative (is -1)")
		assert.Equal(t, amboy.QueueControl{}, control(t, q))
	})
}

func TestEachQueuePauses(t *testing.T) {
	onEachFaked(t, 10, func(t *testing.T, q amboy.Queue) {
		put(t, q, lasting("running", time.Minute), lasting("waiting", time.Second))
		synctest.Wait()
		require.NoError(t, controlled(t, q).Pause(t.Context()))
		late, due := noop(t, "late"), noop(t, "due")
		late.SetTimeInfo(amboy.JobTimeInfo{DispatchBy: time.Now().Add(time.Hour)})
		due.SetTimeInfo(amboy.JobTimeInfo{WaitUntil: time.Now().Add(time.Hour)})
		put(t, q, late, due)
		pass(time.Minute)
		assert.Equal(t, amboy.StateSucceeded, infoOf(t, q, "running").State, "running jobs continue")
		pass(2 * time.Hour)
		assert.Equal(t, amboy.StateExpired, infoOf(t, q, "late").State)
		assert.True(t, infoOf(t, q, "late").Status.Completed, "the expired job has ended")
		for _, id := range []string{"waiting", "due"} {
			assert.Equal(t, amboy.StatePending, infoOf(t, q, id).State)
		}
		assert.Equal(t, 2, q.Stats(t.Context()).Pending)

		require.NoError(t, controlled(t, q).Resume(t.Context()))
		synctest.Wait()
		assert.Equal(t, amboy.StateRunning, infoOf(t, q, "waiting").State, "jobs run at once after Resume")
		require.True(t, amboy.Wait(day(t), q))
		assert.Equal(t, amboy.StateSucceeded, infoOf(t, q, "due").State)
	})
}

// TestPausedQueueFillsUp checks that Put waits for room until the queue is resumed.
func TestPausedQueueFillsUp(t *testing.T) {
	onEachFaked(t, 1, func(t *testing.T, q amboy.Queue) {
		require.NoError(t, controlled(t, q).Pause(t.Context()))
		put(t, q, noop(t, "one"))
		room := make(chan error, 1)
		go func() { room <- q.Put(t.Context(), noop(t, "two")) }()
		pass(time.Hour)
		assert.Empty(t, room)
		require.NoError(t, controlled(t, q).Resume(t.Context()))
		require.NoError(t, <-room)
		require.True(t, amboy.Wait(day(t), q))
	})
}

func TestPausedQueueCloses(t *testing.T) {
	onEachFaked(t, 10, func(t *testing.T, q amboy.Queue) {
		require.NoError(t, controlled(t, q).Pause(t.Context()))
		put(t, q, newJob(t, "one", func(context.Context, *funcJob) { t.Error("the queue was paused") }))
		synctest.Wait()
		q.Close(t.Context())
		assert.Equal(t, amboy.StatePending, infoOf(t, q, "one").State)
	})
}

func TestEachQueueDrains(t *testing.T) {
	onEachFaked(t, 10, func(t *testing.T, q amboy.Queue) {
		put(t, q, lasting("running", time.Minute), lasting("waiting", time.Minute))
		synctest.Wait()
		require.NoError(t, controlled(t, q).Drain(t.Context()))
		err := q.Put(t.Context(), noop(t, "late"))
		require.ErrorIs(t, err, amboy.ErrQueueDraining)
		require.ErrorContains(t, err, `putting job "late"`)
		assert.False(t, amboy.IsDuplicateJobError(err))
		err = q.PutMany(t.Context(), []amboy.Job{noop(t, "late 1"), noop(t, ""), noop(t, "late 2")})
		require.ErrorIs(t, err, amboy.ErrQueueDraining)
		var invalid *amboy.InvalidJobError
		require.ErrorAs(t, err, &invalid)
		require.ErrorIs(t, amboy.EnqueueUniqueJob(t.Context(), q, noop(t, "late")), amboy.ErrQueueDraining)

		require.True(t, amboy.Wait(day(t), q))
		assert.Equal(t, amboy.QueueStats{Completed: 2, Total: 2}, q.Stats(t.Context()))
		require.NoError(t, controlled(t, q).Resume(t.Context()))
		put(t, q, noop(t, "late"))
		require.True(t, amboy.Wait(day(t), q))
	})
}

func TestDrainRefusesJobsThatWaitForRoom(t *testing.T) {
	onEachFaked(t, 1, func(t *testing.T, q amboy.Queue) {
		require.NoError(t, controlled(t, q).Pause(t.Context()))
		put(t, q, noop(t, "one"))
		refusals := make(chan error, 2)
		for _, id := range []string{"two", "three"} {
			go func() { refusals <- q.Put(t.Context(), noop(t, id)) }()
		}
		synctest.Wait()
		require.Empty(t, refusals)
		require.NoError(t, controlled(t, q).Drain(t.Context()))
		require.ErrorIs(t, <-refusals, amboy.ErrQueueDraining)
		require.ErrorIs(t, <-refusals, amboy.ErrQueueDraining)

		// The queue has as much room as before.
		require.NoError(t, controlled(t, q).Resume(t.Context()))
		require.True(t, amboy.Wait(day(t), q))
		require.NoError(t, controlled(t, q).Pause(t.Context()))
		put(t, q, noop(t, "four"))
		require.ErrorIs(t, q.Put(within(t), noop(t, "five")), context.DeadlineExceeded)
	})
}

// TestMaxRunningIsALimit changes the limit while more jobs could run.
func TestMaxRunningIsALimit(t *testing.T) {
	const workers = 4
	for name, build := range kinds {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := build(t, workers, 100)
				require.NoError(t, q.Start(t.Context()))
				defer q.Close(context.Background())
				require.NoError(t, controlled(t, q).SetMaxRunning(t.Context(), 2))
				var jobs []amboy.Job
				for _, id := range ids("", 30) {
					jobs = append(jobs, lasting(id, time.Minute))
				}
				require.NoError(t, q.PutMany(t.Context(), jobs))
				running := func() int {
					synctest.Wait()
					return q.Stats(t.Context()).Running
				}
				assert.Equal(t, 2, running())
				pass(90 * time.Second)
				assert.Equal(t, 2, running(), "the next jobs start")
				require.NoError(t, controlled(t, q).SetMaxRunning(t.Context(), 3))
				assert.Equal(t, 3, running(), "one more job starts at once")
				require.NoError(t, controlled(t, q).SetMaxRunning(t.Context(), 1))
				assert.Equal(t, 3, running(), "running jobs continue")
				pass(time.Minute)
				assert.Equal(t, 1, running())
				require.NoError(t, controlled(t, q).SetMaxRunning(t.Context(), 100))
				assert.Equal(t, workers, running())
				require.NoError(t, controlled(t, q).SetMaxRunning(t.Context(), 1))
				require.NoError(t, controlled(t, q).SetMaxRunning(t.Context(), 0))
				pass(time.Minute)
				assert.Equal(t, workers, running())
				require.True(t, amboy.Wait(day(t), q))
				assert.Equal(t, len(jobs), q.Stats(t.Context()).Completed)
			})
		})
	}
}

// TestMaxRunningCountsOnlyJobsThatRun checks that the next job runs when a job ends
// without having run.
func TestMaxRunningCountsOnlyJobsThatRun(t *testing.T) {
	onEachFaked(t, 10, func(t *testing.T, q amboy.Queue) {
		require.NoError(t, controlled(t, q).SetMaxRunning(t.Context(), 1))
		require.NoError(t, controlled(t, q).Pause(t.Context()))
		expires := noop(t, "expires")
		expires.SetTimeInfo(amboy.JobTimeInfo{DispatchBy: time.Now().Add(time.Minute)})
		put(t, q, expires, noop(t, "next"))
		pass(time.Hour)
		require.NoError(t, controlled(t, q).Resume(t.Context()))
		require.True(t, amboy.Wait(day(t), q))
		assert.Equal(t, amboy.StateExpired, infoOf(t, q, "expires").State)
		assert.Equal(t, amboy.StateSucceeded, infoOf(t, q, "next").State)
	})
}
