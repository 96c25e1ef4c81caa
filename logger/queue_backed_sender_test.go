package logger_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/mongodb/grip/send"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mongodb/amboy"
	"github.com/mongodb/amboy/logger"
)

func TestQueueBackedSenderRefusesBadInput(t *testing.T) {
	r := newRecorder(t)
	for name, test := range map[string]struct {
		sender            send.Sender
		workers, capacity int
		want              []string
	}{
		"no sender":         {nil, 1, 1, []string{"sender must not be nil"}},
		"no workers":        {r, 0, 1, []string{"workers must be at least 1 (is 0)"}},
		"negative workers":  {r, -2, 1, []string{"workers must be at least 1 (is -2)"}},
		"no capacity":       {r, 1, 0, []string{"capacity must be at least 1 (is 0)"}},
		"negative capacity": {r, 1, -1, []string{"capacity must be at least 1 (is -1)"}},
		"all":               {nil, 0, 0, []string{"sender", "workers", "capacity"}},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := logger.NewQueueBackedSender(t.Context(), test.sender, test.workers, test.capacity)
			assert.Nil(t, s)
			for _, want := range test.want {
				require.ErrorContains(t, err, want)
			}
		})
	}
	assert.Empty(t, r.recorded())
}

func TestQueueBackedSenderKeepsOrder(t *testing.T) {
	r := newRecorder(t)
	s, err := logger.NewQueueBackedSender(t.Context(), r, 1, 100)
	require.NoError(t, err)
	var want []string
	for n := range 50 {
		text := fmt.Sprint("message ", n)
		s.Send(t.Context(), info(text))
		want = append(want, text)
	}
	require.NoError(t, s.Flush(t.Context()))
	require.NoError(t, s.Close())
	assert.Equal(t, append(want, "flush", "close"), r.recorded())
}

func TestQueueBackedSenderConcurrently(t *testing.T) {
	const goroutines, messages = 8, 50
	r := newRecorder(t)
	s, err := logger.NewQueueBackedSender(t.Context(), r, 4, 8)
	require.NoError(t, err)
	var running sync.WaitGroup
	for range goroutines {
		running.Go(func() {
			for range messages {
				s.Send(t.Context(), info("text"))
			}
		})
	}
	running.Wait()
	require.NoError(t, s.Close())
	assert.Len(t, r.recorded(), goroutines*messages+1)
	assert.Empty(t, r.handled())
}

func TestQueueBackedSenderBlocksWhileFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRecorder(t)
		r.gate = make(chan struct{})
		s, err := logger.NewQueueBackedSender(t.Context(), r, 1, 1)
		require.NoError(t, err)
		s.Send(t.Context(), info("running"))
		synctest.Wait()
		s.Send(t.Context(), info("waiting"))

		sent := make(chan struct{})
		go func() {
			defer close(sent)
			s.Send(t.Context(), info("third"))
		}()
		synctest.Wait()
		select {
		case <-sent:
			assert.Fail(t, "there was no room")
		default:
		}
		r.gate <- struct{}{}
		<-sent
		close(r.gate)
		require.NoError(t, s.Close())
		assert.Equal(t, []string{"running", "waiting", "third", "close"}, r.recorded())
	})
}

func TestQueueBackedSenderCloseDrains(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRecorder(t)
		r.gate = make(chan struct{})
		r.closeErr = errors.New("no connection")
		s, err := logger.NewQueueBackedSender(t.Context(), r, 1, 10)
		require.NoError(t, err)
		s.Send(t.Context(), info("one"))
		s.Send(t.Context(), info("two"))
		closed := make(chan error, 1)
		go func() { closed <- s.Close() }()
		synctest.Wait()
		assert.Empty(t, closed)
		close(r.gate)
		require.ErrorIs(t, <-closed, r.closeErr)
		require.ErrorIs(t, s.Close(), r.closeErr, "closing again closes nothing")
		assert.Equal(t, []string{"one", "two", "close"}, r.recorded())

		s.Send(t.Context(), info("late"))
		require.Len(t, r.handled(), 1)
		require.ErrorIs(t, r.handled()[0], amboy.ErrQueueClosed)
	})
}

// A service that logs faster than its messages are sent could not close the sender.
func TestQueueBackedSenderCloseWaitedForMessagesThatArrivedMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRecorder(t)
		r.gate = make(chan struct{})
		s, err := logger.NewQueueBackedSender(t.Context(), r, 1, 1)
		require.NoError(t, err)
		for _, text := range []string{"running", "waiting", "waiting for room"} {
			go s.Send(t.Context(), info(text))
			synctest.Wait()
		}
		closed := make(chan error, 1)
		go func() { closed <- s.Close() }()
		synctest.Wait()
		s.Send(t.Context(), info("late"))
		require.Len(t, r.handled(), 1)
		require.ErrorIs(t, r.handled()[0], amboy.ErrQueueClosed)
		close(r.gate)
		require.NoError(t, <-closed)
		assert.Equal(t, []string{"error for late", "running", "waiting", "waiting for room", "close"}, r.recorded())
	})
}

func TestQueueBackedSenderWhoseContextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		r := newRecorder(t)
		r.gate = make(chan struct{})
		s, err := logger.NewQueueBackedSender(ctx, r, 1, 10)
		require.NoError(t, err)
		for _, text := range []string{"running", "left", "left too"} {
			s.Send(t.Context(), info(text))
		}
		synctest.Wait()
		cancel()
		closed := make(chan error, 1)
		go func() { closed <- s.Close() }()
		synctest.Wait()
		assert.Empty(t, closed, "the message that is being sent can't be called back")
		close(r.gate)
		require.ErrorContains(t, <-closed, "3 messages may not have been sent", "the one that was interrupted is counted")
		assert.Equal(t, []string{"running", "close"}, r.recorded())
	})
}
