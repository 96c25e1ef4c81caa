package queue_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/activity"
	"github.com/mongodb/amboy/internal/presence"
	"github.com/mongodb/amboy/queue"
	"github.com/mongodb/amboy/queue/driver"
)

func storeOf(t *testing.T, q amboy.Queue) *queue.Store {
	t.Helper()
	store, ok := queue.StoreOf(q)
	require.True(t, ok)
	return store
}

// A process announces itself when it starts. A Refresh after that does not have to wait.
func TestRefreshRightAfterTheStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newNoteKeeper(t)
		g, err := queue.NewDriverGroup(t.Context(), queue.DriverGroupOptions{
			DefaultQueue:              queue.DriverQueueOptions{Driver: k, NumWorkers: 1},
			BackgroundCreateFrequency: queue.NoBackgroundCreate,
		})
		require.NoError(t, err)
		defer func() { assert.NoError(t, g.Close(ended())) }()
		store, ok := queue.StoreOfGroup(g)
		require.True(t, ok)
		a := open(t, g, "a")
		synctest.Wait()
		j := noop(t, "job")
		put(t, a, j)
		synctest.Wait()
		require.NoError(t, store.Refresh(t.Context()))
		assert.Equal(t, 1, activityIn(t, k, activity.MinuteKind)[[2]string{"a", j.Type().Name}].Succeeded)
		open(t, g, "b")
		require.NoError(t, store.Refresh(t.Context()))
		assert.Len(t, processesIn(t, k)[0].Queues, 2)
	})
}

func TestRefreshOfALocalGroupRightAfterAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, store := localGroup(t)
		openAny(t, g, "a")
		require.NoError(t, store.Refresh(t.Context()))
		openAny(t, g, "b")
		require.NoError(t, store.Refresh(t.Context()))
		assert.Len(t, processesIn(t, store.Admin()), 2)
	})
}

// A caller that waits for a job finds it counted when it is woken. (A caller that reads
// the store without waiting may come between the job's end and its counting.)
func TestAWaiterFindsItsJobCounted(t *testing.T) {
	for range 100 {
		synctest.Test(t, func(t *testing.T) {
			k := newNoteKeeper(t)
			q := onKeeper(t, k, "q", 1)
			require.NoError(t, q.Start(t.Context()))
			defer q.Close(ended())
			j, started, release := holder(t, "job")
			put(t, q, j)
			<-started
			waited := make(chan bool)
			go func() { waited <- amboy.WaitJob(t.Context(), j, q) }()
			synctest.Wait()
			go release()
			require.True(t, <-waited)
			require.NoError(t, storeOf(t, q).Refresh(t.Context()))
			require.Equal(t, 1, activityIn(t, k, activity.MinuteKind)[[2]string{"q", j.Type().Name}].Succeeded)
		})
	}
}

func TestAClosedProcessStoresNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newNoteKeeper(t)
		q := onKeeper(t, k, "q", 1)
		require.NoError(t, q.Start(t.Context()))
		synctest.Wait()
		store := storeOf(t, q)
		q.Close(t.Context())
		pass(time.Hour)
		require.NoError(t, store.Refresh(t.Context()))
		assert.Empty(t, processesIn(t, k))
	})
}

// heldNotes makes readers of the wanted numbers of workers wait after they have read.
type heldNotes struct {
	*noteKeeper
	reading, release chan struct{}
}

func (h heldNotes) Notes(ctx context.Context, request driver.NoteRequest) ([]driver.Note, error) {
	notes, err := h.noteKeeper.Notes(ctx, request)
	if request.Kind == presence.WorkersKind {
		h.reading <- struct{}{}
		<-h.release
	}
	return notes, err
}

func TestWorkersThatAreSetWhileTheNumberIsRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := heldNotes{newNoteKeeper(t), make(chan struct{}), make(chan struct{})}
		q := onKeeper(t, h, "q", 1)
		require.NoError(t, q.Start(t.Context()))
		<-h.reading
		require.NoError(t, storeOf(t, q).SetWorkers(t.Context(), "q", 5))
		close(h.release)
		synctest.Wait()
		assert.Equal(t, 5, amboy.Workers(q))
		go func() {
			for range h.reading {
			}
		}()
		pass(time.Minute)
		assert.Equal(t, 5, amboy.Workers(q))
		q.Close(t.Context())
		close(h.reading)
	})
}

// A queue that is closed while a group is read is left out.
func TestAClosedQueueOfALocalGroupIsLeftOut(t *testing.T) {
	g, store := localGroup(t)
	put(t, openAny(t, g, "a"), noop(t, "job"))
	stored, err := queue.NewLocalLimitedSizeSerializable(1, 10)
	require.NoError(t, err)
	require.NoError(t, stored.Start(t.Context()))
	require.NoError(t, g.Put(t.Context(), "stored", stored))
	stored.Close(t.Context())

	page, err := store.Admin().Find(t.Context(), driver.Query{}, driver.PageRequest{Limit: 10})
	require.NoError(t, err)
	assert.Equal(t, []string{"a/job"}, inQueues(page.Records))
	queues, err := store.Admin().Queues(t.Context(), driver.QueueRequest{})
	require.NoError(t, err)
	assert.Len(t, queues, 1)
	require.NoError(t, store.Refresh(t.Context()))
	assert.Len(t, processesIn(t, store.Admin()), 1)
}
