package pinlater_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/codec"
	"github.com/mongodb/amboy/internal/outsidetest"
	"github.com/mongodb/amboy/pinlater/wire"
	"github.com/mongodb/amboy/queue"
)

// failingCodec is a codec that fails to decode some jobs.
type failingCodec struct {
	mu    sync.Mutex
	fails map[string]error // by the ID of the job
}

func (*failingCodec) Name() string { return "failing" }

func (*failingCodec) Encode(_ codec.Field, plain []byte) (keyID string, encoded []byte, err error) {
	return "", plain, nil
}

func (c *failingCodec) Decode(field codec.Field, _ string, encoded []byte) ([]byte, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return encoded, c.fails[field.JobID]
}

// fail makes a job undecodable; nil makes it decodable again.
func (c *failingCodec) fail(descriptor string, err error) {
	var number int64
	_, scanErr := fmt.Sscanf(descriptor, mail+":s1:p1:%d", &number)
	if scanErr != nil {
		panic(scanErr)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fails[fmt.Sprintf("pinlater-%d", number)] = err
}

// withUndecodable runs a test with a codec on the memory store.
func withUndecodable(t *testing.T, test func(*fixture, *failingCodec)) {
	t.Helper()
	c := &failingCodec{fails: map[string]error{}}
	f := newFixtureWith(t, queue.DriverQueueOptions{Driver: outsidetest.Memory(t), CloseDriver: true, Codec: c}, noOptions, outsidetest.Listen(t))
	f.createQueue(mail)
	test(f, c)
}

var errDamaged = errors.New("damaged")

// One job that could not be decoded kept all others of an acknowledgement from being ended.
func TestAJobThatCanNotBeDecodedRefusedTheAcknowledgementsOfOthers(t *testing.T) {
	t.Run("damaged", func(t *testing.T) {
		withUndecodable(t, func(f *fixture, c *failingCodec) {
			all := f.enqueue(newJob("a"), newJob("b"), newJob("c"))
			require.Len(f, f.dequeue(3).Jobs, 3)
			c.fail(all[0], errDamaged)
			f.checkpoint("test", checkpointOf(all[0]), checkpointOf(all[1]))
			f.ack(succeeded(all...)) // sending it again would not help
			c.fail(all[0], nil)
			f.hasState(all[0], inProgress, 2)
			f.hasState(all[1], done, 2)
			f.hasState(all[2], done, 2)
		})
	})
	t.Run("the key is not available", func(t *testing.T) {
		withUndecodable(t, func(f *fixture, c *failingCodec) {
			var jobs []*wire.PinLaterJob
			for range 250 { // more than are read at a time
				jobs = append(jobs, newJob("x"))
			}
			all := f.enqueue(jobs...)
			require.Len(f, f.dequeue(250).Jobs, 250)
			c.fail(all[0], codec.ErrKeyUnavailable)
			request := dequeueRequest(1)
			request.JobAckRequest = succeeded(all...)
			_, err := f.client.DequeueJobs(f.ctx, test, request)
			f.hasCode(err, wire.ErrorCode_UNKNOWN)
			assert.Equal(f, 249, f.count(done))
			c.fail(all[0], nil)
			f.ack(succeeded(all...)) // the client sends it again
			assert.Equal(f, 250, f.count(done))
		})
	})
}

// One job that could not be decoded made each search by body and each dry run fail.
func TestAJobThatCanNotBeDecodedRefusedSearchesAndDryRuns(t *testing.T) {
	withUndecodable(t, func(f *fixture, c *failingCodec) {
		all := f.enqueue(newJob("a"), newJob("a"))
		c.fail(all[0], errDamaged)
		pattern := "a"
		count := countRequest(pending)
		count.BodyRegexToMatch = &pattern
		assert.Equal(f, 1, f.countOf(count))
		dry := dequeueRequest(2)
		dry.DryRun = true
		found, err := f.client.DequeueJobs(f.ctx, test, dry)
		require.NoError(f, err)
		assert.Len(f, found.Jobs, 1)
		remove := wire.NewPinLaterDeleteJobsRequest()
		remove.QueueName, remove.JobState, remove.BodyRegexToMatch = mail, pending, &pattern
		n, err := f.client.DeleteJobs(f.ctx, test, remove)
		require.NoError(f, err)
		assert.Equal(f, int32(1), n)
	})
}

// One job that could not be decoded made a lookup with bodies fail as a whole.
func TestAJobThatCanNotBeDecodedRefusedTheLookupOfOthers(t *testing.T) {
	for name, failure := range map[string]error{"damaged": errDamaged, "the key is not available": codec.ErrKeyUnavailable} {
		t.Run(name, func(t *testing.T) {
			withUndecodable(t, func(f *fixture, c *failingCodec) {
				all := f.enqueue(newJob("a"), newJob("b"), newJob(""))
				c.fail(all[0], failure)
				found := f.lookup(all...)
				require.Len(f, found, 3)
				assert.False(f, found[all[0]].IsSetBody())
				assert.Equal(f, pending, found[all[0]].JobState)
				assert.Equal(f, "b", string(found[all[1]].Body))
				assert.True(f, found[all[2]].IsSetBody())
			})
		})
	}
}
