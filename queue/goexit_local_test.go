package queue_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue"
)

func TestAJobThatEndedTheGoroutineOfPutWedgedItsQueue(t *testing.T) {
	q := startLocal(t)
	j := newBrittle(t, "SetTimeInfo")
	j.exits = true
	j.SetScopes([]string{"scope"})
	j.SetEnqueueScopes("scope")
	inTime(t, func() { _ = q.Put(t.Context(), j) })
	last := noop(t, "last")
	last.SetScopes([]string{"scope"})
	inTime(t, func() { assert.NoError(t, q.Put(t.Context(), last)) })
	drain(t, q)
	assert.Equal(t, []string{"last"}, listed(t, q))
}

func TestAJobWithAStaleLockThatEndedTheGoroutineWedgedItsQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := startLocal(t)
		j := newBrittle(t, "")
		j.exits = true
		j.SetStatus(amboy.JobStatusInfo{InProgress: true, Owner: "another process", ModificationTime: time.Now()})
		put(t, q, j)
		j.breaks.Store("Status")
		pass(time.Hour)
		j.breaks.Store("")
		assert.Equal(t, amboy.QueueStats{Completed: 1, Total: 1}, q.Stats(t.Context()))
	})
}

func TestAnExpiredJobThatEndedTheGoroutineKeptOthersFromEnding(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := startLocal(t)
		require.NoError(t, q.(amboy.QueueController).Pause(t.Context()))
		j, other := newBrittle(t, "AddError"), noop(t, "other")
		j.exits = true
		for _, j := range []amboy.Job{j, other} {
			j.UpdateTimeInfo(amboy.JobTimeInfo{DispatchBy: time.Now().Add(time.Minute)})
			put(t, q, j)
		}
		pass(2 * time.Minute)
		assert.Equal(t, amboy.QueueStats{Completed: 2, Total: 2}, q.Stats(t.Context()))
	})
}

func TestAJobThatEndedTheGoroutineOfTheRenewalLostTheLocksOfOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := queue.NewDispatcher(&savingQueue{})
		j, other := newBrittle(t, ""), noop(t, "other")
		j.exits = true
		require.NoError(t, d.Dispatch(t.Context(), j))
		require.NoError(t, d.Dispatch(t.Context(), other))
		j.breaks.Store("Lock")
		pass(time.Hour)
		assert.Less(t, time.Since(other.Status().ModificationTime), time.Minute)
		require.NoError(t, d.Close(t.Context()))
	})
}

func TestAJobThatEndedTheGoroutineOfItsWorkerBeforeItsRunRanForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := startLocal(t)
		require.NoError(t, amboy.Pause(t.Context(), q))
		j := newBrittle(t, "")
		j.exits = true
		put(t, q, j)
		j.breaks.Store("Type")
		require.NoError(t, amboy.Resume(t.Context(), q))
		drain(t, q)
		assert.Equal(t, amboy.QueueStats{Completed: 1, Total: 1}, q.Stats(t.Context()))
	})
}
