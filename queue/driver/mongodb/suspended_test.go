package mongodb_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/bson"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/mongotest"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/mongodb"
)

// A claim could not tell whether an earlier one had taken a job, because a transaction was in the way.
// It then took that job itself, under the lease that the earlier one would have had, and the next claim
// handed it back while it ran.
func TestAClaimHandedBackAJobThatWasClaimedAfterADoubtfulClaim(t *testing.T) {
	inMemory(t, func(t *testing.T, s *mongotest.Deployment) {
		d := openOn(t, s)
		putAll(t, d, plainRecord("job"))
		touch := func() (end func()) {
			session, inTx := begin(t, s.Client())
			_, err := s.Client().Database(s.Database()).Collection("work.group").UpdateOne(inTx, bson.M{"_id": "queue.job"}, bson.M{"$set": bson.M{"touched": true}})
			require.NoError(t, err)
			return func() { require.NoError(t, session.AbortTransaction(t.Context())) }
		}
		end := touch()
		require.Empty(t, claimAll(t, d, request("owner", 1, "queue")))
		end()
		pass(2 * time.Minute) // the process was suspended
		end = touch()
		time.AfterFunc(1100*time.Millisecond, end) // after the claim gave up to undo the earlier one
		running := claimAll(t, d, request("owner", 1, "queue"))
		require.Equal(t, []string{"queue.job"}, names(running))
		putAll(t, d, plainRecord("other"))
		require.Equal(t, []string{"queue.other"}, names(claimAll(t, d, request("owner", 1, "queue"))))
		endAll(t, d, running...)
		assert.Empty(t, claimAll(t, d, request("owner", 1, "queue")))
	})
}

// operate does an action to all attempts of the job, or to the latest one, and requires that it is done.
func operate(t *testing.T, d driver.Driver, kind driver.ActionKind) {
	t.Helper()
	require.Positive(t, act(t, d, driver.Action{Kind: kind}).Done, kind)
}

// limited makes a record want a scope that may have one holder.
func limited(r *driver.Record) { r.RequiredScopes = []string{amboy.LimitScope("limited", 1)} }

// A claim read a job and was suspended. The job ran, and one of its ID with a limited scope was put, which the
// claim then took without a slot.
func TestAClaimTookALaterJobOfTheSameIDBeyondItsLimit(t *testing.T) {
	inMemory(t, func(t *testing.T, s *mongotest.Deployment) {
		d, other := openOn(t, s), openOn(t, s)
		putAll(t, d, plainRecord("job"))
		beforeCommand(s, "update", func() {
			endAll(t, other, claimAll(t, other, request("other", 1, "queue"))...)
			operate(t, other, driver.Delete)
			putAll(t, other, plainRecord("job", limited), plainRecord("next", limited))
		})
		running := claimAll(t, d, request("owner", 1, "queue"))
		running = append(running, claimAll(t, other, request("other", 1, "queue"))...)
		assert.Len(t, running, 1)
	})
}

// A claim made a job wait for a scope that an earlier job of its ID had wanted.
func TestAJobWaitedForAScopeOfAnEarlierJobOfItsID(t *testing.T) {
	again := func(t *testing.T, d driver.Driver) {
		t.Helper()
		operate(t, d, driver.Cancel)
		operate(t, d, driver.Delete)
		time.Sleep(time.Millisecond) // so that the order of the new job differs
		putAll(t, d, plainRecord("job"))
	}
	t.Run("after a claim", func(t *testing.T) {
		inMemory(t, func(t *testing.T, s *mongotest.Deployment) {
			d, other := openOn(t, s, func(o *mongodb.Options) { o.ClaimWindow = 10 }), openOn(t, s)
			putAll(t, d, plainRecord("holder", wantsScope, func(r *driver.Record) { r.Priority = 1 }))
			putAll(t, d, plainRecord("job", wantsScope))
			beforeCommand(s, "update", func() { again(t, other) })
			require.Equal(t, []string{"queue.holder"}, names(claimAll(t, d, request("owner", 1, "queue"))))
			assert.Equal(t, []string{"queue.job"}, names(claimAll(t, other, request("other", 1, "queue"))))
		})
	})
	t.Run("after a put", func(t *testing.T) {
		inMemory(t, func(t *testing.T, s *mongotest.Deployment) {
			d, other := openOn(t, s), openOn(t, s)
			putAll(t, d, plainRecord("job", wantsScope))
			beforeCommand(s, "update", func() { again(t, other) })
			putAll(t, d, plainRecord("holder", takesScope))
			assert.ElementsMatch(t, []string{"queue.job", "queue.holder"}, names(claimAll(t, other, request("other", 5, "queue"))))
		})
	})
}
