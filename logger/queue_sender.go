// Package logger provides senders for grip: one that sends messages through a queue, so that code
// that logs does not wait for a slow logging service, and one that writes to log/slog.
//
// A sender made by NewQueueBackedSender can be grip's own sender (see grip.SetSender),
// because this library logs nothing about its queue. A sender made by MakeQueueSender
// can't: at level debug each start and end of a job of its queue is a message, and sending
// it is another job, so the queue would never be idle. For the same reason the jobs of a
// queue must not log through that queue: a worker that logs waits for room in it, and if
// all workers wait, no room becomes free.
package logger

import (
	"context"
	"fmt"

	"github.com/mongodb/grip/message"
	"github.com/mongodb/grip/send"

	"github.com/mongodb/amboy"
)

// MakeQueueSender returns a sender that puts a job on a queue for each message (see
// NewSendMessageJob). The job sends the message with the given sender, whose name, level,
// formatter and error handler the returned sender shares. Neither argument may be nil. The
// returned sender is safe for concurrent use if the given sender is.
//
// Send ignores messages below the level. It blocks while the queue is full, until the ctx
// given here ends. The context of the call only provides values for the message: a message
// logged at shutdown is sent even though the logging context has ended. A message that
// can't be put goes to the sender's error handler. Flush waits for all jobs of the queue,
// including other jobs, and then flushes the given sender. Close closes neither the queue
// nor the given sender.
func MakeQueueSender(ctx context.Context, q amboy.Queue, sender send.Sender) send.Sender {
	return &queueSender{Sender: sender, ctx: ctx, queue: q}
}

// queueSender holds a context because Send is not given one.
type queueSender struct {
	send.Sender

	ctx   context.Context
	queue amboy.Queue
}

func (s *queueSender) Send(ctx context.Context, m message.Composer) {
	if !s.Level().ShouldLog(m) {
		return
	}
	if err := s.queue.Put(s.ctx, newSendMessageJob(ctx, m, s.Sender)); err != nil { //nolint:contextcheck // ctx may have ended
		s.refuse(ctx, m, err)
	}
}

// refuse passes a message that can't be put to the error handler.
func (s *queueSender) refuse(ctx context.Context, m message.Composer, err error) {
	s.ErrorHandler()(context.WithoutCancel(ctx), fmt.Errorf("queueing a log message for sender %q: %w", s.Name(), err), m)
}

func (s *queueSender) Flush(ctx context.Context) error {
	if !amboy.Wait(ctx, s.queue) {
		err := context.Cause(ctx)
		if err == nil {
			err = amboy.ErrQueueClosed
		}
		return fmt.Errorf("flushing sender %q: waiting for its queue: %w", s.Name(), err)
	}
	return s.Sender.Flush(ctx)
}

func (s *queueSender) Close() error { return nil }
