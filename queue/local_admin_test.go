package queue_test

import (
	"context"
	"errors"
	"fmt"
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

func TestControlOfALocalQueueByItsAdmin(t *testing.T) {
	inLocalBubble(t, func(t *testing.T, a administered) {
		events, stop := a.queue.(amboy.EventSource).SubscribeEvents(10)
		defer stop()
		for _, step := range []struct {
			change driver.ControlChange
			is     driver.Control
			told   amboy.EventKind
		}{
			{change: driver.ControlChange{}},
			{change: driver.ControlChange{Paused: new(true)}, is: driver.Control{Paused: true}, told: amboy.EventPaused},
			{change: driver.ControlChange{Draining: new(true)}, is: driver.Control{Paused: true, Draining: true}, told: amboy.EventDraining},
			{change: driver.ControlChange{MaxRunning: new(3)}, is: driver.Control{Paused: true, Draining: true, MaxRunning: 3}},
			{change: driver.ControlChange{Paused: new(false)}, is: driver.Control{Draining: true, MaxRunning: 3}, told: amboy.EventResumed},
		} {
			is, err := a.admin.Control(t.Context(), a.name, step.change)
			require.NoError(t, err)
			assert.Equal(t, step.is, is)
			assert.Equal(t, step.is, control(t, a.queue))
			if step.told != "" {
				assert.Equal(t, step.told, (<-events).Kind)
			}
			assert.Empty(t, events)
		}
		queues, err := a.admin.Queues(t.Context(), driver.QueueRequest{})
		require.NoError(t, err)
		assert.Equal(t, []driver.QueueInfo{{Name: a.name, Control: driver.Control{Draining: true, MaxRunning: 3}}}, queues)

		_, err = a.admin.Control(t.Context(), a.name, driver.ControlChange{MaxRunning: new(-1)})
		require.ErrorContains(t, err, "MaxRunning must not be negative (is -1)")
		other, err := a.admin.Control(t.Context(), "another", driver.ControlChange{})
		require.NoError(t, err)
		assert.Equal(t, driver.Control{}, other)
		_, err = a.admin.Control(t.Context(), "another", driver.ControlChange{Paused: new(true)})
		require.ErrorContains(t, err, `"another"`)
	})
}

func TestNotesOfALocalQueue(t *testing.T) {
	a := newLocalAdmin(t, queue.LocalOptions{NumWorkers: 1})
	note := driver.Note{Kind: "kind", Key: "a", Value: []byte("1"), Until: time.Now().Add(time.Hour)}
	require.NoError(t, a.admin.Keep(t.Context(), note))
	_, isNew, err := a.admin.KeepNew(t.Context(), note, time.Now())
	require.NoError(t, err)
	assert.False(t, isNew)
	kept, err := a.admin.Notes(t.Context(), driver.NoteRequest{Kind: "kind", Limit: 5})
	require.NoError(t, err)
	require.Len(t, kept, 1)
	assert.Equal(t, note.Value, kept[0].Value)
	require.NoError(t, a.admin.Drop(t.Context(), "kind", "a"))
	kept, err = a.admin.Notes(t.Context(), driver.NoteRequest{Kind: "kind", Limit: 5})
	require.NoError(t, err)
	assert.Empty(t, kept)
}

// TestSubscriberOfALocalQueue counts the notifications.
func TestSubscriberOfALocalQueue(t *testing.T) {
	inLocalBubble(t, func(t *testing.T, a administered) {
		var told atomic.Int32
		cancel := a.admin.Subscribe(func(driver.Change) {
			told.Add(1)
			a.queue.Stats(context.Background()) // The subscriber is called without the lock.
		})
		changes := func(what string, change func()) {
			t.Helper()
			told.Store(0)
			change()
			synctest.Wait()
			assert.Positive(t, told.Load(), what)
		}
		j := newJob(t, "job", func(ctx context.Context, j *funcJob) {
			<-ctx.Done()
			j.AddError(ctx.Err())
		})
		expiring := noop(t, "expiring")
		expiring.SetTimeInfo(amboy.JobTimeInfo{DispatchBy: time.Now().Add(time.Hour)})
		changes("a job is put, and started", func() { put(t, a.queue, j) })
		changes("another is put", func() { put(t, a.queue, expiring) })
		changes("it is canceled, and ends", func() { a.act(a.jobs("job"), driver.Action{Kind: driver.Cancel}) })
		changes("it is removed", func() { a.act(a.jobs("job"), driver.Action{Kind: driver.Delete}) })
		changes("the queue is paused", func() { require.NoError(t, controlled(t, a.queue).Pause(t.Context())) })
		late := noop(t, "late")
		late.SetTimeInfo(amboy.JobTimeInfo{DispatchBy: time.Now().Add(time.Minute)})
		put(t, a.queue, late)
		changes("a job expires", func() { pass(time.Hour) })

		cancel()
		told.Store(0)
		put(t, a.queue, noop(t, "last"))
		synctest.Wait()
		assert.Zero(t, told.Load())
	})
}

// TestRestartOfJobsThatFailAgain restarts all failed jobs, page by page, while they fail
// again. The loop must end.
func TestRestartOfJobsThatFailAgain(t *testing.T) {
	inLocalBubble(t, func(t *testing.T, a administered) {
		const jobs = 10
		for i := range jobs {
			put(t, a.queue, newJob(t, fmt.Sprint(i), func(_ context.Context, j *funcJob) { j.AddError(errors.New("no luck")) }))
		}
		drain(t, a.queue)
		req := driver.ActRequest{
			Query:  driver.Query{States: []amboy.JobState{amboy.StateFailed}},
			Action: driver.Action{Kind: driver.Restart},
			Limit:  3,
		}
		restarted := 0
		for {
			acted, err := a.admin.Act(t.Context(), req)
			require.NoError(t, err)
			restarted += acted.Done
			drain(t, a.queue)
			if acted.Next == "" {
				break
			}
			req.After = acted.Next
		}
		assert.Equal(t, jobs, restarted)
		for i := range jobs {
			assert.Len(t, infoOf(t, a.queue, fmt.Sprint(i)).Status.Attempts, 2, "the errors are kept")
		}
	})
}

// TestCancelMakesRoomInALocalQueue checks that a Put that waits for room returns when an
// operator cancels a waiting job.
func TestCancelMakesRoomInALocalQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, err := queue.NewLocal(queue.LocalOptions{NumWorkers: 1, Capacity: 2})
		require.NoError(t, err)
		defer q.Close(context.Background())
		a := administer(t, q)
		require.NoError(t, controlled(t, q).Pause(t.Context()))
		put(t, q, noop(t, "a"), noop(t, "b"))
		var entered atomic.Int32
		for _, id := range []string{"c", "d"} {
			go func() {
				assert.NoError(t, q.Put(t.Context(), noop(t, id)))
				entered.Add(1)
			}()
		}
		synctest.Wait()
		assert.Zero(t, entered.Load())
		waiting := make(chan bool, 1)
		go func() { waiting <- amboy.WaitJob(t.Context(), noop(t, "a"), q) }()
		synctest.Wait()
		assert.Equal(t, driver.Acted{Done: 2}, a.act(a.jobs("a", "b"), driver.Action{Kind: driver.Cancel}))
		synctest.Wait()
		assert.EqualValues(t, 2, entered.Load())
		assert.True(t, <-waiting, "the waiter learns that the job has ended")
	})
}

func TestClosedLocalQueueRefusesActions(t *testing.T) {
	q, err := queue.NewLocal(queue.LocalOptions{NumWorkers: 1})
	require.NoError(t, err)
	a := administer(t, q)
	put(t, q, noop(t, "a"))
	drain(t, q)
	q.Close(t.Context())
	_, err = a.admin.Act(t.Context(), driver.ActRequest{Action: driver.Action{Kind: driver.Delete}, Limit: 1})
	require.ErrorIs(t, err, amboy.ErrQueueClosed)
	_, err = a.admin.Control(t.Context(), a.name, driver.ControlChange{Paused: new(true)})
	require.ErrorIs(t, err, amboy.ErrQueueClosed)
	assert.Len(t, a.find(a.all(), driver.PageRequest{Limit: 1}), 1, "the store can still be read")
}

// TestAdminRaces finds races between workers and administration.
func TestAdminRaces(t *testing.T) {
	q, err := queue.NewLocal(queue.LocalOptions{NumWorkers: 4, KeepFinished: 50})
	require.NoError(t, err)
	a := administer(t, q)
	defer q.Close(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := range 300 {
			j := newJob(t, fmt.Sprint(i), func(ctx context.Context, j *funcJob) {
				if i%5 == 0 {
					<-ctx.Done()
				}
				if i%3 == 0 {
					j.AddRetryableError(errors.New("no luck"))
				}
			})
			j.SetScopes([]string{fmt.Sprint(i % 7)})
			if i%5 != 0 {
				retryable(j, 2)
			}
			assert.NoError(t, q.Put(t.Context(), j))
		}
	}()
	kinds := []driver.ActionKind{driver.Park, driver.Prioritize, driver.Unpark, driver.Restart, driver.RunNow, driver.Delete}
	for i := 0; ; i++ {
		a.find(a.all(), driver.PageRequest{Limit: 20})
		a.act(a.all(), driver.Action{Kind: kinds[i%len(kinds)], Priority: i % 3})
		a.act(driver.Query{States: []amboy.JobState{amboy.StateRunning}, ID: "*5"}, driver.Action{Kind: driver.Cancel})
		select {
		case <-done:
		default:
			continue
		}
		a.act(a.all(), driver.Action{Kind: driver.Unpark})
		a.act(driver.Query{}, driver.Action{Kind: driver.Cancel})
		if a.queue.Stats(t.Context()).IsIdle() {
			break
		}
	}
	assert.Empty(t, a.find(driver.Query{Holding: true}, driver.PageRequest{Limit: 1}))
}
