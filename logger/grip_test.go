package logger_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/mongodb/grip"
	"github.com/mongodb/grip/level"
	"github.com/mongodb/grip/send"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/logger"
)

// TestQueueBackedSenderAsGripsOwn makes the library log, at every level, through a sender
// whose queue it logs about. It then replaces that sender while messages wait: grip closes
// it under a lock that logging needs.
func TestQueueBackedSenderAsGripsOwn(t *testing.T) {
	before := grip.GetSender()
	levels := before.Level()
	require.NoError(t, before.SetLevel(send.LevelInfo{Default: level.Trace, Threshold: level.Trace}))
	defer func() { assert.NoError(t, before.SetLevel(levels)) }()
	r := newRecorder(t)
	r.gate = make(chan struct{})
	s, err := logger.NewQueueBackedSender(t.Context(), r, 1, 1000)
	require.NoError(t, err)
	require.NoError(t, grip.SetSender(s))

	var want []string
	for n := range 100 {
		want = append(want, fmt.Sprint("message ", n))
		grip.Info(t.Context(), want[n])
	}
	close(r.gate)
	replaced := make(chan error, 1)
	go func() { replaced <- grip.SetSender(before) }()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	select {
	case err = <-replaced:
		require.NoError(t, err)
	case <-ctx.Done():
		require.Fail(t, "grip waits for the queue, and the queue for grip")
	}
	assert.Equal(t, append(want, "close"), r.recorded())
}
