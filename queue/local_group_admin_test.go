package queue_test

import (
	"context"
	"fmt"
	"math"
	"slices"
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

// newAdministeredGroup returns a local group of paused queues with three jobs in each.
func newAdministeredGroup(t *testing.T, names ...string) (amboy.QueueGroup, driver.Admin) {
	t.Helper()
	g, err := queue.NewLocalQueueGroup(t.Context(), queue.LocalQueueGroupOptions{DefaultQueue: queue.LocalQueueOptions{
		Constructor: func(context.Context) (amboy.Queue, error) {
			return queue.NewLocal(queue.LocalOptions{NumWorkers: 1})
		},
	}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, g.Close(context.Background())) })
	for _, name := range names {
		q, err := g.Get(t.Context(), name)
		require.NoError(t, err)
		require.NoError(t, controlled(t, q).Pause(t.Context()))
		for i := range 3 {
			put(t, q, noop(t, fmt.Sprint(i)))
		}
	}
	store, ok := queue.StoreOfGroup(g)
	require.True(t, ok)
	return g, store.Admin()
}

// inQueues returns the names of records, with those of their queues.
func inQueues(records []*driver.Record) []string {
	names := make([]string, len(records))
	for i, r := range records {
		names[i] = r.Group + "/" + r.JobID()
	}
	return names
}

func TestPagesOfALocalGroup(t *testing.T) {
	_, admin := newAdministeredGroup(t, "b and c", "a", "d")
	all := []string{"a/0", "a/1", "a/2", "b and c/0", "b and c/1", "b and c/2", "d/0", "d/1", "d/2"}
	find := func(q driver.Query, page driver.PageRequest) []string {
		return inQueues(administered{t: t, admin: admin}.find(q, page))
	}
	for _, limit := range []int{1, 2, 3, 4, 9, 10} {
		assert.Equal(t, all, find(driver.Query{}, driver.PageRequest{Limit: limit}), "%d on a page", limit)
		newest := find(driver.Query{}, driver.PageRequest{Limit: limit, Newest: true})
		slices.Reverse(newest)
		assert.Equal(t, all, newest, "%d on a page", limit)
		assert.Equal(t, []string{"a/1", "d/1"}, find(driver.Query{Queues: []string{"d", "a", "x"}, ID: "1"}, driver.PageRequest{Limit: limit}))
	}
	n, err := admin.Count(t.Context(), driver.Query{}, math.MaxInt)
	require.NoError(t, err)
	assert.Equal(t, 9, n)
	n, err = admin.Count(t.Context(), driver.Query{}, 4)
	require.NoError(t, err)
	assert.Equal(t, 4, n)

	for _, after := range []driver.Cursor{"nowhere", "%zz 1", "a x"} {
		_, err = admin.Find(t.Context(), driver.Query{}, driver.PageRequest{Limit: 1, After: after})
		require.ErrorIs(t, err, driver.ErrBadCursor, after)
	}
	_, err = admin.Find(t.Context(), driver.Query{}, driver.PageRequest{})
	require.Error(t, err)
}

func TestActionsInALocalGroup(t *testing.T) {
	_, admin := newAdministeredGroup(t, "a", "b", "c")
	req := driver.ActRequest{Query: driver.Query{Queues: []string{"a", "c"}}, Action: driver.Action{Kind: driver.Park}, Limit: 4}
	first, err := admin.Act(t.Context(), req)
	require.NoError(t, err)
	assert.Equal(t, 4, first.Done)
	req.After = first.Next
	second, err := admin.Act(t.Context(), req)
	require.NoError(t, err)
	assert.Equal(t, driver.Acted{Done: 2}, second)
	parked := administered{t: t, admin: admin}.find(driver.Query{States: []amboy.JobState{amboy.StateParked}}, driver.PageRequest{Limit: 2})
	assert.Equal(t, []string{"a/0", "a/1", "a/2", "c/0", "c/1", "c/2"}, inQueues(parked))
	_, err = admin.Act(t.Context(), driver.ActRequest{Action: driver.Action{Kind: "explode"}, Limit: 1})
	require.Error(t, err)
}

func statsIn(t *testing.T, admin driver.Admin, name string) amboy.QueueStats {
	t.Helper()
	stats, err := admin.Stats(t.Context(), name)
	require.NoError(t, err)
	return stats
}

func TestQueuesOfALocalGroup(t *testing.T) {
	g, admin := newAdministeredGroup(t, "a", "b")
	stored, err := queue.NewLocalLimitedSizeSerializable(1, 10)
	require.NoError(t, err)
	require.NoError(t, stored.Start(t.Context()))
	require.NoError(t, g.Put(t.Context(), "stored", stored))
	require.NoError(t, controlled(t, stored).Pause(t.Context()))
	put(t, stored, retryable(noop(t, "job"), 3))

	queues, err := admin.Queues(t.Context(), driver.QueueRequest{})
	require.NoError(t, err)
	var names []string
	for _, q := range queues {
		names = append(names, q.Name)
		assert.True(t, q.Control.Paused, q.Name)
		assert.Equal(t, q.Stats, statsIn(t, admin, q.Name))
		assert.Positive(t, q.Stats.Pending)
	}
	assert.Equal(t, []string{"a", "b", "stored"}, names)

	r, err := admin.Get(t.Context(), "stored", "job")
	require.NoError(t, err)
	assert.Equal(t, "stored", r.Group)
	assert.Equal(t, "job", r.JobID())
	assert.Equal(t, driver.RecordName("stored", "job", r.RetryInfo), r.Name)
	attempts, err := admin.Attempts(t.Context(), "stored", "job")
	require.NoError(t, err)
	assert.Equal(t, []string{"stored/job"}, inQueues(attempts))

	is, err := admin.Control(t.Context(), "b", driver.ControlChange{MaxRunning: new(2)})
	require.NoError(t, err)
	assert.Equal(t, driver.Control{Paused: true, MaxRunning: 2}, is)

	_, err = admin.Get(t.Context(), "closed", "job")
	assert.True(t, amboy.IsJobNotFoundError(err))
	attempts, err = admin.Attempts(t.Context(), "closed", "job")
	require.NoError(t, err)
	assert.Empty(t, attempts)
	assert.Equal(t, amboy.QueueStats{}, statsIn(t, admin, "closed"))
	is, err = admin.Control(t.Context(), "closed", driver.ControlChange{})
	require.NoError(t, err)
	assert.Equal(t, driver.Control{}, is)
	_, err = admin.Control(t.Context(), "closed", driver.ControlChange{Paused: new(true)})
	require.ErrorContains(t, err, "not open")
}

func TestSubscriberOfALocalGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, admin := newAdministeredGroup(t, "a")
		var told atomic.Int32
		cancel := admin.Subscribe(func(driver.Change) { told.Add(1) })
		changes := func(what string, change func()) {
			t.Helper()
			told.Store(0)
			change()
			assert.Positive(t, told.Load(), what)
		}
		var later amboy.Queue
		changes("a queue is opened", func() {
			var err error
			later, err = g.Get(t.Context(), "later")
			require.NoError(t, err)
		})
		changes("a job is put there", func() { put(t, later, noop(t, "job")) })
		drain(t, later)
		changes("an action", func() {
			_, err := admin.Act(t.Context(), driver.ActRequest{Action: driver.Action{Kind: driver.Park}, Limit: 10})
			require.NoError(t, err)
		})
		synctest.Wait()
		cancel()
		told.Store(0)
		put(t, later, noop(t, "another"))
		synctest.Wait()
		assert.Zero(t, told.Load())
	})
}

func TestNotesOfALocalGroup(t *testing.T) {
	_, admin := newAdministeredGroup(t, "a")
	note := driver.Note{Kind: "kind", Key: "a", Until: time.Now().Add(time.Hour)}
	require.NoError(t, admin.Keep(t.Context(), note))
	_, isNew, err := admin.KeepNew(t.Context(), note, time.Now())
	require.NoError(t, err)
	assert.False(t, isNew)
	kept, err := admin.Notes(t.Context(), driver.NoteRequest{Kind: "kind", Limit: 1})
	require.NoError(t, err)
	assert.Len(t, kept, 1)
	require.NoError(t, admin.Drop(t.Context(), "kind", "a"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, admin.Keep(ctx, note), context.Canceled)
}

// A queue that had left a local group still sent it the changes of its store, which the queue
// that replaced it sent too.
func TestAClosedQueueSentItsChangesToItsGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newStore(t)
		g, err := queue.NewLocalQueueGroup(t.Context(), queue.LocalQueueGroupOptions{DefaultQueue: queue.LocalQueueOptions{
			Constructor: func(context.Context) (amboy.Queue, error) {
				return queue.NewDriverQueue(queue.DriverQueueOptions{Driver: store, Name: "q", NumWorkers: 1})
			},
		}})
		require.NoError(t, err)
		defer func() { require.NoError(t, g.Close(context.Background())) }()
		q, err := g.Get(t.Context(), "q")
		require.NoError(t, err)
		group, ok := queue.StoreOfGroup(g)
		require.True(t, ok)
		var changes atomic.Int64
		defer group.Admin().Subscribe(func(driver.Change) { changes.Add(1) })()
		pause := func(paused bool) {
			_, err = store.Control(t.Context(), "q", driver.ControlChange{Paused: &paused})
			require.NoError(t, err)
		}
		pause(true)
		assert.Equal(t, int64(1), changes.Swap(0))
		q.Close(t.Context())
		synctest.Wait()
		pause(false)
		assert.Zero(t, changes.Load())
	})
}
