package queue_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/queue/driver"
)

// endAndDelete ends a running job, as another process may, and removes it.
func endAndDelete(t *testing.T, store driver.Driver, id string) {
	t.Helper()
	running, err := store.Get(t.Context(), "", id)
	require.NoError(t, err)
	over := *running
	over.Status.Completed, over.Status.InProgress = true, false
	errs, err := store.Complete(t.Context(), []driver.Completion{{Lease: driver.LeaseOf(running), Record: &over}})
	require.NoError(t, err)
	require.NoError(t, errs[0])
	acted, err := store.Act(t.Context(), driver.ActRequest{Query: driver.Query{ID: id}, Action: driver.Action{Kind: driver.Delete}, Limit: 1})
	require.NoError(t, err)
	require.Equal(t, 1, acted.Done)
}

// The run of a job went on after an operator had ended the job, removed it and put it again. When it
// returned, it ended the run of the later job, which the same process had claimed by then.
func TestARunEndedALaterJobOfTheID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newStore(t)
		q := startEngine(t, store, 2)
		defer q.Close(ended())
		returnFirst, returnSecond := make(chan struct{}), make(chan struct{})
		require.NoError(t, q.Put(t.Context(), newJob(t, "nightly", func(_ context.Context, j *funcJob) {
			<-returnFirst
			j.AddError(errors.New("it failed"))
		})))
		synctest.Wait()
		endAndDelete(t, store, "nightly")

		require.NoError(t, q.Put(t.Context(), newJob(t, "nightly", func(context.Context, *funcJob) { <-returnSecond })))
		synctest.Wait()
		r, err := store.Get(t.Context(), "", "nightly")
		require.NoError(t, err)
		require.True(t, r.Status.InProgress, "%+v", r.Status)
		close(returnFirst)
		synctest.Wait()
		r, err = store.Get(t.Context(), "", "nightly")
		require.NoError(t, err)
		require.True(t, r.Status.InProgress, "%+v", r.Status)
		close(returnSecond)
		synctest.Wait()
		r, err = store.Get(t.Context(), "", "nightly")
		require.NoError(t, err)
		require.Equal(t, amboy.StateSucceeded, driver.StateOf(r, r.TimeInfo.End), "%+v", r.Status)
	})
}

// The same with a runner that does not know that the lease was lost, after a heartbeat has found it.
func TestARunThatLostItsLeaseEndedALaterJobOfTheID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newStore(t)
		q := startIdle(t, store)
		defer q.Close(context.Background())
		put(t, q, noop(t, "nightly"))
		first := q.Next(within(t))
		require.NotNil(t, first)
		run, unlease := q.(amboy.JobContexter).JobContext(t.Context(), first)
		endAndDelete(t, store, "nightly")
		pass(time.Minute)
		require.ErrorIs(t, context.Cause(run), amboy.ErrLeaseLost)
		unlease()

		require.ErrorIs(t, q.Complete(within(t), first), amboy.ErrLeaseLost, "the job does not exist")
		put(t, q, noop(t, "nightly"))
		second := q.Next(within(t))
		require.NotNil(t, second)
		require.ErrorIs(t, q.Complete(within(t), first), amboy.ErrLeaseLost)
		require.Equal(t, 1, q.Stats(t.Context()).Running)
		require.NoError(t, q.Complete(within(t), second))
	})
}

// A copy has no stamp. It was refused although it shows the lease of the running job.
func TestACopyOfARunningJobDidNotEndIt(t *testing.T) {
	eachStore(t, func(t *testing.T, process func() driver.Driver) {
		q := startProcess(t, process(), 1)
		started, release := make(chan struct{}), make(chan struct{})
		defer close(release)
		require.NoError(t, q.Put(t.Context(), newJob(t, "job", func(context.Context, *funcJob) {
			close(started)
			<-release
		})))
		<-started
		fetched, found := q.Get(t.Context(), "job")
		require.True(t, found)
		require.NoError(t, q.Save(t.Context(), fetched))
		fetched.AddError(errors.New("an operator gave up"))
		require.NoError(t, q.Complete(t.Context(), fetched))
		ended, found := q.Get(t.Context(), "job")
		require.True(t, found)
		require.True(t, ended.Status().Completed)
		require.EqualError(t, ended.Error(), "an operator gave up")

		stale := fetched.Status()
		stale.ModificationCount--
		fetched.SetStatus(stale)
		require.ErrorIs(t, q.Complete(t.Context(), fetched), amboy.ErrLeaseLost)
	})
}
