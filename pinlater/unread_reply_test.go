package pinlater_test

import (
	"testing"
	"time"

	"github.com/apache/thrift/lib/go/thrift"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/pinlater/wire"
)

// The jobs of a reply that its client did not read in time, or that had no room among the replies of others, stayed
// claimed for ten minutes, and then their attempts had failed.
func TestJobsOfAReplyThatWasNotReadStayedClaimed(t *testing.T) {
	inFakeTime(t, noOptions, func(f *fixture) {
		job := f.put("a")
		conn := f.dial()
		buffer := thrift.NewTMemoryBuffer()
		p := thrift.NewTBinaryProtocolConf(buffer, nil)
		require.NoError(f, p.WriteMessageBegin(f.ctx, "dequeueJobs", thrift.CALL, 1))
		args := &wire.PinLaterDequeueJobsArgs{Context: test, Request: dequeueRequest(1)}
		require.NoError(f, args.Write(f.ctx, p))
		_, err := conn.Write(framed(buffer.Bytes()))
		require.NoError(f, err)
		f.sleep(29 * time.Second)
		f.hasState(job, wire.PinLaterJobState_IN_PROGRESS, 2)
		f.sleep(2 * time.Second)
		f.hasState(job, wire.PinLaterJobState_PENDING, 2)
		require.Equal(f, "a", f.dequeueOne())
	})
}
