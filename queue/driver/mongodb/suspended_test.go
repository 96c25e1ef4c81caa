package mongodb_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/bson"

	"github.com/mongodb/amboy/internal/mongotest"
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
