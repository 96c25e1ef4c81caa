package logger_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/mongodb/grip/level"
	"github.com/mongodb/grip/message"
	"github.com/mongodb/grip/send"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/logger"
	"github.com/mongodb/amboy/queue"
)

func startQueue(t *testing.T, ctx context.Context) amboy.Queue { //nolint:revive // t comes first in helpers
	t.Helper()
	q := queue.NewLocalLimitedSize(1, 16)
	require.NoError(t, q.Start(ctx))
	return q
}

func TestQueueSender(t *testing.T) {
	r := newRecorder(t)
	q := startQueue(t, t.Context())
	defer q.Close(t.Context())
	s := logger.MakeQueueSender(t.Context(), q, r)

	s.Send(t.Context(), info("one"))
	s.Send(t.Context(), info("two"))
	require.NoError(t, s.Flush(t.Context()))
	assert.Equal(t, []string{"one", "two", "flush"}, r.recorded())

	require.NoError(t, s.Close())
	assert.True(t, q.Info().Started, "the queue is the caller's")
	assert.NotContains(t, r.recorded(), "close", "the sender is the caller's")
	assert.Empty(t, r.handled())
}

func TestQueueSenderSharesNameAndLevelOfTheGivenSender(t *testing.T) {
	r := newRecorder(t)
	s := logger.MakeQueueSender(t.Context(), queue.NewLocalLimitedSize(1, 1), r)
	assert.Equal(t, "recorder", s.Name())
	s.SetName("renamed")
	assert.Equal(t, "renamed", r.Name())
	want := send.LevelInfo{Default: level.Debug, Threshold: level.Error}
	require.NoError(t, s.SetLevel(want))
	assert.Equal(t, want, r.Level())
}

func TestQueueSenderRespectsLevel(t *testing.T) {
	for name, test := range map[string]struct {
		message message.Composer
		put     int
	}{
		"below":         {message.NewDefaultMessage(level.Debug, "text"), 0},
		"at":            {message.NewDefaultMessage(level.Info, "text"), 1},
		"above":         {message.NewDefaultMessage(level.Emergency, "text"), 1},
		"empty message": {message.NewDefaultMessage(level.Emergency, ""), 0},
	} {
		t.Run(name, func(t *testing.T) {
			q := startQueue(t, t.Context())
			defer q.Close(t.Context())
			logger.MakeQueueSender(t.Context(), q, newRecorder(t)).Send(t.Context(), test.message)
			assert.Equal(t, test.put, q.Stats(t.Context()).Total)
		})
	}
}

func TestQueueSenderReportsMessagesThatItCouldNotPut(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for name, test := range map[string]struct {
		ctx   context.Context
		start bool
		want  error
	}{
		"queue is not started": {t.Context(), false, amboy.ErrQueueNotStarted},
		"context has ended":    {ended, true, context.Canceled},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRecorder(t)
			q := queue.NewLocalLimitedSize(1, 1)
			if test.start {
				require.NoError(t, q.Start(t.Context()))
				defer q.Close(t.Context())
			}
			logger.MakeQueueSender(test.ctx, q, r).Send(t.Context(), info("lost"))
			require.Len(t, r.handled(), 1)
			require.ErrorIs(t, r.handled()[0], test.want)
			require.ErrorContains(t, r.handled()[0], `sender "recorder"`)
			assert.Equal(t, []string{"error for lost"}, r.recorded())
		})
	}
}

func TestMessageIsLostBecauseTheLoggingContextHasEnded(t *testing.T) {
	r := newRecorder(t)
	q := startQueue(t, t.Context())
	defer q.Close(t.Context())
	s := logger.MakeQueueSender(t.Context(), q, r)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	s.Send(ended, info("stopping"))
	require.NoError(t, s.Flush(t.Context()))
	assert.Equal(t, []string{"stopping", "flush"}, r.recorded())
	assert.Empty(t, r.handled())
}

func TestQueueSenderFlushWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRecorder(t)
		r.gate = make(chan struct{})
		q := startQueue(t, t.Context())
		defer q.Close(t.Context())
		s := logger.MakeQueueSender(t.Context(), q, r)
		s.Send(t.Context(), info("slow"))

		ctx, cancel := context.WithCancelCause(t.Context())
		flushed := make(chan error, 2)
		go func() { flushed <- s.Flush(ctx) }()
		synctest.Wait()
		assert.Empty(t, flushed)
		errImpatient := errors.New("impatient")
		cancel(errImpatient)
		require.ErrorIs(t, <-flushed, errImpatient)
		assert.Empty(t, r.recorded())

		go func() { flushed <- s.Flush(t.Context()) }()
		synctest.Wait()
		assert.Empty(t, flushed)
		close(r.gate)
		require.NoError(t, <-flushed)
		assert.Equal(t, []string{"slow", "flush"}, r.recorded())
	})
}

func TestQueueSenderFlushErrors(t *testing.T) {
	t.Run("of the sender", func(t *testing.T) {
		r := newRecorder(t)
		r.flushErr = errors.New("no connection")
		q := startQueue(t, t.Context())
		defer q.Close(t.Context())
		require.ErrorIs(t, logger.MakeQueueSender(t.Context(), q, r).Flush(t.Context()), r.flushErr)
	})
	t.Run("queue closed with messages", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := newRecorder(t)
			r.gate = make(chan struct{})
			q := startQueue(t, t.Context())
			s := logger.MakeQueueSender(t.Context(), q, r)
			s.Send(t.Context(), info("sent"))
			s.Send(t.Context(), info("left"))
			synctest.Wait()
			closed := make(chan struct{})
			go func() {
				defer close(closed)
				q.Close(t.Context())
			}()
			synctest.Wait()
			close(r.gate)
			<-closed
			require.ErrorIs(t, s.Flush(t.Context()), amboy.ErrQueueClosed)
			assert.Equal(t, []string{"sent"}, r.recorded())
		})
	})
}
