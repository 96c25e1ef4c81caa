// Package logger sends log messages through a queue, so that whoever logs does
// not wait for a slow logging service.
//
// What this library logs about the queue of a NewQueueBackedSender is left out,
// so that such a sender can be grip's own (see grip.SetSender). That of a
// MakeQueueSender can't: at level debug each start and end of a job of its queue
// is a message, whose sending is a job in turn, so that the queue is never done.
// Nor may the jobs of a queue log through that queue: a worker that logs waits
// for room in it, and while all of them wait there will be none.
package logger

import (
	"context"
	"fmt"

	"github.com/mongodb/grip/message"
	"github.com/mongodb/grip/send"

	"github.com/mongodb/amboy"
)

// MakeQueueSender returns a sender that puts a job on a queue for each message
// (see NewSendMessageJob), which sends the message with the given sender. Name,
// level, formatter and error handler are those of the given sender. Neither
// argument may be nil. It is safe for concurrent use where the given sender is.
//
// Send leaves messages out that the level excludes. It blocks while the queue
// is full, until the ctx given here ends. That of the call only lends its values
// to the message: what is logged at shutdown is sent although the logging
// context has ended. A message that can't be put goes to the sender's error
// handler. Flush waits for all jobs of the queue, whoever put them, and
// then flushes the given sender. Close closes neither the queue nor the given
// sender.
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
		s.ErrorHandler()(context.WithoutCancel(ctx), fmt.Errorf("queueing a log message for sender %q: %w", s.Name(), err), m)
	}
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
