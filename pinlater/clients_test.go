package pinlater_test

import (
	"net"
	"os/exec"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/pinlater"
	"github.com/mongodb/amboy/pinlater/wire"
)

// pythonWithThrift returns a Python interpreter with the Thrift library. It skips the test if
// there is none.
func pythonWithThrift(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"python3", "/usr/bin/python3"} {
		if exec.CommandContext(t.Context(), name, "-c", "import thrift").Run() == nil {
			return name
		}
	}
	t.Skip("Python's Thrift library is not installed (python3-thrift in Debian)")
	return ""
}

// TestLine2GeneratedClientsRunAllCallsAndOldHeadersAreRead has no client in Java, which can't be had here: the bytes
// that it sends are those of the test of line 1.
func TestLine2GeneratedClientsRunAllCallsAndOldHeadersAreRead(t *testing.T) {
	t.Run("Python", testPythonClient)
	t.Run("Go", testGoClient)
	t.Run("old headers", func(t *testing.T) {
		f := overTCP(t, noOptions)
		assert.Equal(t, framed(unhex(t, mailQueueNames)), exchange(t, f.dial(), framed(unhex(t, oldQueueNames))))
	})
}

// testPythonClient generates the client.
func testPythonClient(t *testing.T) {
	t.Helper()
	python := pythonWithThrift(t)
	compiler, err := exec.LookPath("thrift")
	if err != nil {
		t.Skip("the Thrift compiler is not installed (thrift-compiler in Debian)")
	}
	generated := t.TempDir()
	output, err := exec.CommandContext(t.Context(), compiler, "--gen", "py", "-out", generated, "pinlater.thrift").CombinedOutput()
	require.NoError(t, err, string(output))
	for name, open := range stores {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, open(t), pinlater.Options{AdminPasswordHash: pinlater.PasswordHash("secret")})
			port := f.listener.Addr().(*net.TCPAddr).Port //nolint:errcheck,forcetypeassert // It is TCP.
			run := exec.CommandContext(f.ctx, python, "testdata/client.py", generated, strconv.Itoa(port))
			said, err := run.CombinedOutput()
			require.NoError(t, err, string(said))
			assert.Equal(t, "all calls work\n", string(said))
		})
	}
}

func testGoClient(t *testing.T) {
	t.Helper()
	onAll(t, pinlater.Options{AdminPasswordHash: pinlater.PasswordHash("secret")}, func(f *fixture) {
		all := f.enqueue(newJob("a"), allowing(newJob("b"), 1))
		f.dequeue(2)
		f.checkpoint("test", checkpointOf(all[0]))
		f.ack(&wire.PinLaterJobAckRequest{QueueName: mail, JobsSucceeded: infosOf(all[:1]), JobsFailed: infosOf(all[1:])})
		assert.Equal(f, 1, f.count(done))
		assert.Equal(f, all[1:], f.scan(scanRequest(gaveUp)))
		again := wire.NewPinLaterRetryFailedJobsRequest()
		again.QueueName = mail
		n, err := f.client.RetryFailedJobs(f.ctx, test, again)
		require.NoError(f, err)
		assert.Equal(f, int32(1), n)
		remove := wire.NewPinLaterDeleteJobsRequest()
		remove.QueueName, remove.JobState = mail, pending
		n, err = f.client.DeleteJobs(f.ctx, test, remove)
		require.NoError(f, err)
		assert.Equal(f, int32(1), n)
		assert.Len(f, f.lookup(all...), 1)
		require.NoError(f, f.client.DeleteQueue(f.ctx, test, mail, "secret"))
		names, err := f.client.GetQueueNames(f.ctx, test)
		require.NoError(f, err)
		assert.Empty(f, names)
	})
}
