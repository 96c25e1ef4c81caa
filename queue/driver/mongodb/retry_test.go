package mongodb_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/bson"
	"go.mongodb.org/mongo-driver/mongo"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/mongotest"
	"github.com/mongodb/amboy/job"
	"github.com/mongodb/amboy/queue/driver"
)

// TestRetryWaitsForTheTransactionOfAProcessThatDied leaves an unfinished transaction that
// locks the job. The server ends it after a minute.
func TestRetryWaitsForTheTransactionOfAProcessThatDied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStoreOf(t, mongotest.Options{InMemory: true})
		d := s.open()
		insert(t, d, newRecord(t, "q", "job", func(j *job.ShellJob) {
			j.UpdateRetryInfo(amboy.JobRetryOptions{Retryable: new(true)})
		}))
		running := claim(t, d, request("owner", 1, "q"))[0]
		failed := *running
		failed.Status.Completed, failed.Status.InProgress = true, false
		failed.RetryInfo.NeedsRetry = true
		errs, err := d.Complete(t.Context(), []driver.Completion{{Lease: driver.LeaseOf(running), Record: &failed}})
		require.NoError(t, err)
		require.NoError(t, errs[0])

		session, err := s.client.StartSession()
		require.NoError(t, err)
		require.NoError(t, session.StartTransaction())
		_, err = s.jobs(true).UpdateOne(mongo.NewSessionContext(t.Context(), session),
			bson.M{"_id": failed.Name}, bson.M{"$set": bson.M{"touched": true}})
		require.NoError(t, err)

		next := *running
		next.RetryInfo.CurrentAttempt, next.Status = 1, amboy.JobStatusInfo{}
		next.Name = driver.RecordName("q", "job", next.RetryInfo)
		began := time.Now()
		sent := s.commands(func() { require.NoError(t, d.Retry(t.Context(), &failed, &next)) })
		assert.Greater(t, time.Since(began), 50*time.Second)
		assert.Less(t, len(sent), 1000, "it tries about twice a second")
	})
}
