package queue_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/bson"
	"go.mongodb.org/mongo-driver/mongo/options"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/mongotest"
	"github.com/mongodb/amboy/queue"
)

// TestMongoDBJobsThatNoEventShowedAreFound stores jobs as a process leaves them that dies with its
// primary: the change stream of the process that is to run them does not show them.
func TestMongoDBJobsThatNoEventShowedAreFound(t *testing.T) {
	const safetyNet, lockTimeout, retryScan = 30 * time.Second, 3 * time.Minute, time.Minute
	failed := bson.D{
		{Key: "status.completed", Value: true},
		{Key: "status.mod_count", Value: 1},
		{Key: "retry_info.needs_retry", Value: true},
	}
	for name, test := range map[string]struct {
		left          bson.D
		waits, within time.Duration
	}{
		"pending":   {within: safetyNet},
		"scheduled": {waits: 50 * time.Second, within: 50 * time.Second},
		"soon due":  {waits: time.Millisecond, within: safetyNet},
		"running":   {left: runningFor(lockTimeout), within: lockTimeout + 45*time.Second},
		"retrying":  {left: failed, within: retryScan},
	} {
		for _, idle := range []time.Duration{time.Second, 59 * time.Second, 61 * time.Second, 10 * time.Minute} {
			t.Run(fmt.Sprint(name, " after ", idle), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					d := mongotest.Open(t, mongotest.InMemory())
					startMongoDB(t, d, 1, func(o *queue.MongoDBOptions) { o.LockTimeout = lockTimeout })
					other := onMongoDB(t, d, 1, func(o *queue.MongoDBOptions) { o.Collection = "other" })
					pass(idle)
					ran := make(chan time.Time, 1)
					j := newJob(t, "job", func(context.Context, *funcJob) { ran <- time.Now() })
					j.UpdateRetryInfo(amboy.JobRetryOptions{Retryable: new(true), MaxAttempts: new(3)})
					if test.waits > 0 {
						j.SetTimeInfo(amboy.JobTimeInfo{WaitUntil: time.Now().Add(test.waits)})
					}
					put(t, other, j)
					leave(t, d, "other.jobs", "queue.jobs", test.left)
					left := time.Now()
					select {
					case at := <-ran:
						assert.LessOrEqual(t, at.Sub(left), test.within)
						assert.NotEqual(t, left, at, "an event showed it")
					case <-time.After(time.Hour):
						assert.Fail(t, "it did not run")
					}
				})
			})
		}
	}
}

// leave moves a job to a collection, with changes, as a write that is of no interest to processes.
func leave(t *testing.T, d *mongotest.Deployment, from, to string, changes bson.D) {
	t.Helper()
	const quiet = int64(1) << 62
	all := bson.A{bson.M{"$set": append(bson.D{{Key: "rev", Value: quiet}}, changes...)}}
	if changes != nil {
		all = append(all, bson.M{"$unset": "line"})
	}
	jobs := d.Client().Database(d.Database())
	doc, err := jobs.Collection(from).FindOneAndUpdate(t.Context(), bson.D{}, all, options.FindOneAndUpdate().SetReturnDocument(options.After)).Raw()
	require.NoError(t, err)
	_, err = jobs.Collection(to).InsertOne(t.Context(), doc)
	require.NoError(t, err)
}

// A process without jobs surveyed the store at regular times only: a job whose process had died just
// after its claim ran up to half a minute after its lease.
func TestTheJobOfADeadProcessWaitedForTheNextRegularSurvey(t *testing.T) {
	for _, lockTimeout := range []time.Duration{15 * time.Second, time.Minute, 10 * time.Minute} {
		for fifth := range 5 {
			idle := time.Duration(fifth+1) * min(lockTimeout/4, 30*time.Second) / 5
			t.Run(fmt.Sprint(lockTimeout, " after ", idle), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					d := mongotest.Open(t, mongotest.InMemory())
					startMongoDB(t, d, 1, func(o *queue.MongoDBOptions) { o.LockTimeout = lockTimeout })
					other := onMongoDB(t, d, 1, func(o *queue.MongoDBOptions) { o.Collection = "other" })
					ran := make(chan time.Time, 1)
					put(t, other, newJob(t, "job", func(context.Context, *funcJob) { ran <- time.Now() }))
					pass(idle)
					leave(t, d, "other.jobs", "queue.jobs", runningFor(lockTimeout))
					left := time.Now()
					assert.LessOrEqual(t, (<-ran).Sub(left), lockTimeout+2*time.Second)
				})
			})
		}
	}
}

// runningFor returns what a claim changes in a document.
func runningFor(lease time.Duration) bson.D {
	return bson.D{
		{Key: "status.in_prog", Value: true},
		{Key: "status.mod_count", Value: 1},
		{Key: "status.mod_ts", Value: "$$NOW"},
		{Key: "time_info.start", Value: "$$NOW"},
		{Key: "lease_until", Value: bson.M{"$add": bson.A{"$$NOW", lease.Milliseconds()}}},
	}
}
