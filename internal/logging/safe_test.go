package logging_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/mongodb/grip"
	"github.com/mongodb/grip/level"
	"github.com/mongodb/grip/message"
	"github.com/mongodb/grip/send"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/internal/logging"
)

// The ID of a job, or its error, must not look like a line of the log, and must not color
// the terminal of an operator.
func TestAttackAJobForgesALineOfTheLog(t *testing.T) {
	const forged = "a\n[grip] 2026/11/23 [p=emergency]: root logged in\r\x1b[2J\u202e"
	s := send.MakeInternalLogger()
	before := grip.GetSender()
	require.NoError(t, grip.SetSender(s))
	require.NoError(t, s.SetLevel(send.LevelInfo{Default: level.Debug, Threshold: level.Debug})) // SetSender changes it
	t.Cleanup(func() { require.NoError(t, grip.SetSender(before)) })
	fields := func() message.Fields {
		return message.Fields{
			"message": "job failed", "job_id": forged, "error": errors.New(forged), "queues": []string{forged}, "panic": struct{ What string }{forged},
			"stack": "goroutine 1:\nmain.run()\n\t/main.go:7", "attempt": 2,
		}
	}
	logging.Error(t.Context(), fields())
	logging.Warning(t.Context(), fields())
	logging.Debug(t.Context(), fields)
	for range 3 {
		sent, ok := s.GetMessageSafe()
		require.True(t, ok)
		lines := strings.Split(sent.Message.String(), "\n")
		require.Len(t, lines, 3, "of the stack")
		for _, line := range lines[1:] {
			assert.True(t, strings.HasPrefix(line, "    "), "%q is no line by itself", line)
		}
		for _, unprintable := range []string{"\r", "\x1b", "\u202e", "\n[grip]"} {
			assert.NotContains(t, sent.Message.String(), unprintable)
		}
		assert.Contains(t, sent.Message.String(), `job_id='a\n[grip] 2026/11/23 [p=emergency]: root logged in\r\x1b[2J\u202e'`)
		assert.Contains(t, sent.Message.String(), "attempt='2'")
	}
}

func TestAnErrorOf17MBWasLoggedWhole(t *testing.T) {
	s := send.MakeInternalLogger()
	before := grip.GetSender()
	require.NoError(t, grip.SetSender(s))
	t.Cleanup(func() { require.NoError(t, grip.SetSender(before)) })
	logging.Error(t.Context(), message.Fields{"message": "job failed", "error": errors.New(strings.Repeat("x", 17<<20))})
	sent, ok := s.GetMessageSafe()
	require.True(t, ok)
	assert.Less(t, len(sent.Message.String()), 66<<10)
	assert.Contains(t, sent.Message.String(), "x... (17825792 bytes in all)")
}
