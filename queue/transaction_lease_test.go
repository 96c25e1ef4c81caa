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
	"go.mongodb.org/mongo-driver/mongo"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/mongotest"
	"github.com/mongodb/amboy/queue"
	"github.com/mongodb/amboy/queue/driver"
)

// inSession runs a test on a queue of MongoDB with one worker and a lock timeout of a minute.
func inSession(t *testing.T, test func(t *testing.T, server *mongotest.Deployment, q amboy.Queue)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		server := mongotest.Open(t, mongotest.InMemory())
		q := transactionalQueue(t, openMongoDBDriver(t, server), amboy.Middleware{})
		require.NoError(t, q.Start(context.WithoutCancel(t.Context())))
		test(t, server, q)
	})
}

// endInSession ends a job in a transaction, which fails with the given error if there is one.
func endInSession(ctx context.Context, server *mongotest.Deployment, q amboy.Queue, j amboy.Job, failure error) error {
	session, err := server.Client().StartSession()
	if err != nil {
		return err
	}
	defer session.EndSession(ctx)
	_, err = session.WithTransaction(ctx, func(ctx mongo.SessionContext) (any, error) { //nolint:contextcheck // It inherits it.
		return nil, errors.Join(q.(amboy.TransactionalCompleter).CompleteIn(ctx, j), failure)
	})
	return err
}

// scopedRun is what is known of a job with a scope after it has run.
type scopedRun struct {
	state  amboy.JobState
	events []amboy.EventKind
	lines  []string      // of the log
	freed  time.Duration // from when its last run returned until a job that waited for its scope began
}

// runWithScope runs a job with a scope.
func runWithScope(t *testing.T, q amboy.Queue, run func(ctx context.Context, j *funcJob)) (found scopedRun) {
	t.Helper()
	var returned, began time.Time
	holds := newJob(t, "holds", func(ctx context.Context, j *funcJob) {
		run(ctx, j)
		returned = time.Now()
	})
	waits := newJob(t, "waits", func(context.Context, *funcJob) { began = time.Now() })
	events, cancel, err := amboy.Subscribe(q, 100)
	require.NoError(t, err)
	defer cancel()
	found.lines = logged(t, func() {
		for _, j := range []*funcJob{holds, waits} {
			j.SetScopes([]string{"scope"})
			require.NoError(t, q.Put(t.Context(), j))
		}
		require.True(t, amboy.Wait(t.Context(), q))
		synctest.Wait()
	}, "message", "job_id")
	for len(events) > 0 {
		if e := <-events; e.JobID == holds.ID() {
			found.events = append(found.events, e.Kind)
		}
	}
	stored, _ := q.Get(t.Context(), holds.ID())
	found.state, found.freed = amboy.NewJobInfo(stored).State, began.Sub(returned)
	return found
}

// The renewal was sent before the job began to end, and reached the server after the commit. The answer, that no job
// runs under the lease, was taken for its loss: the context ended, and the job was dropped with a warning and without
// an event, while its scope was held.
func TestARenewalThatWasUnderWayLostTheLeaseOfAJobThatEndedInItsTransaction(t *testing.T) {
	inSession(t, func(t *testing.T, server *mongotest.Deployment, q amboy.Queue) {
		renews, ended := make(chan struct{}), make(chan struct{})
		var held atomic.Bool
		server.Server().Intercept(func(c mongotest.Intercepted) mongotest.Fate {
			filter, isUpdate := c.Command.Lookup("updates", "0", "q").DocumentOK()
			isJob := c.Collection == "jobs.group" && isUpdate
			if isJob && filter.Lookup("rev").Type == 0 && !held.Swap(true) { // all other changes name the revision
				close(renews)
				<-ended
			}
			return mongotest.Served
		})
		var failure, cause error
		found := runWithScope(t, q, func(ctx context.Context, j *funcJob) {
			<-renews
			failure = endInSession(ctx, server, q, j, nil)
			close(ended)
			time.Sleep(time.Second)
			cause = context.Cause(ctx)
		})
		require.NoError(t, failure)
		require.NoError(t, cause)
		assert.Equal(t, amboy.StateSucceeded, found.state)
		assert.Contains(t, found.events, amboy.EventSucceeded)
		assert.Empty(t, found.lines)
		assert.Less(t, found.freed, 100*time.Millisecond)
	})
}

// The context ends, because the lease is not renewed any more. The job was dropped.
func TestAJobThatEndedInItsTransactionAndReturnedAfterItsLeaseWasDropped(t *testing.T) {
	inSession(t, func(t *testing.T, server *mongotest.Deployment, q amboy.Queue) {
		var failure error
		found := runWithScope(t, q, func(ctx context.Context, j *funcJob) {
			failure = endInSession(ctx, server, q, j, nil)
			<-ctx.Done()
		})
		require.NoError(t, failure)
		assert.Equal(t, amboy.StateSucceeded, found.state)
		assert.Contains(t, found.events, amboy.EventSucceeded)
		assert.NotContains(t, found.lines, "warning|job has not ended in its queue|holds")
	})
}

func TestAJobThatHasLostItsLeaseAfterItsTransactionWasRolledBackRunsAgain(t *testing.T) {
	inSession(t, func(t *testing.T, server *mongotest.Deployment, q amboy.Queue) {
		runs := 0
		found := runWithScope(t, q, func(ctx context.Context, j *funcJob) {
			runs++
			if runs == 1 {
				j.AddError(endInSession(ctx, server, q, j, errors.New("it changed its mind")))
				<-ctx.Done()
			}
		})
		assert.Equal(t, 2, runs)
		assert.Equal(t, amboy.StateSucceeded, found.state)
	})
}

// It was logged as an error that the job had not ended, because it was not found.
func TestAJobThatEndedInItsTransactionAndWasRemovedBeforeItReturnedHadNotEnded(t *testing.T) {
	inSession(t, func(t *testing.T, server *mongotest.Deployment, q amboy.Queue) {
		store, _ := queue.StoreOf(q)
		var failure error
		lines := logged(t, func() {
			put(t, q, newJob(t, "job", func(ctx context.Context, j *funcJob) {
				failure = endInSession(ctx, server, q, j, nil)
				removed, err := store.Admin().Act(ctx, driver.ActRequest{
					Query: driver.Query{Queues: store.Queues()}, Action: driver.Action{Kind: driver.Delete}, Limit: 10,
				})
				failure = errors.Join(failure, err)
				assert.Equal(t, 1, removed.Done)
			}))
			require.True(t, amboy.Wait(t.Context(), q))
			synctest.Wait()
		}, "message", "job_id")
		require.NoError(t, failure)
		assert.Empty(t, lines)
	})
}
