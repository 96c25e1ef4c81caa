package pinlater_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/job"
	"github.com/mongodb/amboy/pinlater"
	"github.com/mongodb/amboy/pinlater/wire"
)

// A job that no reply has room for was claimed by each dequeue, which was refused. It kept the jobs behind it
// from being dequeued for as long as it was claimed, and lost an attempt each time.
func TestAJobLargerThanAReplyWasClaimedAgainAndAgain(t *testing.T) {
	const frame = 64 << 10
	onEach(t, pinlater.Options{MaxFrame: frame}, func(f *fixture) {
		q, err := f.group.Get(f.ctx, mail)
		require.NoError(f, err)
		large, err := job.NewOutside(amboy.JobType{Name: "pinlater", Version: 1}, job.Payload{Bytes: make([]byte, frame)},
			job.ID("pinlater-1000000"), job.MaxAttempts(2))
		require.NoError(f, err)
		require.NoError(f, q.Put(f.ctx, large))
		d := f.put("small")
		dry := dequeueRequest(2)
		dry.DryRun = true
		for _, request := range []*wire.PinLaterDequeueRequest{dry, dequeueRequest(1), dequeueRequest(1)} {
			found, err := f.client.DequeueJobs(f.ctx, test, request)
			require.NoError(f, err)
			if f.count(done) == 0 {
				require.Len(f, found.Jobs, 1)
				assert.Equal(f, "small", string(found.Jobs[d]))
			}
			f.ack(succeeded(d))
		}
		ended, ok := q.Get(f.ctx, "pinlater-1000000")
		require.True(f, ok)
		info := amboy.NewJobInfo(ended)
		assert.Equal(f, amboy.StateFailed, info.State)
		assert.ErrorContains(f, ended.Error(), "its body must have at most 65024 bytes (has 65536)")
	})
}

// A body that a request has room for, but no reply.
func TestABodyThatNoReplyHasRoomForIsRefused(t *testing.T) {
	const frame = 4 << 10
	f := overTCP(t, pinlater.Options{MaxFrame: frame})
	_, err := f.tryEnqueue(mail, newJob(strings.Repeat("x", frame-511)))
	f.hasCode(err, wire.ErrorCode_ENQUEUE_REJECTED)
	body := strings.Repeat("x", frame-512)
	f.put(body)
	assert.Equal(t, body, f.dequeueOne())
}
