package pinlater_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/pinlater"
	"github.com/mongodb/amboy/pinlater/wire"
)

// Each test shows that this server does not have a fault of PinLater. docs/reference/pinlater.md lists the faults;
// the tests of the checklist show the others.

func TestFaultARetriedJobKeepsTheClaimOfItsLastAttempt(t *testing.T) {
	onEach(t, noOptions, func(f *fixture) {
		d := f.enqueue(allowing(newJob("a"), 1))[0]
		f.dequeue(1)
		f.ack(failed(d))
		assert.NotNil(f, f.info(d).ClaimDescriptor)
		r := wire.NewPinLaterRetryFailedJobsRequest()
		r.QueueName = mail
		n, err := f.client.RetryFailedJobs(f.ctx, test, r)
		require.NoError(f, err)
		assert.Equal(f, int32(1), n)
		assert.Nil(f, f.info(d).ClaimDescriptor)
	})
}

func TestFaultACheckpointWithALaterTimeLengthensTheClaim(t *testing.T) {
	inFakeTime(t, noOptions, func(f *fixture) {
		d := f.enqueue(allowing(newJob("a"), 1))[0]
		f.dequeue(1)
		ahead := time.Now().Add(24 * time.Hour).UnixMilli()
		c := checkpointOf(d)
		c.RunAfterTimestampMillis = &ahead
		f.checkpoint("test", c)
		f.hasState(d, inProgress, 1)
		f.sleep(660 * time.Second)
		f.hasState(d, gaveUp, 0)
	})
}

func TestFaultDeletionsByAnExpressionSkipJobs(t *testing.T) {
	onEach(t, noOptions, func(f *fixture) {
		const all = 2500 // more than a page of the store
		jobs := make([]*wire.PinLaterJob, all)
		for i := range jobs {
			jobs[i] = newJob(fmt.Sprint("job ", i%2))
		}
		f.enqueue(jobs...)
		r := wire.NewPinLaterDeleteJobsRequest()
		pattern := "1$"
		r.QueueName, r.JobState, r.BodyRegexToMatch, r.Limit = mail, pending, &pattern, all
		n, err := f.client.DeleteJobs(f.ctx, test, r)
		require.NoError(f, err)
		assert.Equal(f, int32(all/2), n)
		assert.Equal(f, all/2, f.count(pending))
	})
}

func TestFaultAJobWithoutAttemptsNeverEnds(t *testing.T) {
	onEach(t, noOptions, func(f *fixture) {
		for _, allowed := range []int32{0, -3} {
			d := f.enqueue(allowing(newJob("a"), allowed))[0]
			info := f.info(d)
			assert.Equal(f, []int32{allowed, allowed}, []int32{info.AttemptsAllowed, info.AttemptsRemaining})
			assert.Equal(f, "a", f.dequeueOne())
			f.ack(failed(d))
			f.hasState(d, gaveUp, 0)
		}
	})
}

func TestFaultAnEmptyListOfQueuesKeepsTheLimits(t *testing.T) {
	config := filepath.Join(t.TempDir(), "queues.json")
	require.NoError(t, os.WriteFile(config, []byte(`{"queues":[{"name":"mail","queueConfig":{"maxJobsPerSecond":0}}]}`), 0o600))
	inFakeTime(t, pinlater.Options{QueueConfigFile: config}, func(f *fixture) {
		_, err := f.client.DequeueJobs(f.ctx, test, dequeueRequest(1))
		f.hasCode(err, wire.ErrorCode_DEQUEUE_RATE_LIMITED)
		require.NoError(f, os.WriteFile(config, []byte(`{"queues":[]}`), 0o600))
		time.Sleep(15 * time.Second)
		f.dequeue(1)
	})
}
