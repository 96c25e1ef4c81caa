package logging_test

import (
	"context"
	"testing"

	"github.com/mongodb/grip"
	"github.com/mongodb/grip/level"
	"github.com/mongodb/grip/message"
	"github.com/mongodb/grip/send"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy/internal/logging"
)

// contextSender records the contexts that messages are sent with.
type contextSender struct {
	*send.InternalSender
	contexts []context.Context
}

func (s *contextSender) Send(ctx context.Context, _ message.Composer) {
	s.contexts = append(s.contexts, ctx)
}

type spanKey struct{}

func TestMessageIsLostBecauseTheContextHasEnded(t *testing.T) {
	s := &contextSender{InternalSender: send.MakeInternalLogger()}
	before := grip.GetSender()
	require.NoError(t, grip.SetSender(s))
	require.NoError(t, s.SetLevel(send.LevelInfo{Default: level.Debug, Threshold: level.Debug}))
	t.Cleanup(func() { require.NoError(t, grip.SetSender(before)) })

	ctx, cancel := context.WithCancel(context.WithValue(t.Context(), spanKey{}, "span"))
	cancel()
	logging.Error(ctx, message.Fields{"message": "closing"})
	logging.Warning(ctx, message.Fields{"message": "closing"})
	logging.Debug(ctx, func() message.Fields { return message.Fields{"message": "closing"} })
	require.Len(t, s.contexts, 3)
	for _, sent := range s.contexts {
		require.NoError(t, sent.Err())
		assert.Equal(t, "span", sent.Value(spanKey{}))
	}
}
