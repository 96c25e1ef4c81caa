package mongodb_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/bson"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/mongotest"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/mongodb"
)

// interruptedSwap returns a driver of a store in which an attempt has ended for good, and the next one has not
// taken its place yet: another client's transaction blocks it until release is called.
func interruptedSwap(t *testing.T, change ...func(*driver.Record)) (d *mongodb.Driver, next *driver.Record, release func()) {
	t.Helper()
	s := mongotest.Open(t, mongotest.InMemory())
	d = openOn(t, s)
	failed, next := awaitingRetry(t, d, append(change, func(r *driver.Record) { fails(0, r) })...)
	inserted := make(chan struct{})
	blocked := make(chan struct{})
	s.Server().Intercept(func(c mongotest.Intercepted) mongotest.Fate {
		if c.Name == "update" && c.Collection == "work.group" {
			select {
			case <-inserted:
			default:
				close(inserted)
				<-blocked
			}
		}
		return mongotest.Served
	})
	ended := make(chan error, 1)
	go func() { ended <- d.Retry(t.Context(), failed, next) }()
	<-inserted
	session, inTx := begin(t, s.Client())
	_, err := s.Client().Database(s.Database()).Collection("work.group").UpdateOne(inTx, bson.M{"_id": next.Name}, bson.M{"$set": bson.M{"touched": true}})
	require.NoError(t, err)
	close(blocked)
	require.ErrorIs(t, <-ended, driver.ErrOutcomeUnknown)
	return d, next, func() { require.NoError(t, session.AbortTransaction(t.Context())) }
}

// takesItsPlace requires that a sweep completes a retry, and that the next attempt runs.
func takesItsPlace(t *testing.T, d driver.Driver, next *driver.Record) {
	t.Helper()
	time.Sleep(11 * time.Second) // the second sweep after a retry finishes it, and comes within 10
	running := claimAll(t, d, request("owner", 1, "queue"))
	require.Len(t, running, 1)
	assert.Equal(t, next.Name, running[0].Name)
	endAll(t, d, running...)
}

func TestAJobWasOutOfSightWhileItsAttemptsChangedPlaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, next, release := interruptedSwap(t, func(r *driver.Record) { r.Tags = []string{"tag"} })
		r, err := d.Get(t.Context(), "queue", "job")
		require.NoError(t, err)
		assert.Equal(t, next.Name, r.Name)
		assert.Equal(t, amboy.StatePending, driver.StateOf(r, time.Now()))
		isIdle, err := d.IsIdle(t.Context(), "queue")
		require.NoError(t, err)
		assert.False(t, isIdle)
		stats, err := d.Stats(t.Context(), "queue")
		require.NoError(t, err)
		assert.Equal(t, 1, stats.Pending)
		for name, q := range map[string]driver.Query{
			"by ID":    {Latest: true, Queues: []string{"queue"}, JobIDs: []string{"job"}},
			"by tag":   {Latest: true, Queues: []string{"queue"}, Tags: []string{"tag"}},
			"by state": {Latest: true, Queues: []string{"queue"}, States: []amboy.JobState{amboy.StatePending}},
		} {
			page, failure := d.Find(t.Context(), q, driver.PageRequest{Limit: 10})
			require.NoError(t, failure)
			assert.Equal(t, []string{next.Name}, names(page.Records), name)
		}
		attempts, err := d.Attempts(t.Context(), "queue", "job")
		require.NoError(t, err)
		assert.Len(t, attempts, 2)
		release()
		takesItsPlace(t, d, next)
	})
}

func TestADependentOfAJobWhoseAttemptsChangePlacesWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, next, release := interruptedSwap(t)
		release()
		putAll(t, d, plainRecord("waits", dependsOn("job")))
		assert.Empty(t, claimAll(t, d, request("owner", 10, "queue")))
		takesItsPlace(t, d, next)
		running := claimAll(t, d, request("owner", 10, "queue"))
		require.Len(t, running, 1, "it ended")
		assert.Equal(t, "queue.waits", running[0].Name)
	})
}

func TestAJobOfTheSameIDWasPutWhileTheAttemptsChangedPlaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, next, release := interruptedSwap(t)
		again := *next
		again.RetryInfo.CurrentAttempt = 0
		again.Name = driver.RecordName("queue", "job", again.RetryInfo)
		errs, err := d.Insert(t.Context(), []*driver.Record{&again})
		require.NoError(t, err)
		assert.True(t, amboy.IsDuplicateJobError(errs[0]), errs[0])
		release()
		takesItsPlace(t, d, next)
	})
}

// The ID of a job that can be retried does not keep one with its ID that can't from being put.
func TestAJobWasNotRetriedBecauseOfOneOfItsIDThatCanNotBeRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, next, release := interruptedSwap(t)
		putAll(t, d, plainRecord("job"))
		release()
		time.Sleep(11 * time.Second)
		running := claimAll(t, d, request("owner", 10, "queue"))
		assert.ElementsMatch(t, []string{next.Name, "queue.job"}, names(running))
		endAll(t, d, running...)
	})
}

// Nothing then keeps another job from being put under its ID between two statements.
func TestARetryAfterTheFirstAttemptWasRemovedNeedsATransaction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStoreOf(t, mongotest.Options{InMemory: true})
		d, sent := counted(t, s)
		failed, second := awaitingRetry(t, d)
		require.NoError(t, d.Retry(t.Context(), failed, second))
		running := claimAll(t, d, request("owner", 1, "queue"))
		require.Len(t, running, 1)
		ended := *running[0]
		ended.RetryInfo.NeedsRetry = true
		endAll(t, d, &ended)
		ended.Status.Completed, ended.Status.InProgress = true, false
		_, err := s.jobs(true).DeleteOne(t.Context(), bson.M{"_id": failed.Name})
		require.NoError(t, err)
		third := *second
		third.RetryInfo.CurrentAttempt = 2
		third.Name = driver.RecordName("queue", "job", third.RetryInfo)
		synctest.Wait()
		assert.Equal(t, 1, sent.during(func() { require.NoError(t, d.Retry(t.Context(), &ended, &third)) })["commitTransaction"])
		assert.Equal(t, []string{third.Name}, names(claimAll(t, d, request("owner", 1, "queue"))))
	})
}

// Such an attempt has no job ID, by which the index refuses to let its successor take over.
func TestARetryOfAJobOfTheLegacyLibraryNeedsATransaction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStoreOf(t, mongotest.Options{InMemory: true})
		d, sent := counted(t, s)
		failed, next := awaitingRetry(t, d)
		_, err := s.jobs(true).UpdateOne(t.Context(), bson.M{"_id": failed.Name}, bson.M{"$unset": bson.M{"job_id": 1, "order": 1, "rev": 1}})
		require.NoError(t, err)
		synctest.Wait()
		assert.Equal(t, 1, sent.during(func() { require.NoError(t, d.Retry(t.Context(), failed, next)) })["commitTransaction"])
		assert.Equal(t, []string{next.Name}, names(claimAll(t, d, request("owner", 1, "queue"))))
	})
}

func TestRetriesWereMadeOfJobsThatEndedMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mongotest.Open(t, mongotest.InMemory())
		d, other := openOn(t, s), openOn(t, s)
		pairs := awaitingRetries(t, d, 5, fails)
		updates, ended := 0, 0
		s.Server().Intercept(func(c mongotest.Intercepted) mongotest.Fate {
			if c.Name == "update" && c.Collection == "work.group" {
				updates++
				if updates == 2 { // the first is that of the first call
					for _, p := range pairs {
						if other.EndRetry(t.Context(), p.failed) == nil {
							ended++
						}
					}
				}
			}
			return mongotest.Served
		})
		retried := 0
		for _, err := range retryAll(t.Context(), d, pairs...) {
			if err == nil {
				retried++
				continue
			}
			require.ErrorIs(t, err, driver.ErrLeaseLost)
		}
		assert.Equal(t, 4, ended)
		assert.Equal(t, 1, retried)
		assert.Len(t, claimAll(t, d, request("owner", 10, "queue")), 1)
		stats, err := d.Stats(t.Context(), "queue")
		require.NoError(t, err)
		assert.Equal(t, amboy.QueueStats{Running: 1, Completed: 5, Total: 6}, stats)
	})
}
