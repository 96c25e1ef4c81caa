package mongodb_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/bson"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/internal/mongotest"
	"github.com/mongodb/amboy/job"
	"github.com/mongodb/amboy/queue/driver"
)

// fillDocument puts the largest job that the driver accepts.
func fillDocument(t *testing.T, d driver.Driver, change ...func(j *job.ShellJob)) {
	t.Helper()
	size := 16 << 20
	for {
		r := newRecord(t, "q", "large", append(change, func(j *job.ShellJob) { j.Command = strings.Repeat("x", size) })...)
		errs, err := d.Insert(t.Context(), []*driver.Record{r})
		require.NoError(t, err)
		if errs[0] == nil {
			return
		}
		var refused *amboy.InvalidJobError
		require.ErrorAs(t, errs[0], &refused)
		var limit int
		_, err = fmt.Sscanf(refused.Rule, "must be at most %d bytes", &limit)
		require.NoError(t, err)
		size -= refused.Value.(int) - limit
	}
}

// longOwner is an owner on a host with a long name.
var longOwner = "driver." + strings.Repeat("host", 15) + ".12345.1"

// padDocument makes a document as large as the server allows, and the given number of bytes smaller. Earlier
// versions put such documents.
func padDocument(t *testing.T, s *store, id string, free int) {
	t.Helper()
	stored := bson.D{{Key: "_id", Value: id}}
	raw, err := s.jobs(true).FindOne(t.Context(), stored).Raw()
	require.NoError(t, err)
	padded := func(n int) bson.D {
		return bson.D{{Key: "metadata", Value: bson.D{{Key: "pad", Value: strings.Repeat("x", n)}}}}
	}
	const empty = 5 // bytes of a document
	field, err := bson.Marshal(padded(0))
	require.NoError(t, err)
	n := 16<<20 - free - len(raw) - (len(field) - empty)
	_, err = s.jobs(true).UpdateOne(t.Context(), stored, bson.D{{Key: "$set", Value: padded(n)}})
	require.NoError(t, err)
}

// The claim of a job whose document can't grow fails. It was the first candidate of each claim.
func TestAJobThatCouldNotBeClaimedHidOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStoreOf(t, mongotest.Options{InMemory: true})
		d := s.open()
		insert(t, d, newRecord(t, "q", "large"))
		padDocument(t, s, "q.large", 0)
		insert(t, d, newRecord(t, "q", "small"))
		assert.Equal(t, []string{"q.small"}, names(claim(t, d, request(longOwner, 1, "q"))))
	})
}

// Put accepted a job that filled its document, so that nothing could be added to it.
func TestTheLargestJobWasNeitherClaimedNorRecoveredNorRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newStoreOf(t, mongotest.Options{InMemory: true}).open()
		fillDocument(t, d, func(j *job.ShellJob) {
			j.UpdateRetryInfo(amboy.JobRetryOptions{Retryable: new(true), MaxAttempts: new(5)})
		})
		for range 3 {
			got := claim(t, d, request(longOwner, 1, "q"))
			require.Len(t, got, 1)
			pass(2 * time.Minute)
			n, err := d.RecoverStale(t.Context())
			require.NoError(t, err)
			require.Equal(t, 1, n)
		}
		got := claim(t, d, request(longOwner, 1, "q"))
		failed := *got[0]
		failed.Status.Completed, failed.Status.InProgress = true, false
		failed.RetryInfo.NeedsRetry = true
		errs, err := d.Complete(t.Context(), []driver.Completion{{Lease: driver.LeaseOf(got[0]), Record: &failed}})
		require.NoError(t, err)
		require.NoError(t, errs[0])
		next := *got[0]
		next.RetryInfo.CurrentAttempt = 1
		next.Status = amboy.JobStatusInfo{Errors: []string{strings.Repeat("e", 100)}, ErrorCount: 1}
		next.Name = driver.RecordName("q", "large", next.RetryInfo)
		require.NoError(t, d.Retry(t.Context(), &failed, &next))
		require.Len(t, claim(t, d, request(longOwner, 1, "q")), 1)
	})
}

// A running job saved itself so large that it could be neither interrupted nor retried.
func TestASavedJobFilledItsDocument(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newStoreOf(t, mongotest.Options{InMemory: true}).open()
		insert(t, d, newRecord(t, "q", "large"))
		r := claim(t, d, request("owner", 1, "q"))[0]
		r.Metadata = map[string]string{"pad": strings.Repeat("x", 16<<20-32<<10)}
		var refused *amboy.InvalidJobError
		require.ErrorAs(t, d.Save(t.Context(), r), &refused)
		assert.Contains(t, refused.Rule, "running the job adds to them")
	})
}

func TestAJobThatIsStoredWithALargeDocumentCanBeSavedButNotGrow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStoreOf(t, mongotest.Options{InMemory: true})
		d := s.open()
		insert(t, d, newRecord(t, "q", "large"))
		padDocument(t, s, "q.large", 16<<10)
		r := claim(t, d, request("owner", 1, "q"))[0]
		r.Metadata["pad"] = "y" + r.Metadata["pad"][1:]
		require.NoError(t, d.Save(t.Context(), r))
		r.Metadata["pad"] += strings.Repeat("y", 8<<10)
		var refused *amboy.InvalidJobError
		require.ErrorAs(t, d.Save(t.Context(), r), &refused)
	})
}

// The server refused the next attempt without saying that it was too large, so it was tried for ever.
func TestANextAttemptThatIsTooLargeWasNotRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newStoreOf(t, mongotest.Options{InMemory: true}).open()
		insert(t, d, newRecord(t, "q", "large", func(j *job.ShellJob) {
			j.UpdateRetryInfo(amboy.JobRetryOptions{Retryable: new(true), MaxAttempts: new(5)})
		}))
		failed := *claim(t, d, request("owner", 1, "q"))[0]
		lease := driver.LeaseOf(&failed)
		failed.Status.Completed, failed.Status.InProgress = true, false
		failed.RetryInfo.NeedsRetry = true
		errs, err := d.Complete(t.Context(), []driver.Completion{{Lease: lease, Record: &failed}})
		require.NoError(t, err)
		require.NoError(t, errs[0])
		next := failed
		next.RetryInfo.NeedsRetry, next.RetryInfo.CurrentAttempt = false, 1
		next.Status = amboy.JobStatusInfo{}
		next.Metadata = map[string]string{"pad": strings.Repeat("x", 16<<20)}
		next.Name = driver.RecordName("q", "large", next.RetryInfo)
		var refused *amboy.InvalidJobError
		require.ErrorAs(t, d.Retry(t.Context(), &failed, &next), &refused)
	})
}
