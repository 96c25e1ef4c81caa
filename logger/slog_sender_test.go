package logger_test

import (
	"bytes"
	"log/slog"
	"testing"

	"github.com/mongodb/grip"
	"github.com/mongodb/grip/level"
	"github.com/mongodb/grip/message"
	"github.com/mongodb/grip/send"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/logger"
)

func TestSlogSenderWritesFieldsAsAttributes(t *testing.T) {
	var out bytes.Buffer
	l := slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{ReplaceAttr: withoutTime}))
	s, err := logger.NewSlogSender(l)
	require.NoError(t, err)
	s.Send(t.Context(), message.NewFields(level.Alert, message.Fields{"message": "job failed", "queue": "q", "job_id": "a"}))
	s.Send(t.Context(), message.NewFields(level.Warning, message.Fields{"message": "job canceled"}))
	s.Send(t.Context(), message.NewDefaultMessage(level.Notice, "plain"))
	s.Send(t.Context(), message.NewDefaultMessage(level.Debug, "below the threshold"))
	assert.Equal(t, "level=ERROR msg=\"job failed\" job_id=a queue=q\nlevel=WARN msg=\"job canceled\"\nlevel=INFO msg=plain\n", out.String())
	require.NoError(t, s.Flush(t.Context()))
	require.NoError(t, s.Close())
}

func TestSlogSenderWritesDebugMessagesIfTheLoggerDoes(t *testing.T) {
	var out bytes.Buffer
	s, err := logger.NewSlogSender(slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug})))
	require.NoError(t, err)
	assert.Equal(t, level.Debug, s.Level().Threshold)
	s.Send(t.Context(), message.NewDefaultMessage(level.Debug, "job started"))
	assert.Contains(t, out.String(), "level=DEBUG")
	require.NoError(t, s.SetLevel(send.LevelInfo{Default: level.Info, Threshold: level.Error}))
	s.Send(t.Context(), message.NewDefaultMessage(level.Warning, "hidden"))
	assert.NotContains(t, out.String(), "hidden")
}

func TestGripChangedTheThresholdOfASlogSender(t *testing.T) {
	before := grip.GetSender()
	levels := before.Level()
	require.NoError(t, before.SetLevel(send.LevelInfo{Default: level.Trace, Threshold: level.Trace})) // grip's default
	t.Cleanup(func() {
		require.NoError(t, grip.SetSender(before))
		require.NoError(t, before.SetLevel(levels))
	})
	var debugs slog.LevelVar
	debugs.Set(slog.LevelDebug)
	var out bytes.Buffer
	s, err := logger.NewSlogSender(slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: &debugs})))
	require.NoError(t, err)
	require.NoError(t, grip.SetSender(s))
	assert.Equal(t, level.Debug, s.Level().Threshold)

	q := startQueue(t, t.Context())
	require.NoError(t, q.Put(t.Context(), logger.NewSendMessageJob(info("hello"), newRecorder(t))))
	require.True(t, amboy.Wait(t.Context(), q))
	q.Close(t.Context())
	assert.Contains(t, out.String(), "level=DEBUG msg=\"job started\"")

	debugs.Set(slog.LevelInfo)
	assert.Equal(t, level.Info, s.Level().Threshold)
}

func TestSlogSenderRefusesNil(t *testing.T) {
	_, err := logger.NewSlogSender(nil)
	require.ErrorContains(t, err, "logger must not be nil")
}
