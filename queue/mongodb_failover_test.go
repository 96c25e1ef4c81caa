package queue_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/mongo"

	"github.com/mongodb/amboy/internal/mongotest"
	"github.com/mongodb/amboy/queue/driver"
	"github.com/mongodb/amboy/queue/driver/mongodb"
)

// A process claims a job and dies together with the primary, before a majority has the
// claim. On the next primary the job is ready, and no event tells the other process.
func TestAJobWhoseClaimWasRolledBackRunsElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const dying = "dying"
		d := mongotest.Open(t, mongotest.InMemory())
		ran := make(chan time.Time, 1)
		j := newJob(t, "job", func(context.Context, *funcJob) { ran <- time.Now() })
		q := onMongoDB(t, d, 1, nil)
		put(t, q, j)

		client, err := mongo.Connect(t.Context(), d.ClientOptions().SetAppName(dying))
		require.NoError(t, err)
		t.Cleanup(func() { assert.NoError(t, client.Disconnect(context.Background())) })
		other, err := mongodb.Open(t.Context(), mongodb.Options{Client: client, DB: d.Database(), Collection: "queue"})
		require.NoError(t, err)
		t.Cleanup(func() { assert.NoError(t, other.Close(context.Background())) })
		d.Server().HoldReplication()
		var dead atomic.Bool
		d.Server().Intercept(func(c mongotest.Intercepted) mongotest.Fate {
			switch {
			case c.AppName != dying || c.Name == "hello":
				return mongotest.Served
			case dead.Load():
				return mongotest.Unserved
			case c.Name == "update":
				dead.Store(true)
				return mongotest.Unanswered
			default:
				return mongotest.Served
			}
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = other.Claim(ctx, driver.ClaimRequest{
			Owner: dying, Queues: []driver.Demand{{Limit: 1}}, Limit: 1, Now: time.Now(), LeaseTime: time.Hour,
		})
		require.Error(t, err)
		require.True(t, dead.Load())

		require.NoError(t, q.Start(t.Context()))
		time.Sleep(time.Minute)
		require.Empty(t, ran, "the claim lasts for an hour")
		failedOver := time.Now()
		d.Server().FailOver()
		assert.LessOrEqual(t, (<-ran).Sub(failedOver), 30*time.Second)
	})
}
