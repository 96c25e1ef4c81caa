package pinlater_test

import (
	"strings"
	"testing"

	"github.com/mongodb/grip"
	"github.com/mongodb/grip/send"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/pinlater"
	"github.com/mongodb/amboy/pinlater/wire"
)

// logged returns what is logged while a test makes calls.
func logged(t *testing.T, calls func()) *send.InternalSender {
	t.Helper()
	logs := send.MakeInternalLogger()
	before := grip.GetSender()
	require.NoError(t, grip.SetSender(logs))
	defer func() { require.NoError(t, grip.SetSender(before)) }()
	calls()
	return logs
}

// A client with a bug filled the log with errors, one for each of its calls.
func TestEachWrongCallOfAClientWasLoggedAsAnError(t *testing.T) {
	f := overTCP(t, pinlater.Options{})
	tooLong, noPattern := strings.Repeat("x", 5000), "("
	count := countRequest(pending)
	outOfRange := dequeueRequest(1)
	outOfRange.Coverage = 2
	logs := logged(t, func() {
		f.hasCode(f.client.AckDequeuedJobs(f.ctx, test, succeeded("x")), wire.ErrorCode_UNKNOWN)
		_, err := f.client.LookupJobs(f.ctx, test, &wire.PinLaterLookupJobRequest{JobDescriptors: []string{"x"}})
		f.hasCode(err, wire.ErrorCode_UNKNOWN)
		_, err = f.client.DequeueJobs(f.ctx, test, outOfRange)
		f.hasCode(err, wire.ErrorCode_UNKNOWN)
		_, err = f.client.DequeueJobs(f.ctx, from(tooLong), dequeueRequest(1))
		f.hasCode(err, wire.ErrorCode_UNKNOWN)
		for _, pattern := range []*string{&noPattern, &tooLong} {
			count.BodyRegexToMatch = pattern
			_, err = f.client.GetJobCount(f.ctx, test, count)
			f.hasCode(err, wire.ErrorCode_UNKNOWN)
		}
	})
	for message, isLogged := logs.GetMessageSafe(); isLogged; message, isLogged = logs.GetMessageSafe() {
		t.Errorf("logged: %s", message.Message)
	}
}

// A store that could not be reached filled the log with errors, one for each call.
func TestEachCallThatTheStoreFailedWasLogged(t *testing.T) {
	f := newFixture(t, stores["sqlite"](t), pinlater.Options{})
	f.createQueue(mail)
	require.NoError(t, f.driver.Close(f.ctx))
	const calls = 100
	logs := logged(t, func() {
		for range calls {
			_, err := f.client.GetJobCount(f.ctx, test, countRequest(pending))
			f.hasCode(err, wire.ErrorCode_UNKNOWN)
		}
	})
	assert.Positive(t, logs.Len())
	assert.Less(t, logs.Len(), calls/2)
}
