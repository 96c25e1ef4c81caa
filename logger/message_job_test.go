package logger_test

import (
	"context"
	"errors"
	"testing"

	"github.com/mongodb/grip/message"
	"github.com/mongodb/grip/send"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/logger"
	"github.com/mongodb/amboy/registry"
)

func TestSendMessageJob(t *testing.T) {
	r := newRecorder(t)
	j := logger.NewSendMessageJob(info("hello"), r)
	require.NoError(t, amboy.ValidateJob(j))
	assert.NotEqual(t, j.ID(), logger.NewSendMessageJob(info("hello"), r).ID())

	j.Run(t.Context())
	require.NoError(t, j.Error())
	assert.True(t, j.Status().Completed)
	assert.Equal(t, []string{"hello"}, r.recorded())
}

func TestSendMessageJobFailures(t *testing.T) {
	r := newRecorder(t)
	for name, test := range map[string]struct {
		message message.Composer
		sender  send.Sender
	}{
		"no message": {nil, r},
		"no sender":  {info("hello"), nil},
	} {
		t.Run(name, func(t *testing.T) {
			err := amboy.RunJob(t.Context(), logger.NewSendMessageJob(test.message, test.sender))
			require.ErrorContains(t, err, "must not be nil")
		})
	}
	assert.Empty(t, r.recorded())
}

func TestMessageIsLostBecauseTheContextOfItsJobHasEnded(t *testing.T) {
	r := newRecorder(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("shutting down"))
	j := logger.NewSendMessageJob(info("stopping"), r)
	j.Run(ctx)
	require.NoError(t, j.Error())
	assert.True(t, j.Status().Completed)
	assert.Equal(t, []string{"stopping"}, r.recorded())
}

func TestSendMessageJobCannotBeStored(t *testing.T) {
	_, err := registry.MakeJobInterchange(logger.NewSendMessageJob(info("hello"), newRecorder(t)), amboy.BSON)
	require.ErrorIs(t, err, registry.ErrUnknownType)
}
